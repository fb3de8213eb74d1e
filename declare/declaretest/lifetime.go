package declaretest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/queencell/queencell/declare"
)

func testClosed(t *testing.T, s declare.Store) {
	put(t, s, "t", "a", `{}`)
	for range 2 {
		closeStore(t, s)
		_, err := s.Put(t.Context(), "t", "a", []byte(`{}`))
		checkKind(t, err, declare.ErrUnavailable)
		_, _, err = s.Delete(t.Context(), "t", "a")
		checkKind(t, err, declare.ErrUnavailable)
		_, err = s.SetSwitch(t.Context(), false)
		checkKind(t, err, declare.ErrUnavailable)
		_, err = s.Load(t.Context(), 0)
		checkKind(t, err, declare.ErrUnavailable)
	}
}

// Close comes while others write and read: they succeed or find it closed, and nothing hangs.
func testClosedOnTheWay(t *testing.T, s declare.Store) {
	var closing sync.WaitGroup
	var written atomic.Int64
	var once sync.Once
	race(func(w int) {
		for i := 0; ; i++ {
			_, err := s.Put(t.Context(), "t", fmt.Sprintf("q%d-%d", w, i), []byte(`{}`))
			if err == nil {
				_, err = s.Load(t.Context(), 0)
			}
			if err != nil {
				checkKind(t, err, declare.ErrUnavailable)
				return
			}
			if written.Add(1) == 2*writers {
				once.Do(func() { closing.Go(func() { closeStore(t, s) }) })
			}
		}
	})
	closing.Wait()
}

func testReopened(t *testing.T, open Open, reopen Reopen) {
	s := open(t)
	defer func() { closeStore(t, s) }()
	s = reopen(t, s)
	checkFull(t, load(t, s, 0))

	v1 := put(t, s, "t", `q"/😀`, ` {"maxLength" : 1} `)
	v2 := put(t, s, "t", "b", `{}`)
	v3, err := s.SetSwitch(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	_, v4 := remove(t, s, "t", "b")
	old := s
	s = reopen(t, s)
	if _, err := old.Load(t.Context(), 0); !errors.Is(err, declare.ErrUnavailable) {
		t.Errorf("the old store answered %v, want ErrUnavailable", err)
	}

	snap := load(t, s, 0)
	checkFull(t, snap, declaration("t", `q"/😀`, ` {"maxLength" : 1} `, v1))
	if snap.Version != v4 || snap.Switch != (declare.Switch{Version: v3}) {
		t.Errorf("version %d and switch %+v, want %d and off at %d", snap.Version, snap.Switch, v4, v3)
	}
	// Who knew version v2 before the restart learns what came after it.
	known := map[[2]string]declare.Declaration{
		{"t", `q"/😀`}: snap.Declarations[0],
		{"t", "b"}:    declaration("t", "b", `{}`, v2),
	}
	follow(known, load(t, s, v2))
	checkKnown(t, s, known)
	// The highest version belonged to a delete, of which nothing else is left: it must not be given out again.
	if v5 := put(t, s, "t", "b", `{}`); v5 <= v4 {
		t.Errorf("version %d after reopening, want above %d", v5, v4)
	}
}
