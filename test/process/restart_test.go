package process

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/queencell/queencell/test/internal/broker"
)

// TestKillAndRestart pins E2, E4, D7, G2 and PG-09: after kill -9 a declared queue is listed with its options and
// empty, an implicit one is gone, old ids are stale, and the store never held a payload.
func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	const marker = "MARKER-7f3a9c-PAYLOAD"
	dir := t.TempDir()
	first := broker.StartIn(t, dir, nil)
	options := `{"maxLength":123,"maxBytes":4567,"policy":"dropOldest","ttlSeconds":89,"leaseSeconds":7,"retryLimit":3,"windowBuffer":{"ms":4,"count":2}}`
	first.Configure("declared", options).Want(t, 201)
	payloads := make([]string, 100)
	for i := range payloads {
		payloads[i] = fmt.Sprintf(`"%s %d"`, marker, i)
	}
	first.Push("declared", "", payloads...).Want(t, 201)
	first.Push("implicit", "", payloads...).Want(t, 201)
	before := first.Queues("", "", 0)
	declared := first.Pop("declared", broker.PopOptions{Batch: 3})
	implicit := first.Pop("implicit", broker.PopOptions{Batch: 3})
	if len(declared.Messages) != 3 || len(implicit.Messages) != 3 {
		t.Fatalf("pops: %v, %v", declared, implicit)
	}
	first.Kill()
	noMarker(t, dir, marker)

	second := broker.StartIn(t, dir, nil)
	after := second.Queues("", "", 0)
	q := after.Find("declared")
	if len(after.Queues) != 1 || q == nil || q.Tier != "declared" || q.Depth != 0 {
		t.Fatalf("listed after the restart: %v", after)
	}
	if was := before.Find("declared"); !reflect.DeepEqual(q.Options, was.Options) {
		t.Errorf("options %v, were %v", q.Options, was.Options)
	}
	second.Depth("implicit", "").WantCode(t, 404, "ephemeral_queue_not_found")
	if a := second.Ack("declared", "", "", declared.IDs()...); a.Outcomes() != "stale stale stale" {
		t.Errorf("acks of the life before: %v", a)
	}
	if a := second.Ack("implicit", "", "", implicit.IDs()...); a.Outcomes() != "stale stale stale" {
		t.Errorf("acks of the life before: %v", a)
	}
	// A new message is not settled by an old id, although their sequence numbers are equal.
	second.Push("declared", "", `"new"`).Want(t, 201)
	fresh := second.Pop("declared", broker.PopOptions{})
	if fresh.Payloads() != `"new"` || fresh.Messages[0].Attempts != 1 || fresh.Messages[0].ID == declared.Messages[0].ID {
		t.Fatalf("new message: %v", fresh)
	}
	if a := second.Ack("declared", "", "", declared.IDs()[0], fresh.IDs()[0]); a.Outcomes() != "stale acked" {
		t.Errorf("old and new ack: %v", a)
	}
	// An implicit queue is made anew by the next name, with the defaults.
	second.Push("implicit", "", `1`).Want(t, 201)
	if d := second.Depth("implicit", ""); d.Tier != "implicit" || d.Pending != 1 {
		t.Errorf("implicit queue: %v", d)
	}
	if err := second.Stop(); err != nil {
		t.Error(err)
	}
	noMarker(t, dir, marker)
}

// noMarker checks that no file below dir holds the marker.
func noMarker(t *testing.T, dir, marker string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		text, err := os.ReadFile(name)
		if bytes.Contains(text, []byte(marker)) {
			t.Errorf("%s holds a payload", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Errorf("no store file in %s: nothing was declared on disk", dir)
	}
}

// TestDeleteSurvivesRestart: a declaration that was deleted does not come back, and the kill switch does (the switch is
// stored).
func TestDeleteSurvivesRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := broker.StartIn(t, dir, nil)
	first.Configure("keep", `{"maxLength":5}`).Want(t, 201)
	first.Configure("keep", `{"retryLimit":2}`).Want(t, 201) // replaces the first whole
	first.Configure("drop", `{}`).Want(t, 201)
	if d := first.Delete("drop"); d.Status != 200 || !d.Deleted || !d.Declared {
		t.Errorf("delete: %v", d)
	}
	first.Post("/api/v1/system/ephemeral", `{"enabled":false}`).Want(t, 200)
	first.Kill()

	second := broker.StartIn(t, dir, nil)
	second.Push("keep", "", `1`).WantCode(t, 503, "ephemeral_disabled")
	second.Post("/api/v1/system/ephemeral", `{"enabled":true}`).Want(t, 200)
	q := second.Queues("", "", 0)
	if len(q.Queues) != 1 || q.Queues[0].Queue != "keep" {
		t.Fatalf("listed: %v", q)
	}
	if o := q.Queues[0].Options; o["retryLimit"] != 2.0 || o["maxLength"] != 10000.0 {
		t.Errorf("options %v", o)
	}
	second.Push("keep", "", `1`).Want(t, 201)
}

