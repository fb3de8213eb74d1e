package declaretest

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/queencell/queencell/declare"
)

// follow applies what a Load returned to what was known before, as a broker does.
func follow(known map[[2]string]declare.Declaration, snap declare.Snapshot) {
	if snap.Full {
		clear(known)
	}
	for _, d := range snap.Deleted {
		delete(known, [2]string{d.Tenant, d.Queue})
	}
	for _, d := range snap.Declarations {
		known[[2]string{d.Tenant, d.Queue}] = d
	}
}

// checkKnown fails unless known is what a full Load returns.
func checkKnown(t *testing.T, s declare.Store, known map[[2]string]declare.Declaration) {
	t.Helper()
	var got []declare.Declaration
	for _, d := range known {
		got = append(got, d)
	}
	slices.SortFunc(got, func(a, b declare.Declaration) int { return int(a.Version) - int(b.Version) })
	checkDeclarations(t, got, load(t, s, 0).Declarations...)
}

func testChangesSince(t *testing.T, s declare.Store) {
	put(t, s, "t", "kept", `{}`)
	put(t, s, "t", "replaced", `{}`)
	put(t, s, "t", "gone", `{}`)
	v := put(t, s, "t", "again", `{}`)

	same := load(t, s, v)
	if same.Version != v || len(same.Deleted) > 0 {
		t.Errorf("nothing changed, but got %+v", same)
	}
	if !same.Full && len(same.Declarations) > 0 {
		t.Errorf("nothing changed, but got %+v", same.Declarations)
	}

	known := make(map[[2]string]declare.Declaration)
	follow(known, load(t, s, 0))
	v1 := put(t, s, "t", "replaced", `{"maxLength":1}`)
	_, v2 := remove(t, s, "t", "gone")
	_, v3 := remove(t, s, "t", "again")
	v4 := put(t, s, "t", "again", `{"maxLength":2}`)
	put(t, s, "t", "brief", `{}`)
	_, v6 := remove(t, s, "t", "brief")
	v7, err := s.SetSwitch(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	snap := load(t, s, v)
	if snap.Version != v7 || snap.Switch != (declare.Switch{Version: v7}) {
		t.Errorf("version %d and switch %+v, want %d and off at it", snap.Version, snap.Switch, v7)
	}
	follow(known, snap)
	checkKnown(t, s, known)
	if !snap.Full {
		checkDeclarations(t, snap.Declarations,
			declaration("t", "replaced", `{"maxLength":1}`, v1), declaration("t", "again", `{"maxLength":2}`, v4))
		// The one that came back was deleted, and its contents with it: that must not be lost between two reads.
		want := []declare.Deletion{
			{Tenant: "t", Queue: "gone", Version: v2},
			{Tenant: "t", Queue: "again", Version: v3},
			{Tenant: "t", Queue: "brief", Version: v6},
		}
		if !slices.Equal(snap.Deleted, want) {
			t.Errorf("deleted %+v, want %+v", snap.Deleted, want)
		}
	}
	// A version this store has not reached is another store's.
	if snap := load(t, s, v7+1); !snap.Full {
		t.Errorf("a version from the future got %+v, want everything", snap)
	}
}

func testTooFarBehind(t *testing.T, s declare.Store) {
	known := make(map[[2]string]declare.Declaration)
	put(t, s, "t", "a", `{}`)
	v := put(t, s, "t", "old", `{}`)
	follow(known, load(t, s, 0))
	remove(t, s, "t", "a")
	for i := range declare.ChangesKept - 1 {
		put(t, s, "t", "b", fmt.Sprintf(`{"maxLength":%d}`, i))
	}
	// v is now exactly ChangesKept behind where versions have no gaps: the delete is the oldest change kept.
	edge := maps.Clone(known)
	follow(edge, load(t, s, v))
	checkKnown(t, s, edge)

	put(t, s, "t", "b", `{}`)
	snap := load(t, s, v)
	if !snap.Full {
		t.Errorf("a reader %d versions behind got no full snapshot", snap.Version-v)
	}
	follow(known, snap)
	checkKnown(t, s, known)
}
