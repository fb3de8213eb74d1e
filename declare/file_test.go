//go:build unix

package declare_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/queencell/queencell/declare"
)

// checkRefused opens path, which must fail within a second (twice that here, for a busy machine) with an error that
// names the file and says why.
func checkRefused(t *testing.T, path, why string) error {
	t.Helper()
	begin := time.Now()
	s, err := declare.OpenFile(path)
	if err == nil {
		closeFile(t, s)
		t.Fatalf("%s was opened, want %q", path, why)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("it took %v to refuse", took)
	}
	if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), why) {
		t.Errorf("error %q, want one with %q and %q", err, path, why)
	}
	return err
}

func TestFileInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	cmd := startChild(t, "hold", path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "open\n" {
		t.Errorf("the other process said %q", line)
	}
	if err := checkRefused(t, path, "another broker"); !errors.Is(err, declare.ErrInUse) {
		t.Errorf("error %v, want ErrInUse", err)
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	// The refused opening has harmed nothing.
	contents(t, path)
}

func TestFileInUseHere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := openFile(t, path)
	defer closeFile(t, s)
	if err := checkRefused(t, path, "another broker"); !errors.Is(err, declare.ErrInUse) {
		t.Errorf("error %v, want ErrInUse", err)
	}
	if _, err := s.Put(t.Context(), "t", "a", []byte(`{}`)); err != nil {
		t.Error(err)
	}
}

func TestFileNotAStore(t *testing.T) {
	for name, content := range map[string]string{
		"short":   "hello\n",
		"page":    strings.Repeat("hello, I am a letter\n", 1000),
		"zeros":   string(make([]byte, 64<<10)),
		"sqlite":  "SQLite format 3\x00" + string(make([]byte, 8<<10)),
		"one odd": "x",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			write(t, path, []byte(content))
			if err := checkRefused(t, path, "not a store"); !errors.Is(err, declare.ErrDamaged) {
				t.Errorf("error %v, want ErrDamaged", err)
			}
			if after, _ := os.ReadFile(path); string(after) != content {
				t.Error("the file was changed")
			}
		})
	}
}

func TestFilePaths(t *testing.T) {
	dir := t.TempDir()
	checkRefused(t, dir, "directory")
	checkRefused(t, filepath.Join(dir, "none", "store.db"), "no such file")
	write(t, filepath.Join(dir, "file"), nil)
	checkRefused(t, filepath.Join(dir, "file", "store.db"), "not a directory")
	checkRefused(t, "/dev/null", "not a regular file")
	if os.Geteuid() == 0 {
		t.Skip("root may open everything")
	}
	closed := filepath.Join(dir, "closed")
	write(t, closed, nil)
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	checkRefused(t, closed, "permission denied")
}

func TestFileMode(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	closeFile(t, openFile(t, path))
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v, %v; want the store alone", entries, err)
	}
}

// An empty file is what a mount in a container leaves; it becomes a store and stays in place.
func TestFileEmpty(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	write(t, path, nil)
	if snap := contents(t, path); !snap.Full || snap.Version != 0 {
		t.Errorf("got %+v, want an empty store", snap)
	}
}

func TestFileLayout(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*bbolt.Tx) error
		why   string
	}{
		"newer": {func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("meta")).Put([]byte("layout"), binary.BigEndian.AppendUint64(nil, 2))
		}, "newer version"},
		"no layout": {func(tx *bbolt.Tx) error { return tx.Bucket([]byte("meta")).Delete([]byte("layout")) }, "no layout"},
		"no bucket": {func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("declarations")) }, "bucket is missing"},
		"no version": {func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("meta")).Put([]byte("version"), []byte("1"))
		}, "no version"},
		"another's": {func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("meta")) }, "something else"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			fill(t, path, 1)
			spoil(t, path, tc.spoil)
			before, _ := os.ReadFile(path)
			checkRefused(t, path, tc.why)
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
}

// Either of the two headers is enough; with both gone the file is refused.
func TestFileHeaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	fill(t, path, 10)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	for header := range 2 {
		data := []byte(string(whole))
		clear(data[header*page+16 : header*page+80])
		write(t, path, data)
		// The older header leads to the state before the last write.
		if snap := contents(t, path); snap.Version < 9 || len(snap.Declarations) != int(snap.Version) {
			t.Errorf("without header %d: version %d with %d declarations", header, snap.Version, len(snap.Declarations))
		}
	}
	data := []byte(string(whole))
	clear(data[:2*page])
	write(t, path, data)
	if err := checkRefused(t, path, "damaged"); !errors.Is(err, declare.ErrDamaged) {
		t.Errorf("error %v, want ErrDamaged", err)
	}
}

