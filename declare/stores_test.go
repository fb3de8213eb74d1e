package declare_test

import (
	"path/filepath"
	"testing"

	"github.com/queencell/queencell/declare"
	"github.com/queencell/queencell/declare/declaretest"
)

func TestMemory(t *testing.T) {
	declaretest.Run(t, func(*testing.T) declare.Store { return declare.OpenMemory() }, nil)
}

func TestFile(t *testing.T) {
	paths := make(map[declare.Store]string)
	declaretest.Run(t,
		func(t *testing.T) declare.Store {
			path := filepath.Join(t.TempDir(), "store.db")
			s := openFile(t, path)
			paths[s] = path
			return s
		},
		func(t *testing.T, s declare.Store) declare.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			next := openFile(t, paths[s])
			paths[next] = paths[s]
			return next
		})
}

// openFile fails the test when the store can't be opened; the caller closes it.
func openFile(t *testing.T, path string) *declare.File {
	t.Helper()
	s, err := declare.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeFile(t *testing.T, s *declare.File) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
