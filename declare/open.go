package declare

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

const (
	// lockWait is how long OpenFile waits for another process to let go of the file. It is well below the second
	// within which a second broker has to be refused.
	lockWait = 500 * time.Millisecond
	// mapBytes of address space (not memory) are mapped at once. Growth beyond a mapping waits for the readers.
	mapBytes = 64 << 20
	// growBytes is the step in which the file grows.
	growBytes = 1 << 20
)

// ErrInUse: another process has the file open.
var ErrInUse = errors.New("another broker is using it")

// OpenFile opens the store in the file at path and makes it when there is none. The directory must exist. Its errors
// name the file; errors.Is tells ErrInUse (after at most a second) and ErrDamaged, and a file that is refused is left
// as it is.
func OpenFile(path string) (*File, error) {
	f, err := openFile(path)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err // it would name the file twice
		}
		return nil, fmt.Errorf("store file %s: %w", path, err)
	}
	return f, nil
}

func openFile(path string) (*File, error) {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		if err := create(path); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errors.New("it is a directory")
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	}
	f := &File{path: path, writing: make(chan struct{}, 1)}
	if err := f.open(); err != nil {
		f.release()
		return nil, err
	}
	return f, nil
}

// open sets db and file; on an error the caller releases what is set.
func (f *File) open() error {
	err := guard(func() (err error) {
		f.db, err = bbolt.Open(f.path, 0o600, f.options())
		return err
	})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return ErrInUse
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case err != nil:
		return err
	}
	f.db.AllocSize = growBytes
	return guard(func() error {
		var empty bool
		err := f.db.View(func(tx *bbolt.Tx) (err error) {
			empty, err = checkLayout(tx)
			return err
		})
		if err != nil || !empty {
			return err
		}
		return f.db.Update(writeLayout)
	})
}

func (f *File) options() *bbolt.Options {
	return &bbolt.Options{
		Timeout:         lockWait,
		InitialMmapSize: mapBytes,
		FreelistType:    bbolt.FreelistMapType,
		// The list of free pages is written with each change: without it every opening would walk the whole file.
		NoFreelistSync: false,
		// Keeps the handle: after a panic there is no other way to let go of the lock.
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			file, err := os.OpenFile(name, flag, mode)
			f.file = file
			return file, err
		},
	}
}

// create makes an empty database beside path and links it into place, so that a kill on the way leaves no half of one.
// When the file system has no links, or another process was faster, the opening that follows deals with what is there.
func create(path string) error {
	dir, base := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	temp, err := os.CreateTemp(dir, base+".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	if err := temp.Close(); err != nil {
		return err
	}
	db, err := bbolt.Open(temp.Name(), 0o600, nil)
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	if os.Link(temp.Name(), path) != nil {
		return nil
	}
	return syncDir(dir)
}

// syncDir makes a new name in dir survive a loss of power.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// errPanicked marks what guard turned into an error: the database's own state can't be relied on any more.
var errPanicked = errors.New("the database gave up")

// guard turns a panic of the database into an error, and so a read of a page that is not there: a damaged or truncated
// file may cost the store, never the traffic.
func guard(fn func() error) (err error) {
	before := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(before)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %w: %v", ErrDamaged, errPanicked, p)
		}
	}()
	return fn()
}