// Damage behind a good header costs the store, not the process: it is told when the file is opened or first read.
func TestFileDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	fill(t, path, 300)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	noise := []byte(string(whole))
	for i := 2 * page; i < len(noise); i++ {
		noise[i] = byte(i*7 + i>>8)
	}
	for name, data := range map[string][]byte{
		"noise":     noise,
		"cut short": whole[:4*page],
		"headers":   whole[:2*page],
	} {
		t.Run(name, func(t *testing.T) {
			write(t, path, data)
			s, err := declare.OpenFile(path)
			if err == nil {
				defer closeFile(t, s)
				_, err = s.Load(t.Context(), 0)
				if !errors.Is(err, declare.ErrUnavailable) {
					t.Errorf("Load: %v, want ErrUnavailable", err)
				}
				if _, err := s.Put(t.Context(), "t", "a", []byte(`{}`)); err == nil {
					t.Error("Put went through")
				}
			}
			if !errors.Is(err, declare.ErrDamaged) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want ErrDamaged with the file's name", err)
			}
		})
	}
}

// Each page in turn is overwritten. Whatever it held, the process lives, the error names the file, and the lock is given
// up at the end.
func TestFileDamagedPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	fill(t, path, 300)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	opened := 0
	for n := 2; n < min(64, len(whole)/page); n++ {
		data := []byte(string(whole))
		for i := n * page; i < (n+1)*page; i++ {
			data[i] = byte(i*7 + i>>8)
		}
		write(t, path, data)
		s, err := declare.OpenFile(path)
		if err != nil {
			if errors.Is(err, declare.ErrInUse) || !strings.Contains(err.Error(), path) {
				t.Fatalf("page %d: %v", n, err)
			}
			continue
		}
		snap, err := s.Load(t.Context(), 0)
		switch {
		case err == nil && len(snap.Declarations) != 300: // a free page was hit, or else it must not go unseen
			t.Errorf("page %d: %d declarations and no error", n, len(snap.Declarations))
		case err != nil:
			opened++
			if !errors.Is(err, declare.ErrUnavailable) || !errors.Is(err, declare.ErrDamaged) || !strings.Contains(err.Error(), path) {
				t.Errorf("page %d: Load: %v", n, err)
			}
			if _, err := s.Put(t.Context(), "t", "a", []byte(`{}`)); !errors.Is(err, declare.ErrUnavailable) {
				t.Errorf("page %d: Put: %v, want ErrUnavailable", n, err)
			}
		}
		closeFile(t, s)
	}
	if opened == 0 {
		t.Error("no damage was met by Load: the test tests nothing")
	}
}

// A hundred thousand declarations are read in well under a second; the bound is for a busy machine under -race.
func TestFileLoadsQuickly(t *testing.T) {
	const many = 100_000
	path := filepath.Join(t.TempDir(), "store.db")
	fill(t, path, 1)
	spoil(t, path, func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("declarations"))
		for i := range many - 1 {
			key := fmt.Appendf(nil, "\x01tqueue-%06d", i)
			value := append(binary.BigEndian.AppendUint64(nil, uint64(i+2)), `{"maxLength":1000,"policy":"dropOldest"}`...)
			if err := b.Put(key, value); err != nil {
				return err
			}
		}
		return tx.Bucket([]byte("meta")).Put([]byte("version"), binary.BigEndian.AppendUint64(nil, many))
	})
	begin := time.Now()
	snap := contents(t, path)
	took := time.Since(begin)
	t.Logf("opened and read in %v", took)
	if len(snap.Declarations) != many || took > 5*time.Second {
		t.Errorf("%d declarations in %v", len(snap.Declarations), took)
	}
	if last := snap.Declarations[many-1]; last.Version != many || last.Queue != fmt.Sprintf("queue-%06d", many-2) {
		t.Errorf("the last declaration is %+v", last)
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// fill makes a store with n declarations.
func fill(t *testing.T, path string, n int) {
	t.Helper()
	s := openFile(t, path)
	defer closeFile(t, s)
	for i := range n {
		if _, err := s.Put(t.Context(), "t", fmt.Sprintf("q%d", i), []byte(`{"maxLength":1000}`)); err != nil {
			t.Fatal(err)
		}
	}
}

// spoil changes the file behind the store's back.
func spoil(t *testing.T, path string, fn func(*bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(fn), db.Close()); err != nil {
		t.Fatal(err)
	}
}
