package declare

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

// layout is the number of the file's layout that doc.go describes.
const layout = 1

var (
	bucketMeta         = []byte("meta")
	bucketDeclarations = []byte("declarations")
	bucketLog          = []byte("log")

	keyLayout  = []byte("layout")
	keyVersion = []byte("version")
	keySwitch  = []byte("switch")

	// ErrDamaged: the file is not a store of declarations, or is one whose content does not make sense.
	ErrDamaged = errors.New("it is not a store of declarations, or it is damaged")
)

// buckets are the file's, in one transaction.
type buckets struct{ meta, declarations, log *bbolt.Bucket }

func bucketsOf(tx *bbolt.Tx) (buckets, error) {
	b := buckets{tx.Bucket(bucketMeta), tx.Bucket(bucketDeclarations), tx.Bucket(bucketLog)}
	if b.meta == nil || b.declarations == nil || b.log == nil {
		return buckets{}, fmt.Errorf("%w: a bucket is missing", ErrDamaged)
	}
	return b, nil
}

// checkLayout returns whether the file has no content yet, and an error when the content is not ours.
func checkLayout(tx *bbolt.Tx) (empty bool, err error) {
	if k, _ := tx.Cursor().First(); k == nil {
		return true, nil
	}
	meta := tx.Bucket(bucketMeta)
	if meta == nil {
		return false, fmt.Errorf("%w: it is a database of something else", ErrDamaged)
	}
	got, err := decodeUint(meta.Get(keyLayout))
	if err != nil || got == 0 {
		return false, fmt.Errorf("%w: it has no layout number", ErrDamaged)
	}
	if got > layout {
		return false, fmt.Errorf("it was written by a newer version of the broker (layout %d, this one knows %d)", got, layout)
	}
	b, err := bucketsOf(tx)
	if err != nil {
		return false, err
	}
	_, err = b.version()
	return false, err
}

// writeLayout makes the buckets of an empty file.
func writeLayout(tx *bbolt.Tx) error {
	for _, name := range [][]byte{bucketMeta, bucketDeclarations, bucketLog} {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	meta := tx.Bucket(bucketMeta)
	if err := meta.Put(keyVersion, encodeUint(0)); err != nil {
		return err
	}
	return meta.Put(keyLayout, encodeUint(layout))
}

func (b buckets) version() (uint64, error) {
	v, err := decodeUint(b.meta.Get(keyVersion))
	if err != nil {
		return 0, fmt.Errorf("%w: it has no version", ErrDamaged)
	}
	return v, nil
}

func (b buckets) readSwitch() (Switch, error) {
	v := b.meta.Get(keySwitch)
	switch {
	case v == nil:
		return Switch{Enabled: true}, nil
	case len(v) != 9 || v[0] > 1:
		return Switch{}, fmt.Errorf("%w: the switch", ErrDamaged)
	}
	return Switch{Enabled: v[0] == 1, Version: binary.BigEndian.Uint64(v[1:])}, nil
}

func encodeSwitch(s Switch) []byte {
	v := make([]byte, 1, 9)
	if s.Enabled {
		v[0] = 1
	}
	return binary.BigEndian.AppendUint64(v, s.Version)
}

// encodeKey joins the two names. The length in front keeps ("a", "bc") and ("ab", "c") apart, whatever they hold.
func encodeKey(tenant, queue string) []byte {
	k := make([]byte, 0, 1+len(tenant)+len(queue))
	k = append(k, byte(len(tenant)))
	k = append(k, tenant...)
	return append(k, queue...)
}

func decodeKey(k []byte) (tenant, queue string, err error) {
	if len(k) < 1 || len(k) < 1+int(k[0])+1 {
		return "", "", fmt.Errorf("%w: a declaration's name", ErrDamaged)
	}
	n := 1 + int(k[0])
	return string(k[1:n]), string(k[n:]), nil
}

func encodeDeclaration(version uint64, options []byte) []byte {
	v := make([]byte, 0, 8+len(options))
	return append(binary.BigEndian.AppendUint64(v, version), options...)
}

// decodeDeclaration copies out of the transaction's memory.
func decodeDeclaration(k, v []byte) (Declaration, error) {
	tenant, queue, err := decodeKey(k)
	if err != nil {
		return Declaration{}, err
	}
	if len(v) <= 8 {
		return Declaration{}, fmt.Errorf("%w: the declaration of %q", ErrDamaged, queue)
	}
	return Declaration{
		Tenant: tenant, Queue: queue,
		Version: binary.BigEndian.Uint64(v),
		Options: append([]byte(nil), v[8:]...),
	}, nil
}

func encodeUint(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func decodeUint(v []byte) (uint64, error) {
	if len(v) != 8 {
		return 0, ErrDamaged
	}
	return binary.BigEndian.Uint64(v), nil
}