// TestMemoryStoreForgets: with QUEEN_STORE=memory a declaration lives as long as its broker and nothing is written.
func TestMemoryStoreForgets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := map[string]string{"QUEEN_STORE": "memory"}
	first := broker.StartIn(t, dir, env)
	first.Configure("q", `{}`).Want(t, 201)
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	second := broker.StartIn(t, dir, env)
	if q := second.Queues("", "", 0); q.Count != 0 {
		t.Errorf("listed: %v", q)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("files %v, %v", entries, err)
	}
}

// TestStoreFileHasOneOwner pins S2: a second process on the store's file is refused within 1 s, with the file's name.
func TestStoreFileHasOneOwner(t *testing.T) {
	t.Parallel()
	b := broker.Start(t, nil)
	b.Configure("q", `{}`).Want(t, 201)
	start := time.Now()
	second, err := broker.Spawn(os.Getenv(broker.BinaryVariable), b.Dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Kill()
	if !second.WaitExit(10 * time.Second) {
		t.Fatal("the second broker runs on the same file")
	}
	// The wait for the lock, and the start of the process.
	between(t, "refused", time.Since(start), 0, time.Second+slow(700*time.Millisecond))
	if second.ExitCode() == 0 || !strings.Contains(second.Logs(), "queencell.db") {
		t.Errorf("exit code %d, log:\n%s", second.ExitCode(), second.Logs())
	}
	b.Configure("q2", `{}`).Want(t, 201)
}

// TestBadConfigurationStopsTheStart: a value that does not parse stops the start, with the variable's name and what it
// accepts.
func TestBadConfigurationStopsTheStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value string }{
		{"PORT", "http"},
		{"PORT", "70000"},
		{"PORT", "-1"},
		{"QUEEN_MAX_BODY_BYTES", "64MB"},
		{"QUEEN_MAX_BODY_BYTES", "-5"},
		{"POP_DEFAULT_TIMEOUT_MS", "30s"},
		{"LOG_LEVEL", "loud"},
		{"QUEEN_LOG_JSON", "maybe"},
		{"QUEEN_STORE", "ftp:somewhere"},
		{"QUEEN_TENANCY_HEADER", "perhaps"},
		{"QUEEN_EPHEMERAL_MAX_BYTES", "1e9"},
		{"QUEEN_EPHEMERAL_MAX_BYTES", "0"},
		{"QUEEN_EPHEMERAL_QUEUE_MAX_BYTES", "lots"},
		{"QUEEN_EPHEMERAL_QUEUE_MAX_LENGTH", "-1"},
		{"QUEEN_EPHEMERAL_LEASE_S", "0"},
		{"QUEEN_EPHEMERAL_LEASE_S", "30s"},
		{"QUEEN_EPHEMERAL_RETRY_LIMIT", "many"},
		{"QUEEN_EPHEMERAL_IMPLICIT_IDLE_S", "0"},
		{"QUEEN_EPHEMERAL_GROUP_IDLE_S", "-1"},
		{"QUEEN_EPHEMERAL_MAX_GROUPS", "x"},
		{"QUEEN_EPHEMERAL_MAX_PARTITIONS", "1.5"},
		{"QUEEN_EPHEMERAL_RATE", "fast"},
		{"QUEEN_INFLIGHT_MAX_BYTES", "some"},
		{"JWT_ENABLED", "on please"},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			t.Parallel()
			refusesToStart(t, map[string]string{c.name: c.value}, c.name)
		})
	}
	t.Run("tenancy without authentication or trust", func(t *testing.T) {
		t.Parallel()
		refusesToStart(t, map[string]string{"QUEEN_TENANCY_HEADER": "true"}, "QUEEN_TENANCY_HEADER")
	})
	t.Run("port busy", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		refusesToStart(t, map[string]string{"PORT": port}, port)
	})
}

// refusesToStart expects that the broker exits with an error that names word.
func refusesToStart(t *testing.T, env map[string]string, word string) {
	t.Helper()
	p, err := broker.Spawn(os.Getenv(broker.BinaryVariable), t.TempDir(), env)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	if !p.WaitExit(10 * time.Second) {
		t.Fatalf("it runs:\n%s", p.Logs())
	}
	if p.ExitCode() <= 0 || !strings.Contains(p.Logs(), word) || strings.Contains(p.Logs(), "goroutine ") {
		t.Errorf("exit code %d, log:\n%s", p.ExitCode(), p.Logs())
	}
}

// TestInterruptStops: SIGINT stops like SIGTERM.
func TestInterruptStops(t *testing.T) {
	t.Parallel()
	b := broker.Start(t, nil)
	if err := b.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if !b.WaitExit(5*time.Second) || b.ExitCode() != 0 {
		t.Errorf("exit code %d", b.ExitCode())
	}
}
