package declaretest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/queencell/queencell/declare"
)

const (
	writers   = 8
	perWriter = 25
)

// race runs fn in writers goroutines and waits for them.
func race(fn func(writer int)) {
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() { fn(w) })
	}
	wg.Wait()
}

// versions collects those that writes returned.
type versions struct {
	t    *testing.T
	mu   sync.Mutex
	seen map[uint64]string
}

func (v *versions) add(version uint64, what string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if other, ok := v.seen[version]; ok {
		v.t.Errorf("version %d was taken by %s and by %s", version, other, what)
	}
	v.seen[version] = what
}

func testConcurrentWriters(t *testing.T, s declare.Store) {
	all := &versions{t: t, seen: make(map[uint64]string)}
	race(func(w int) {
		var last uint64
		for i := range perWriter {
			queue := fmt.Sprintf("q%d-%d", w, i)
			v, err := s.Put(t.Context(), "t", queue, []byte(`{}`))
			if err != nil || v <= last {
				t.Errorf("Put: version %d after %d, %v", v, last, err)
			}
			last = v
			all.add(v, queue)
			if i%5 != 0 {
				continue
			}
			existed, v, err := s.Delete(t.Context(), "t", queue)
			if err != nil || !existed || v <= last {
				t.Errorf("Delete: %v at %d after %d, %v", existed, v, last, err)
			}
			last = v
			all.add(v, "the delete of "+queue)
		}
	})
	snap := load(t, s, 0)
	if want := writers * perWriter * 4 / 5; len(snap.Declarations) != want {
		t.Errorf("%d declarations, want %d", len(snap.Declarations), want)
	}
	for _, d := range snap.Declarations {
		if all.seen[d.Version] != d.Queue {
			t.Errorf("%s is stored at version %d, which was given to %q", d.Queue, d.Version, all.seen[d.Version])
		}
	}
	for v := range all.seen {
		if v > snap.Version {
			t.Errorf("version %d is above the store's %d", v, snap.Version)
		}
	}
}

// One declaration, put and deleted by all: every Put that was deleted was deleted once.
func testConcurrentSameQueue(t *testing.T, s declare.Store) {
	all := &versions{t: t, seen: make(map[uint64]string)}
	race(func(w int) {
		for i := range perWriter {
			if (w+i)%2 == 0 {
				v, err := s.Put(t.Context(), "t", "q", fmt.Appendf(nil, `{"maxLength":%d}`, w))
				if err != nil {
					t.Errorf("Put: %v", err)
				}
				all.add(v, fmt.Sprintf(`{"maxLength":%d}`, w))
				continue
			}
			existed, v, err := s.Delete(t.Context(), "t", "q")
			if err != nil {
				t.Errorf("Delete: %v", err)
			}
			if existed {
				all.add(v, "delete")
			}
		}
	})
	snap := load(t, s, 0)
	last := all.seen[snap.Version]
	if last == "delete" {
		checkFull(t, snap)
	} else {
		checkFull(t, snap, declaration("t", "q", last, snap.Version))
	}
	// A delete follows a put, with nothing between them.
	for v := uint64(1); v <= snap.Version; v++ {
		if all.seen[v] == "delete" && (all.seen[v-1] == "delete" || all.seen[v-1] == "") {
			t.Errorf("version %d deleted what was not there", v)
		}
	}
}

// Each snapshot holds every write below its version, and a reader that follows the changes misses none.
func testSnapshotsComplete(t *testing.T, s declare.Store) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		known := make(map[[2]string]declare.Declaration)
		var since uint64
		for {
			over := false
			select {
			case <-done:
				over = true
			default:
			}
			snap, err := s.Load(t.Context(), since)
			if err != nil {
				t.Errorf("Load: %v", err)
				return
			}
			if snap.Version < since {
				t.Errorf("the version fell from %d to %d", since, snap.Version)
			}
			since = snap.Version
			follow(known, snap)
			// Only puts of new queues here: as many declarations as versions.
			if uint64(len(known)) != since {
				t.Errorf("at version %d there are %d declarations", since, len(known))
				return
			}
			if over {
				return
			}
		}
	})
	race(func(w int) {
		for i := range perWriter {
			if _, err := s.Put(t.Context(), "t", fmt.Sprintf("q%d-%d", w, i), []byte(`{}`)); err != nil {
				t.Errorf("Put: %v", err)
			}
		}
	})
	close(done)
	wg.Wait()
	if snap := load(t, s, 0); len(snap.Declarations) != writers*perWriter {
		t.Errorf("%d declarations, want %d", len(snap.Declarations), writers*perWriter)
	}
}

func testCancelled(t *testing.T, s declare.Store) {
	v := put(t, s, "t", "a", `{}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check := func(what string, err error) {
		t.Helper()
		checkKind(t, err, declare.ErrUnavailable)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v does not tell that the context was cancelled", what, err)
		}
	}
	_, err := s.Put(ctx, "t", "a", []byte(`{"maxLength":1}`))
	check("Put", err)
	_, err = s.Put(ctx, "t", "b", []byte(`{}`))
	check("Put", err)
	existed, _, err := s.Delete(ctx, "t", "a")
	check("Delete", err)
	if existed {
		t.Error("Delete under a cancelled context deleted")
	}
	_, err = s.SetSwitch(ctx, false)
	check("SetSwitch", err)
	_, err = s.Load(ctx, 0)
	check("Load", err)

	snap := load(t, s, 0)
	checkFull(t, snap, declaration("t", "a", `{}`, v))
	if snap.Version != v || !snap.Switch.Enabled {
		t.Errorf("version %d and switch %+v, want %d and enabled", snap.Version, snap.Switch, v)
	}
}

// Contexts end while their writes wait for each other: what failed for certain is not there, what succeeded is.
func testCancelledOnTheWay(t *testing.T, s declare.Store) {
	var mu sync.Mutex
	outcome := make(map[string]error)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	race(func(w int) {
		for i := range perWriter {
			if w == 0 && i == perWriter/2 {
				cancel()
			}
			queue := fmt.Sprintf("q%d-%d", w, i)
			_, err := s.Put(ctx, "t", queue, []byte(`{}`))
			mu.Lock()
			outcome[queue] = err
			mu.Unlock()
		}
	})
	there := make(map[string]bool)
	for _, d := range load(t, s, 0).Declarations {
		there[d.Queue] = true
	}
	for queue, err := range outcome {
		switch {
		case err == nil && !there[queue]:
			t.Errorf("%s was put and is not there", queue)
		case errors.Is(err, declare.ErrUnknownOutcome):
		case err != nil && there[queue]:
			t.Errorf("%s is there, after %v", queue, err)
		case err != nil:
			checkKind(t, err, declare.ErrUnavailable)
		}
	}
	put(t, s, "t", "after", `{}`)
}
