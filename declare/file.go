package declare

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// File is a store in one embedded file. OpenFile makes one.
type File struct {
	path string
	db   *bbolt.DB
	file *os.File // db's own handle
	// writing holds one token: the writer's. Unlike db's lock it can be waited for under a context.
	writing chan struct{}
	// broken is set once the database has panicked; its locks may be held for ever.
	broken atomic.Bool
	once   sync.Once
}

// Load implements Store.
func (f *File) Load(ctx context.Context, since uint64) (Snapshot, error) {
	var s Snapshot
	err := f.view(ctx, func(b buckets) (err error) {
		s = Snapshot{}
		if s.Version, err = b.version(); err != nil {
			return err
		}
		if s.Switch, err = b.readSwitch(); err != nil {
			return err
		}
		if canTell(since, s.Version) {
			return loadChanges(b, since, &s)
		}
		s.Full = true
		return loadAll(ctx, b, &s)
	})
	if err != nil {
		return Snapshot{}, err
	}
	sortByVersion(s.Declarations)
	return s, nil
}

func loadAll(ctx context.Context, b buckets, s *Snapshot) error {
	c := b.declarations.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		d, err := decodeDeclaration(k, v)
		if err != nil {
			return err
		}
		s.Declarations = append(s.Declarations, d)
		if len(s.Declarations)%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func loadChanges(b buckets, since uint64, s *Snapshot) error {
	c := b.log.Cursor()
	for k, v := c.Seek(encodeUint(since + 1)); k != nil; k, v = c.Next() {
		version, err := decodeUint(k)
		if err != nil || len(v) == 0 {
			return fmt.Errorf("%w: an entry of the log", ErrDamaged)
		}
		kind, key := changeKind(v[0]), v[1:]
		switch kind {
		case changePut:
			value := b.declarations.Get(key)
			if len(value) < 8 || binary.BigEndian.Uint64(value) != version {
				continue // deleted or replaced: that stands further on in the log
			}
			d, err := decodeDeclaration(key, value)
			if err != nil {
				return err
			}
			s.Declarations = append(s.Declarations, d)
		case changeDelete:
			tenant, queue, err := decodeKey(key)
			if err != nil {
				return err
			}
			s.Deleted = append(s.Deleted, Deletion{Tenant: tenant, Queue: queue, Version: version})
		}
	}
	return nil
}

// Put implements Store.
func (f *File) Put(ctx context.Context, tenant, queue string, options []byte) (uint64, error) {
	if err := checkNames(tenant, queue); err != nil {
		return 0, err
	}
	if err := checkOptions(options); err != nil {
		return 0, err
	}
	key := encodeKey(tenant, queue)
	return f.update(ctx, changePut, key, func(b buckets, version uint64) error {
		return b.declarations.Put(key, encodeDeclaration(version, options))
	})
}

// Delete implements Store. A queue that is not declared costs a look, no write to the disk.
func (f *File) Delete(ctx context.Context, tenant, queue string) (bool, uint64, error) {
	if err := checkNames(tenant, queue); err != nil {
		return false, 0, err
	}
	key := encodeKey(tenant, queue)
	var version uint64
	var declared bool
	err := f.view(ctx, func(b buckets) (err error) {
		declared = b.declarations.Get(key) != nil
		version, err = b.version()
		return err
	})
	if err != nil || !declared {
		return false, version, err
	}
	version, err = f.update(ctx, changeDelete, key, func(b buckets, next uint64) error {
		if b.declarations.Get(key) == nil { // another Delete came between
			version = next - 1
			return errNothing
		}
		return b.declarations.Delete(key)
	})
	if errors.Is(err, errNothing) {
		return false, version, nil
	}
	return err == nil, version, err
}

// SetSwitch implements Store.
func (f *File) SetSwitch(ctx context.Context, enabled bool) (uint64, error) {
	return f.update(ctx, changeSwitch, nil, func(b buckets, version uint64) error {
		return b.meta.Put(keySwitch, encodeSwitch(Switch{Enabled: enabled, Version: version}))
	})
}

// Close implements Store. It gives the file up for other processes.
func (f *File) Close() error {
	var err error
	f.once.Do(func() { err = f.release() })
	return err
}

func (f *File) release() error {
	if f.db != nil && !f.broken.Load() {
		return f.db.Close()
	}
	if f.file != nil {
		unlock(f.file)
		_ = f.file.Close() // it may be closed already, by an opening that failed
	}
	return nil
}

// errNothing takes a transaction back that turned out to have nothing to do.
var errNothing = errors.New("nothing to do")

// view runs fn on what is stored now.
func (f *File) view(ctx context.Context, fn func(buckets) error) error {
	if err := f.usable(ctx); err != nil {
		return err
	}
	err := f.guarded(func() error {
		return f.db.View(func(tx *bbolt.Tx) error {
			b, err := bucketsOf(tx)
			if err != nil {
				return err
			}
			return fn(b)
		})
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, berrors.ErrDatabaseNotOpen):
		return unavailable(errClosed)
	default:
		return unavailable(fmt.Errorf("store file %s: %w", f.path, err))
	}
}

// update runs fn in a transaction that takes the next version and logs the change, and waits until it is on the disk.
func (f *File) update(ctx context.Context, kind changeKind, key []byte, fn func(buckets, uint64) error) (uint64, error) {
	select {
	case f.writing <- struct{}{}:
		defer func() { <-f.writing }()
	case <-ctx.Done():
		return 0, unavailable(ctx.Err())
	}
	if err := f.usable(ctx); err != nil {
		return 0, err
	}
	var version uint64
	ready := false // to be committed: from here on an error does not tell what happened
	err := f.guarded(func() error {
		return f.db.Update(func(tx *bbolt.Tx) error {
			b, err := bucketsOf(tx)
			if err != nil {
				return err
			}
			if version, err = b.version(); err != nil {
				return err
			}
			version++
			if err := fn(b, version); err != nil {
				return err
			}
			if err := b.record(kind, key, version); err != nil {
				return err
			}
			ready = true
			return nil
		})
	})
	switch {
	case err == nil:
		return version, nil
	case errors.Is(err, berrors.ErrDatabaseNotOpen):
		return 0, unavailable(errClosed)
	}
	err = fmt.Errorf("store file %s: %w", f.path, err)
	if !ready || f.stillBelow(version) {
		return 0, refused(err)
	}
	return 0, unknownOutcome(err)
}

// record writes the version and the log's entry, and forgets the entry that has become too old.
func (b buckets) record(kind changeKind, key []byte, version uint64) error {
	if err := b.meta.Put(keyVersion, encodeUint(version)); err != nil {
		return err
	}
	if version > ChangesKept {
		if err := b.log.Delete(encodeUint(version - ChangesKept)); err != nil {
			return err
		}
	}
	return b.log.Put(encodeUint(version), bytes.Join([][]byte{{byte(kind)}, key}, nil))
}

// stillBelow says whether a commit that failed to take version has certainly left no trace: the page that would make
// it valid was not written. Written but perhaps not on the disk does not count as certain.
func (f *File) stillBelow(version uint64) bool {
	var now uint64
	err := f.view(context.Background(), func(b buckets) (err error) {
		now, err = b.version()
		return err
	})
	return err == nil && now < version
}

func (f *File) guarded(fn func() error) error {
	err := guard(fn)
	if errors.Is(err, errPanicked) {
		f.broken.Store(true)
	}
	return err
}

func (f *File) usable(ctx context.Context) error {
	if f.broken.Load() {
		return unavailable(fmt.Errorf("store file %s: %w", f.path, ErrDamaged))
	}
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	return nil
}
