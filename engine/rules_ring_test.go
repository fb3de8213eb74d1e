package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestR1_FIFOAndLeasesHoldNothingBack(t *testing.T) {
	f := newEngine(t)
	f.push("q", "p", "a", "b")
	f.push("q", "p", "c", "d", "e")
	want(t, "first", texts(f.pop("q", "p", "g", 1)), "a")
	want(t, "while a is leased", texts(f.pop("q", "p", "g", 2)), "b c")
	want(t, "rest", texts(f.pop("q", "p", "g", 9)), "d e")
	want(t, "empty", texts(f.pop("q", "p", "g", 9)), "")
}

// EN-18: content before the first consumer, and for a late group.
func TestR2_HeldForTheFirstGroupAndLingering(t *testing.T) {
	f := newEngine(t)
	f.push("q", "", "1", "2")
	f.advance(200 * time.Second) // no group yet: held for the first one
	f.ack("q", "g1", f.pop("q", "", "g1", 9)...)
	f.advance(999 * time.Millisecond)
	got := f.pop("q", "", "g2", 9)
	want(t, "a group within a second", texts(got), "1 2")
	f.ack("q", "g2", got...)
	f.advance(2 * time.Second)
	want(t, "a group after two seconds", texts(f.pop("q", "", "g3", 9)), "")
	q, _ := f.info("q")
	want(t, "depth", q.Depth, 0)
	want(t, "bytes", q.Bytes, 0)
	want(t, "never counted as dropped", q.Drops, Drops{})
}

func TestR2_ReclaimedByTheNextPushToThatPartition(t *testing.T) {
	f := newEngine(t)
	f.push("q", "a", "1", "2", "3")
	f.push("q", "b", "4")
	got := f.pop("q", "", "g1", 9)
	f.ack("q", "g1", got...)
	f.push("q", "a", "5")
	want(t, "a late group", texts(f.pop("q", "a", "g2", 9)), "5")
	want(t, "the other partition lingers", texts(f.pop("q", "b", "g2", 9)), "4")
}

func TestR2_SettledInTheMiddleIsReclaimed(t *testing.T) {
	f := newEngine(t)
	f.push("q", "", "a", "b", "c")
	got := f.pop("q", "", "g1", 9)
	f.ack("q", "g1", got[1])
	f.advance(3 * time.Second)
	want(t, "a late group", texts(f.pop("q", "", "g2", 9)), "a c")
}

func TestR2_RoomOfLingeringMessages(t *testing.T) {
	for _, policy := range []Policy{Reject, DropOldest} {
		f := newEngine(t)
		f.declare("q", func(o *Options) { o.MaxLength = 3; o.Policy = policy })
		f.push("q", "a", "1", "2", "3")
		f.ack("q", "g", f.pop("q", "", "g", 9)...)
		f.push("q", "b", "4", "5", "6") // another partition that needs the room
		q, _ := f.info("q")
		if q.Depth > 3 {
			t.Fatalf("%v: held and lingering exceed the bound: %d", policy, q.Depth)
		}
		want(t, "drops", q.Drops, Drops{})
		want(t, "content", texts(f.pop("q", "", "g", 9)), "4 5 6")
	}
}

func TestR2_PendingNeverShowsLingering(t *testing.T) {
	f := newEngine(t)
	f.push("q", "", "a", "b")
	f.ack("q", "", f.pop("q", "", "", 1)...)
	want(t, "pending", f.depth("q", "").Pending, 1)
	want(t, "pending of an unknown group", f.depth("q", "nobody").Pending, 1)
	want(t, "reset drops", f.reset("q"), 1)
}

func TestR3_WhereAGroupIsKnown(t *testing.T) {
	f := newEngine(t)
	f.push("q", "a", "1")
	f.pop("q", "", "everywhere", 1)
	f.pop("q", "b", "here", 1)
	f.pop("q", "", "reader", 1)
	f.push("q", "a", "2")
	f.push("q", "b", "3")
	f.push("q", "new", "4")
	for _, m := range f.pop("q", "", "reader", 9) {
		f.ack("q", "reader", m)
	}
	f.advance(3 * time.Second)
	want(t, "a later partition", texts(f.pop("q", "new", "everywhere", 9)), "4")
	want(t, "the partition it named", texts(f.pop("q", "b", "here", 9)), "3")
	everywhere := f.pop("q", "", "everywhere", 9)
	want(t, "the rest", len(everywhere), 2)
	f.ack("q", "everywhere", everywhere...)
	f.advance(3 * time.Second)
	want(t, "it did not hold another partition", texts(f.pop("q", "a", "here", 9)), "1") // leased by the others
}

