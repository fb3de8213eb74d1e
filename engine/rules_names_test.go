package engine

import (
	"strings"
	"testing"
)

func TestN1_Names(t *testing.T) {
	for _, s := range []string{"a", "a b", "ü", "a/b", "a:b.c", strings.Repeat("x", 512), "...", ".a"} {
		if ValidName(s) != nil || ValidQueue(s) != nil {
			t.Errorf("%q is refused", s)
		}
	}
	for _, s := range []string{"", strings.Repeat("x", 513), "a\x00", "a\n", "\x1f", "\x7f", "\xff", "a\xc3"} {
		if ValidName(s) == nil || ValidQueue(s) == nil {
			t.Errorf("%q is allowed", s)
		}
	}
	for _, s := range []string{".", ".."} {
		if ValidQueue(s) == nil {
			t.Errorf("a queue may be %q", s)
		}
		if ValidName(s) != nil {
			t.Errorf("a partition may not be %q", s)
		}
	}
}

func TestN2_NoPartition(t *testing.T) {
	f := newEngine(t)
	f.push("q", "", "a")
	f.push("q", "p", "b")
	want(t, "partition Default", texts(f.pop("q", DefaultPartition, "g", 9)), "a")
	want(t, "every partition", texts(f.pop("q", "", "g", 9)), "b")
}

func TestN3_NoGroupIsOneSharedCursor(t *testing.T) {
	f := newEngine(t)
	f.push("q", "", "a", "b")
	got := f.pop("q", "", "", 1)
	want(t, "no group", texts(got), "a")
	want(t, "the same group by name", texts(f.pop("q", "", QueueMode, 9)), "b")
	want(t, "ack by name", f.ack("q", QueueMode, got...), "acked")
	want(t, "groups", len(f.depth("q", "").Groups), 1)
}

func TestN4_TenantsAreUnrelated(t *testing.T) {
	f := newEngine(t)
	if _, err := f.tryPushAs("t", "q", "", "mine"); err != nil {
		t.Fatal(err)
	}
	d, err := f.tryPop(PopRequest{Tenant: "other", Queue: "q"})
	if err != nil || len(d.Messages) > 0 {
		t.Fatalf("another tenant's pop got %s, %v", texts(d.Messages), err)
	}
	f.Delete(f.now, "other", "q", &f.wakes)
	if n := f.Reset(f.now, "other", "q", &f.wakes); n != 0 {
		t.Fatalf("another tenant's reset dropped %d", n)
	}
	got := f.pop("q", "", "", 9)
	want(t, "my queue", texts(got), "mine")
	out, _ := f.Ack(f.now, &AckRequest{Tenant: "other", Queue: "q", Acks: []Ack{{ID: idOf(got[0])}}}, nil, &f.wakes)
	want(t, "another tenant's ack", out[0], OutcomeStale)
	want(t, "my ack", f.ack("q", "", got...), "acked")
	if n := len(f.Queues(f.now, "other", "", "", 10).Queues); n != 0 {
		t.Fatalf("another tenant sees %d queues", n)
	}
	if f.Usage("other") != 0 {
		t.Fatalf("another tenant uses %d bytes", f.Usage("other"))
	}
}
