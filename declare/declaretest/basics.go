package declaretest

import (
	"strings"
	"testing"

	"github.com/queencell/queencell/declare"
)

func testEmpty(t *testing.T, s declare.Store) {
	snap := load(t, s, 0)
	checkFull(t, snap)
	if snap.Version != 0 || snap.Switch != (declare.Switch{Enabled: true}) {
		t.Errorf("version %d and switch %+v, want 0 and enabled at 0", snap.Version, snap.Switch)
	}
}

func testPutReplaceDelete(t *testing.T, s declare.Store) {
	v1 := put(t, s, "t", "a", `{"maxLength":1}`)
	v2 := put(t, s, "t", "b", `{}`)
	if v1 == 0 || v2 <= v1 {
		t.Fatalf("versions %d and %d, want growing ones above 0", v1, v2)
	}
	snap := load(t, s, 0)
	checkFull(t, snap, declaration("t", "a", `{"maxLength":1}`, v1), declaration("t", "b", `{}`, v2))
	if snap.Version != v2 {
		t.Errorf("version %d, want %d", snap.Version, v2)
	}

	v3 := put(t, s, "t", "a", `{"ttlSeconds":5}`)
	if v3 <= v2 {
		t.Errorf("version %d of the replacement, want above %d", v3, v2)
	}
	// Replaced whole, and last by version.
	checkFull(t, load(t, s, 0), declaration("t", "b", `{}`, v2), declaration("t", "a", `{"ttlSeconds":5}`, v3))

	existed, v4 := remove(t, s, "t", "a")
	if !existed || v4 <= v3 {
		t.Errorf("deleted %v at %d, want true above %d", existed, v4, v3)
	}
	snap = load(t, s, 0)
	checkFull(t, snap, declaration("t", "b", `{}`, v2))
	if snap.Version != v4 {
		t.Errorf("version %d, want %d", snap.Version, v4)
	}
	if v5 := put(t, s, "t", "a", `{}`); v5 <= v4 {
		t.Errorf("version %d after the delete, want above %d", v5, v4)
	}
}

func testDeleteUnknown(t *testing.T, s declare.Store) {
	if existed, v := remove(t, s, "t", "a"); existed || v != 0 {
		t.Errorf("delete in an empty store: %v at %d, want false at 0", existed, v)
	}
	v1 := put(t, s, "t", "a", `{}`)
	if existed, v := remove(t, s, "other", "a"); existed || v != v1 {
		t.Errorf("delete of another tenant's queue: %v at %d, want false at %d", existed, v, v1)
	}
	_, v2 := remove(t, s, "t", "a")
	if existed, v := remove(t, s, "t", "a"); existed || v != v2 {
		t.Errorf("second delete: %v at %d, want false at %d", existed, v, v2)
	}
	if snap := load(t, s, 0); snap.Version != v2 {
		t.Errorf("version %d, want %d: a delete of nothing takes none", snap.Version, v2)
	}
}

func testSwitch(t *testing.T, s declare.Store) {
	last := put(t, s, "t", "a", `{}`)
	for _, enabled := range []bool{false, false, true} {
		v, err := s.SetSwitch(t.Context(), enabled)
		if err != nil || v <= last {
			t.Fatalf("SetSwitch(%v): version %d, %v; want above %d", enabled, v, err, last)
		}
		last = v
		snap := load(t, s, 0)
		if snap.Switch != (declare.Switch{Enabled: enabled, Version: v}) || snap.Version != v {
			t.Errorf("switch %+v and version %d, want %v at %d", snap.Switch, snap.Version, enabled, v)
		}
	}
	checkFull(t, load(t, s, 0), declaration("t", "a", `{}`, 1))
}

