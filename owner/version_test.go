package owner

import "testing"

func TestVersionIsAFunctionOfTheSet(t *testing.T) {
	abc := Version([]string{"a", "b", "c"})
	for _, same := range [][]string{{"c", "a", "b"}, {"b", "a", "c", "a"}} {
		if got := Version(same); got != abc {
			t.Errorf("Version(%q) = %s, Version(a, b, c) = %s", same, got, abc)
		}
	}
	for _, other := range [][]string{{"a", "b"}, {"ab", "c"}, {"a", "bc"}, {"abc"}, {}} {
		if got := Version(other); got == abc {
			t.Errorf("Version(%q) is that of a, b, c", other)
		}
	}
	// Pinned: brokers of different versions in one cell compare it.
	if want := "aff0f2a2f8b32731"; abc != want {
		t.Errorf("Version(a, b, c) = %s, want %s", abc, want)
	}
}

func TestVersionLeavesItsArgument(t *testing.T) {
	members := []string{"b", "a"}
	Version(members)
	if members[0] != "b" {
		t.Error("the caller's list was sorted")
	}
}

func TestVersionHasSixteenDigits(t *testing.T) {
	for _, m := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"} {
		for _, n := range []string{"1", "2", "3", "4", "5"} {
			if v := Version([]string{m + n}); len(v) != 16 {
				t.Errorf("Version(%s) = %q", m+n, v)
			}
		}
	}
}
