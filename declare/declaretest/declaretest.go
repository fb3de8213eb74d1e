// Package declaretest holds the tests that every declare.Store has to pass.
package declaretest

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/queencell/queencell/declare"
)

// Open returns an empty store. The test that asked for it is over when the store is closed.
type Open func(t *testing.T) declare.Store

// Reopen closes s and opens what it stored.
type Reopen func(t *testing.T, s declare.Store) declare.Store

// Run runs the suite. reopen is nil for a store that forgets when it is closed.
func Run(t *testing.T, open Open, reopen Reopen) {
	tests := map[string]func(*testing.T, declare.Store){
		"empty":                  testEmpty,
		"put replace delete":     testPutReplaceDelete,
		"delete of unknown":      testDeleteUnknown,
		"switch":                 testSwitch,
		"options byte for byte":  testOptionsVerbatim,
		"options are copied":     testOptionsCopied,
		"names":                  testNames,
		"bad input is refused":   testBadInput,
		"changes since":          testChangesSince,
		"too far behind":         testTooFarBehind,
		"cancelled context":      testCancelled,
		"cancelled on the way":   testCancelledOnTheWay,
		"concurrent writers":     testConcurrentWriters,
		"concurrent same queue":  testConcurrentSameQueue,
		"snapshots are complete": testSnapshotsComplete,
		"closed":                 testClosed,
		"closed on the way":      testClosedOnTheWay,
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			defer closeStore(t, s)
			tests[name](t, s)
		})
	}
	if reopen == nil {
		return
	}
	t.Run("reopened", func(t *testing.T) { testReopened(t, open, reopen) })
}

func closeStore(t *testing.T, s declare.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func load(t *testing.T, s declare.Store, since uint64) declare.Snapshot {
	t.Helper()
	snap, err := s.Load(t.Context(), since)
	if err != nil {
		t.Fatalf("Load(%d): %v", since, err)
	}
	return snap
}

func put(t *testing.T, s declare.Store, tenant, queue, options string) uint64 {
	t.Helper()
	v, err := s.Put(t.Context(), tenant, queue, []byte(options))
	if err != nil {
		t.Fatalf("Put(%q, %q): %v", tenant, queue, err)
	}
	return v
}

func remove(t *testing.T, s declare.Store, tenant, queue string) (bool, uint64) {
	t.Helper()
	existed, v, err := s.Delete(t.Context(), tenant, queue)
	if err != nil {
		t.Fatalf("Delete(%q, %q): %v", tenant, queue, err)
	}
	return existed, v
}

func declaration(tenant, queue, options string, version uint64) declare.Declaration {
	return declare.Declaration{Tenant: tenant, Queue: queue, Options: []byte(options), Version: version}
}

// checkFull fails unless snap is full and holds exactly want, in that order.
func checkFull(t *testing.T, snap declare.Snapshot, want ...declare.Declaration) {
	t.Helper()
	if !snap.Full || len(snap.Deleted) > 0 {
		t.Errorf("full %v with %d deletions, want a full snapshot, which has none", snap.Full, len(snap.Deleted))
	}
	checkDeclarations(t, snap.Declarations, want...)
}

func checkDeclarations(t *testing.T, got []declare.Declaration, want ...declare.Declaration) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(a, b declare.Declaration) bool {
		return a.Tenant == b.Tenant && a.Queue == b.Queue && string(a.Options) == string(b.Options) && a.Version == b.Version
	}) {
		t.Errorf("declarations\n got %+v\nwant %+v", got, want)
	}
}

// checkKind fails unless err is want and neither of the other two kinds.
func checkKind(t *testing.T, err, want error) {
	t.Helper()
	for _, kind := range []error{declare.ErrUnavailable, declare.ErrRefused, declare.ErrUnknownOutcome} {
		if errors.Is(err, kind) != (kind == want) {
			t.Errorf("error %v, want exactly the kind %q", err, want)
		}
	}
}