func testOptionsVerbatim(t *testing.T, s declare.Store) {
	all := []string{
		`{}`,
		" {\n\t\"ttlSeconds\" : 5 ,\r\n \"maxBytes\":1 }  ",
		`{"windowBuffer":{"ms":10,"count":2},"policy":"dropOldest","maxLength":9007199254740993}`,
		`{"z":"\u00e9é\u0000\"\\😀","a":1e3}`,
		`{"pad":"` + strings.Repeat("x", declare.MaxOptionsBytes-10) + `"}`,
	}
	want := make([]declare.Declaration, len(all))
	for i, options := range all {
		queue := string(rune('a' + i))
		want[i] = declaration("t", queue, options, put(t, s, "t", queue, options))
	}
	checkFull(t, load(t, s, 0), want...)
}

func testOptionsCopied(t *testing.T, s declare.Store) {
	mine := []byte(`{"maxLength":1}`)
	v, err := s.Put(t.Context(), "t", "a", mine)
	if err != nil {
		t.Fatal(err)
	}
	clear(mine)
	first := load(t, s, 0)
	checkFull(t, first, declaration("t", "a", `{"maxLength":1}`, v))
	clear(first.Declarations[0].Options)
	checkFull(t, load(t, s, 0), declaration("t", "a", `{"maxLength":1}`, v))
}

func testNames(t *testing.T, s declare.Store) {
	long := strings.Repeat("q", declare.MaxQueue-1)
	names := [][2]string{
		{"a", "bc"}, {"ab", "c"}, {"abc", "c"}, {"a", "b"}, {"a", "b/c"}, {"a/b", "c"}, {"a", "B"}, {"A", "b"},
		{"a", `b"c`}, {"a", `b'c`}, {"a", `b\c`}, {"a", "b:c"}, {"a:b", "c"}, {"a", " "}, {"a", "b "}, {"a", "%"}, {"a", "_"},
		{"a", "$1"}, {"a", "'; drop table x; --"}, {"a", "\u00e9"}, {"a", "e\u0301"}, {"a", "😀"}, {"😀", "a"}, {"a", "\u0085"},
		{"a", long + "1"}, {"a", long + "2"}, {strings.Repeat("t", declare.MaxTenant), long + "1"},
	}
	want := make([]declare.Declaration, len(names))
	for i, n := range names {
		options := `{"maxLength":` + strings.Repeat("1", 1+i%9) + `}`
		want[i] = declaration(n[0], n[1], options, put(t, s, n[0], n[1], options))
	}
	checkFull(t, load(t, s, 0), want...)
	for i, n := range names {
		if existed, _ := remove(t, s, n[0], n[1]); !existed {
			t.Errorf("%q was not there to be deleted", n)
		}
		checkFull(t, load(t, s, 0), want[i+1:]...)
	}
}

func testBadInput(t *testing.T, s declare.Store) {
	v := put(t, s, "t", "a", `{}`)
	for name, in := range map[string][3]string{
		"no tenant":         {"", "a", `{}`},
		"no queue":          {"t", "", `{}`},
		"long tenant":       {strings.Repeat("t", declare.MaxTenant+1), "a", `{}`},
		"long queue":        {"t", strings.Repeat("q", declare.MaxQueue+1), `{}`},
		"tenant with a NUL": {"t\x00", "a", `{}`},
		"queue with a tab":  {"t", "a\tb", `{}`},
		"queue with a DEL":  {"t", "a\x7f", `{}`},
		"queue not UTF-8":   {"t", "a\xff", `{}`},
		"no options":        {"t", "a", ""},
		"long options":      {"t", "a", strings.Repeat(" ", declare.MaxOptionsBytes-1) + `{}`},
	} {
		_, err := s.Put(t.Context(), in[0], in[1], []byte(in[2]))
		if checkKind(t, err, declare.ErrRefused); t.Failed() {
			t.Fatalf("Put with %s", name)
		}
		if strings.HasSuffix(name, "options") {
			continue
		}
		_, _, err = s.Delete(t.Context(), in[0], in[1])
		if checkKind(t, err, declare.ErrRefused); t.Failed() {
			t.Fatalf("Delete with %s", name)
		}
	}
	snap := load(t, s, 0)
	checkFull(t, snap, declaration("t", "a", `{}`, v))
	if snap.Version != v {
		t.Errorf("version %d, want %d", snap.Version, v)
	}
}