func TestR3_ANewGroupStartsAtTheOldestHeld(t *testing.T) {
	f := newEngine(t)
	f.pop("q", "", "slow", 1)
	f.push("q", "", "a", "b")
	f.ack("q", "fast", f.pop("q", "", "fast", 9)...)
	f.advance(10 * time.Second)
	f.push("q", "", "c")
	want(t, "a late group", texts(f.pop("q", "", "late", 9)), "a b c")
}

func TestR3_ASubscriberThatParkedFirstMissesNothing(t *testing.T) {
	f := newEngine(t)
	w := f.park("q", "", "late", 1)
	if !f.Withdraw(f.now, w, true, &f.wakes) {
		t.Fatal("not withdrawn")
	}
	f.push("q", "p", "a", "b", "c")
	f.ack("q", "other", f.pop("q", "", "other", 9)...)
	f.advance(10 * time.Second)
	f.push("q", "p", "d")
	want(t, "however late it wakes", texts(f.pop("q", "", "late", 9)), "a b c d")
}

func TestR4_PayloadsComeBackByteForByte(t *testing.T) {
	f := newEngine(t)
	payloads := []string{
		"", ` { "b":1,  "a" : 1e400 } `, "\x00\xff\xfe", strings.Repeat("x", 300_000), `{"a":1,"a":2}`, "null", "\ufeff1",
	}
	req := PushRequest{Tenant: "t", Queue: "q"}
	for i, p := range payloads {
		req.Messages = append(req.Messages, Message{Payload: []byte(p), Flags: uint32(i) << 20, Raw: i%2 == 1})
	}
	if _, err := f.Push(f.now, &req, &f.wakes); err != nil {
		t.Fatal(err)
	}
	for i := range req.Messages {
		clear(req.Messages[i].Payload) // the engine keeps a copy
	}
	first, second := f.pop("q", "", "g1", 99), f.pop("q", "", "g2", 99)
	f.ack("q", "g1", first...)
	f.ack("q", "g2", second...)
	f.push("q", "", strings.Repeat("y", 300_000)) // nor does a delivery read memory that was reused
	for _, got := range [][]Delivered{first, second} {
		want(t, "messages", len(got), len(payloads))
		for i, m := range got {
			if string(m.Payload) != payloads[i] || m.Flags != uint32(i)<<20 || m.Raw != (i%2 == 1) {
				t.Errorf("message %d came back as %.40q flags %d raw %v", i, m.Payload, m.Flags, m.Raw)
			}
		}
	}
}

// EN-33: clearing one queue leaves everything else as it was.
func TestR_ClearingOneQueueDisturbsNothingElse(t *testing.T) {
	for _, clear := range []string{"reset", "delete"} {
		f := newEngine(t)
		held := map[string][]Delivered{}
		for _, q := range []string{"q", "r"} {
			for _, p := range []string{"p1", "p2"} {
				f.push(q, p, numbered(0, 6)...)
				f.nack(q, "g2", f.pop(q, p, "g2", 1)...)
				got := f.pop(q, p, "g1", 3)
				f.ack(q, "g1", got[0])
				held[q+p] = got[1:]
			}
		}
		if clear == "reset" {
			want(t, "dropped", f.reset("q"), 12)
		} else {
			f.delete("q")
		}
		want(t, "nothing left", texts(f.pop("q", "", "g1", 99))+texts(f.pop("q", "", "g2", 99)), "")
		for _, p := range []string{"p1", "p2"} {
			want(t, "g1 goes on", texts(f.pop("r", p, "g1", 9)), "3 4 5")
			want(t, "its leases", f.ack("r", "g1", held["r"+p]...), "acked acked")
			want(t, "g2 goes on", texts(f.pop("r", p, "g2", 9)), "0.2 1 2 3 4 5")
		}
		want(t, "drops", f.drops("r"), Drops{})
	}
}

// EN-03, EN-20: what dead consumers held comes back in ring order, ahead of what was never delivered.
func TestD4_WhatDeadConsumersHeldComesBackInOrder(t *testing.T) {
	f := newEngine(t)
	f.push("q", "p", numbered(100, 100)...)
	for range 10 {
		f.pop("q", "p", "g", 9)
	}
	f.advance(100 * time.Millisecond)
	want(t, "before the lease ends", texts(f.pop("q", "p", "g", 1)), "190")
	f.advance(30 * time.Second)
	want(t, "leased", f.group("q", "g").Leased, 0)
	var again []string
	for i := range 91 {
		again = append(again, fmt.Sprintf("%d.2", 100+i))
	}
	want(t, "redeliveries", texts(f.pop("q", "p", "g", 91)), strings.Join(again, " "))
	want(t, "then the rest", texts(f.pop("q", "p", "g", 99)), strings.Join(numbered(191, 9), " "))
}
