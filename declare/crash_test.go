//go:build unix

package declare_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/queencell/queencell/declare"
)

// A broker that is killed while it writes has lost no write that it acknowledged, and the file opens without repair.
func TestFileKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	for round := range 8 {
		before := contents(t, path)
		acked := runAndKill(t, path)
		snap := contents(t, path)

		last := before.Version
		declared := make(map[string]uint64)
		for _, d := range before.Declarations {
			declared[d.Queue] = d.Version
		}
		sw := before.Switch
		for _, a := range acked {
			if a.version <= last {
				t.Fatalf("round %d: version %d after %d", round, a.version, last)
			}
			last = a.version
			switch a.kind {
			case "put":
				declared[a.what] = a.version
			case "delete":
				delete(declared, a.what)
			case "switch":
				sw = declare.Switch{Enabled: a.what == "true", Version: a.version}
			}
		}
		// One write more may have been stored and not acknowledged.
		if snap.Version != last && snap.Version != last+1 {
			t.Fatalf("round %d: version %d, the last one acknowledged was %d", round, snap.Version, last)
		}
		if snap.Switch.Version <= last && snap.Switch != sw {
			t.Errorf("round %d: switch %+v, want %+v", round, snap.Switch, sw)
		}
		differ := 0
		for _, d := range snap.Declarations {
			if declared[d.Queue] != d.Version {
				differ++
			}
			delete(declared, d.Queue)
		}
		if differ += len(declared); differ > int(snap.Version-last) {
			t.Fatalf("round %d: %d declarations are not as acknowledged, e.g. missing %v", round, differ, declared)
		}
	}
}

type acknowledged struct {
	kind, what string
	version    uint64
}

// runAndKill lets a child write and kills it at a random moment after a random number of writes.
func runAndKill(t *testing.T, path string) []acknowledged {
	t.Helper()
	cmd := startChild(t, "write", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	enough := 1 + rand.IntN(60)
	var acked []acknowledged
	var kill *time.Timer
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var a acknowledged
		if n, _ := fmt.Sscanf(lines.Text(), "%s %s %d", &a.kind, &a.what, &a.version); n == 3 {
			acked = append(acked, a)
		}
		if len(acked) == enough && kill == nil {
			// Within the next few writes, wherever they are.
			kill = time.AfterFunc(time.Duration(rand.IntN(5000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
			defer kill.Stop()
		}
	}
	if err := cmd.Wait(); err == nil || len(acked) < enough {
		t.Fatalf("the child ended by itself after %d writes, %v", len(acked), err)
	}
	return acked
}

// contents opens the file, reads everything and closes it.
func contents(t *testing.T, path string) declare.Snapshot {
	t.Helper()
	s := openFile(t, path)
	defer closeFile(t, s)
	snap, err := s.Load(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// A full disk refuses writes, for certain, and costs nothing else.
func TestFileFullDisk(t *testing.T) {
	cmd := startChild(t, "full", filepath.Join(t.TempDir(), "store.db"))
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
}
