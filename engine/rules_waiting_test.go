package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// LP-08: one message wakes one waiter of the group, the longest waiting first, named and partition-less alike.
func TestP2_OneMessageOneWaiterInOrderOfArrival(t *testing.T) {
	f := newEngine(t)
	for range 200 {
		f.woken = nil
		ws := []*Waiter{f.park("q", "p", "g", 1), f.park("q", "", "g", 1), f.park("q", "p", "g", 1), f.park("q", "", "g", 1)}
		elsewhere, other := f.park("q", "other", "g", 1), f.park("q", "", "g2", 9)
		for i, w := range ws {
			f.push("q", "p", "x")
			want(t, "the longest waiting", f.answer(w), "x")
			for _, later := range ws[i+1:] {
				want(t, "a later one", f.answer(later), "parked")
			}
			if i == 0 {
				want(t, "another group gets it too", f.answer(other), "x")
			}
		}
		want(t, "a waiter on another partition", f.answer(elsewhere), "parked")
		f.withdraw(elsewhere)
		f.reset("q")
	}
}

func TestP2_ABatchWakesAsManyAsItServes(t *testing.T) {
	f := newEngine(t)
	a, b, c := f.park("q", "", "g", 2), f.park("q", "p", "g", 2), f.park("q", "", "g", 2)
	f.push("q", "p", "1", "2", "3")
	want(t, "first", f.answer(a), "1 2")
	want(t, "second", f.answer(b), "3")
	want(t, "third", f.answer(c), "parked")
	want(t, "waiters", f.Stats().Waiters, 1)
}

// LP-04, EN-02: everything that makes a message deliverable wakes, at once.
func TestP3_Wakes(t *testing.T) {
	f := newEngine(t, func(c *Config) { c.Lease = 2 * time.Second })
	f.push("q", "", "m")
	got := f.pop("q", "", "g", 1)
	w := f.park("q", "", "g", 1)
	f.advance(time.Second)
	f.nack("q", "g", got...)
	want(t, "a nack", f.answer(w), "m.2")
	w = f.park("q", "", "g", 1)
	f.advance(2*time.Second - 1)
	want(t, "before the lease ends", f.answer(w), "parked")
	f.advance(1)
	want(t, "an expiry, by timer", f.answer(w), "m.3")
	w2 := f.park("q", DefaultPartition, "g", 1)
	f.giveBack(&w.Delivery, false)
	want(t, "a give-back", f.answer(w2), "m.3")
}

func TestP3_ExpiryWakesOneAndRearms(t *testing.T) {
	f := newEngine(t, func(c *Config) { c.Lease = time.Second; c.RetryLimit = 100 })
	f.push("q", "", "a", "b")
	f.pop("q", "", "g", 1)
	f.advance(300 * time.Millisecond)
	f.pop("q", "", "g", 1)
	w1, w2 := f.park("q", "", "g", 2), f.park("q", "", "g", 2)
	f.advance(700 * time.Millisecond)
	want(t, "first", f.answer(w1), "a.2")
	want(t, "second", f.answer(w2), "parked")
	f.advance(300 * time.Millisecond)
	want(t, "second", f.answer(w2), "b.2")
	f.woken = nil
	w3 := f.park("q", "", "g", 1)
	f.advance(700 * time.Millisecond)
	want(t, "the redelivery's own lease", f.answer(w3), "a.3")
}

func TestP3_ResetDeleteConfigureLeaveWaitersParked(t *testing.T) {
	f := newEngine(t)
	named, whole := f.park("q", "p", "g", 1), f.park("q", "", "g2", 1)
	f.reset("q")
	f.declare("q", func(o *Options) { o.MaxLength = 9 })
	f.declare("q", func(o *Options) { o.RetryLimit = 9 })
	f.delete("q")
	q, ok := f.info("q")
	if !ok || q.Declared {
		t.Fatalf("X2: the queue is at once listed again, as implicit: %+v %v", q, ok)
	}
	want(t, "waiters", f.Stats().Waiters, 2)
	f.advance(400 * time.Second)
	f.push("q", "p", "a")
	want(t, "named", f.answer(named), "a")
	want(t, "whole", f.answer(whole), "a")
	f.delete("q")
	if _, ok := f.info("q"); ok {
		t.Fatal("a deleted queue without waiters is listed")
	}
}

func TestP4_AMessageAndATimeoutHaveOneOutcome(t *testing.T) {
	f := newEngine(t)
	w := f.park("q", "", "g", 1)
	f.push("q", "", "a")
	if f.Withdraw(f.now, w, false, &f.wakes) || !w.Woken() {
		t.Fatal("it was answered before its timeout")
	}
	want(t, "delivered", texts(w.Delivery.Messages), "a")
	w = f.park("q", "", "g", 1)
	f.withdraw(w)
	f.push("q", "", "b")
	want(t, "still there", texts(f.pop("q", "", "g", 1)), "b")
	want(t, "waiters", f.Stats().Waiters, 0)
	if f.Withdraw(f.now, w, true, &f.wakes) && f.Stats().Waiters != 0 {
		t.Fatal("a waiter was withdrawn twice")
	}
}

func windowed(f *fixture, ms, count int) {
	f.declare("q", func(o *Options) {
		o.Window = time.Duration(ms) * time.Millisecond
		o.WindowCount = count
		o.Lease = 10 * time.Second
	})
}

func TestP5_TheWindowRunsFromTheFirstDeliverableMessage(t *testing.T) {
	f := newEngine(t)
	windowed(f, 200, 3)
	w := f.park("q", "", "g", 10)
	f.advance(time.Second)
	f.push("q", "", "a")
	f.advance(150 * time.Millisecond)
	f.push("q", "", "b")
	f.advance(50*time.Millisecond - 1)
	want(t, "before", f.answer(w), "parked")
	f.advance(1)
	want(t, "its time", f.answer(w), "a b")
	f.advance(10*time.Second - 1)
	want(t, "lease from the claim", f.group("q", "g").Leased, 2)
	f.advance(1)
	want(t, "lease from the claim", f.group("q", "g").Leased, 0)
}

func TestP5_TheCountEndsTheWindow(t *testing.T) {
	for _, c := range []struct {
		count, batch int
		want         string
	}{
		{3, 10, "a b c"},
		{0, 3, "a b c"}, // the batch
		{50, 2, "a b"},  // at most the batch
		{3, 2, "a b"},   // at most the batch
		{2, 10, "a b"},  // as soon as they are there
		{1, 10, "a"},    // no window to speak of
		{0, 1, "a"},     // nor here
		{2, 0, "a"},     // a batch of 0 is 1
	} {
		f := newEngine(t)
		windowed(f, 60_000, c.count)
		w := f.park("q", "", "g", c.batch)
		for _, p := range []string{"a", "b", "c"} {
			f.push("q", "", p)
			f.advance(time.Millisecond)
		}
		want(t, "answer", f.answer(w), c.want)
	}
	f := newEngine(t)
	windowed(f, 60_000, 3)
	w := f.park("q", "", "g", 10)
	f.push("q", "", "a", "b", "c", "d", "e")
	want(t, "all that is there, up to the batch", f.answer(w), "a b c d e")
}

func TestP5_AlsoWhenMessagesAreThere(t *testing.T) {
	f := newEngine(t)
	windowed(f, 200, 3)
	f.push("q", "", "a")
	w := f.park("q", "", "g", 10)
	f.advance(199 * time.Millisecond)
	want(t, "before", f.answer(w), "parked")
	f.advance(time.Millisecond)
	want(t, "then", f.answer(w), "a")
	f.push("q", "", "b", "c", "d")
	w = &Waiter{}
	parked, _, err := f.Park(f.now, &PopRequest{Tenant: "t", Queue: "q", Group: "g", Batch: 10}, w, &f.wakes)
	if parked || err != nil || texts(w.Delivery.Messages) != "b c d" {
		t.Fatalf("with enough there: %v %v %s", parked, err, texts(w.Delivery.Messages))
	}
	f.push("q", "", "e")
	want(t, "a pop that does not wait has no window", texts(f.pop("q", "", "g", 10)), "e")
}

func TestP5_ItsTimeoutEndsTheWindow(t *testing.T) {
	f := newEngine(t)
	windowed(f, 60_000, 0)
	f.push("q", "", "a")
	w := f.park("q", "", "g", 10)
	f.advance(50 * time.Millisecond)
	if f.Withdraw(f.now, w, false, &f.wakes) || w.Woken() {
		t.Fatal("at its timeout it claims what is there")
	}
	want(t, "claimed", texts(w.Delivery.Messages), "a")
	f.push("q", "", "b")
	w = f.park("q", "", "g", 10)
	if !f.Withdraw(f.now, w, true, &f.wakes) {
		t.Fatal("a waiter that is gone claims nothing")
	}
	want(t, "still there", texts(f.pop("q", "", "g", 10)), "b")
}

func TestP5_APopMayTakeWhatIsThere(t *testing.T) {
	f := newEngine(t)
	windowed(f, 200, 0)
	w := f.park("q", "", "g", 10)
	f.push("q", "", "a")
	f.advance(150 * time.Millisecond)
	want(t, "a pop", texts(f.pop("q", "", "g", 10)), "a")
	f.advance(time.Second)
	want(t, "nothing there", f.answer(w), "parked")
	f.push("q", "", "b")
	f.advance(199 * time.Millisecond)
	want(t, "the window starts again", f.answer(w), "parked")
	f.advance(time.Millisecond)
	want(t, "then", f.answer(w), "b")
}

func TestP5_ThePlaceInLineIsKept(t *testing.T) {
	f := newEngine(t)
	windowed(f, 200, 0)
	first, second := f.park("q", "", "g", 2), f.park("q", "", "g", 2)
	f.push("q", "", "a")
	f.advance(100 * time.Millisecond)
	f.push("q", "", "b")
	want(t, "first", f.answer(first), "a b")
	want(t, "second", f.answer(second), "parked")
	f.push("q", "", "c")
	f.advance(200 * time.Millisecond)
	want(t, "second", f.answer(second), "c")
}

func TestP5_ExpiredMessagesAreNotClaimed(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(o *Options) { o.Window = 2 * time.Second; o.TTL = time.Second })
	w := f.park("q", "", "g", 10)
	f.push("q", "", "a")
	f.advance(1500 * time.Millisecond)
	f.push("q", "", "b")
	f.advance(900 * time.Millisecond)
	want(t, "the window of a does not count for b", f.answer(w), "parked")
	if f.Withdraw(f.now, w, false, &f.wakes) {
		t.Fatal("at its timeout it claims")
	}
	want(t, "claimed", texts(w.Delivery.Messages), "b")
}

func TestP6_ReadyPartitionsTakeTurns(t *testing.T) {
	f := newEngine(t)
	partitions := []string{"p1", "p2", "p3"}
	for _, known := range []bool{false, true} { // partitions that are new to the group, and that it knows
		for _, p := range partitions {
			f.push("q", p, p+"a", p+"b", p+"c")
		}
		var turns []string
		for range 9 {
			turns = append(turns, texts(f.pop("q", "", "g", 1)))
		}
		want(t, fmt.Sprintf("turns, known %v", known), strings.Join(turns, " "), "p1a p2a p3a p1b p2b p3b p1c p2c p3c")
	}
}

func TestP6_ABatchGoesOnWithTheNext(t *testing.T) {
	f := newEngine(t)
	f.push("q", "p1", "a", "b", "c")
	f.push("q", "p2", "d", "e")
	f.push("q", "p3", "f")
	want(t, "up to the batch", texts(f.pop("q", "", "g", 4)), "a b c d")
	got := texts(f.pop("q", "", "g", 9))
	if got != "e f" && got != "f e" {
		t.Fatalf("the rest: %s", got)
	}
}

// EN-13: neither a busy partition nor a leased head holds up another partition.
func TestP6_ABusyPartitionStarvesNobody(t *testing.T) {
	f := newEngine(t)
	f.push("q", "slow", "m1")
	slow := f.pop("q", "slow", "g", 1)
	f.push("q", "busy", numbered(0, 100)...)
	f.push("q", "quiet", "q1")
	seen := -1
	for i := range 10 {
		f.push("q", "busy", "more")
		if got := texts(f.pop("q", "", "g", 1)); got == "q1" {
			seen = i
		}
	}
	if seen < 0 || seen > 2 {
		t.Fatalf("the quiet partition was served by pop %d", seen)
	}
	w := f.park("q", "slow", "g", 1)
	f.nack("q", "g", slow...)
	want(t, "a waiter on the slow one", f.answer(w), "m1.2")
}

func TestP_PausedWaitersGetNothing(t *testing.T) {
	f := newEngine(t, func(c *Config) { c.Lease = time.Second })
	f.push("q", "", "a")
	f.pop("q", "", "g", 1)
	w := f.park("q", "", "g", 1)
	f.SetPaused(f.now, true, &f.wakes)
	f.collect()
	f.advance(3 * time.Second) // the lease runs out meanwhile
	want(t, "paused", f.answer(w), "parked")
	f.SetPaused(f.now, false, &f.wakes)
	f.collect()
	f.advance(0)
	want(t, "resumed", f.answer(w), "a.2")
}

func TestP_WatchersClaimNothing(t *testing.T) {
	f := newEngine(t)
	req := PopRequest{Tenant: "t", Queue: "q", Group: "g", Batch: 1}
	w := &Waiter{Watch: true}
	parked, _, err := f.Park(f.now, &req, w, &f.wakes)
	if !parked || err != nil {
		t.Fatalf("park: %v %v", parked, err)
	}
	f.push("q", "", "a")
	want(t, "told", f.answer(w), "")
	d := &Delivery{}
	if err := f.Peek(f.now, &req, d, &f.wakes); err != nil || texts(d.Messages) != "a" {
		t.Fatalf("peek: %s %v", texts(d.Messages), err)
	}
	want(t, "leased", f.group("q", "g").Leased, 0)
	want(t, "still there", texts(f.pop("q", "", "g", 1)), "a")
}

func TestP_ATimeThatGoesBackChangesNothing(t *testing.T) {
	f := newEngine(t)
	f.push("q", "", "a")
	f.pop("q", "", "g", 1)
	f.advance(30 * time.Second)
	want(t, "again", texts(f.pop("q", "", "g", 1)), "a.2")
	f.now -= Time(20 * time.Second)
	f.push("q", "", "b")
	want(t, "in the past", texts(f.pop("q", "", "g", 9)), "b")
	f.now += Time(50*time.Second) - 1
	f.advance(0)
	want(t, "the lease of a.2 began at the latest time seen", texts(f.pop("q", "", "g", 9)), "")
	f.advance(1)
	want(t, "and ends", texts(f.pop("q", "", "g", 9)), "a.3 b.2")
}

func TestP1_AWaitingPopIsNotAnsweredForWhatIsGone(t *testing.T) {
	gone := map[string]func(*fixture){
		"ttl":   func(f *fixture) { f.advance(2 * time.Second) },
		"reset": func(f *fixture) { f.reset("q") },
		"bounds": func(f *fixture) {
			f.push("q", "other", "b")
			f.autoPop("q", "other", "g", 1)
		},
		"another pop": func(f *fixture) { f.autoPop("q", "p", "g", 1) },
	}
	for name, do := range gone {
		for _, partition := range []string{"", "p"} {
			f := newEngine(t)
			f.declare("q", func(o *Options) { o.TTL = time.Second; o.MaxLength = 1; o.Policy = DropOldest })
			f.pop("q", "", "g", 1)
			f.push("q", "p", "a")
			do(f)
			w := f.park("q", partition, "g", 1)
			f.push("q", "p", "new after "+name)
			want(t, "the waiter", f.answer(w), "new after "+name)
		}
	}
}

func TestP5_AWindowStartsAlthoughOtherMessagesAreGone(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(o *Options) {
		o.Window, o.WindowCount, o.MaxLength, o.Policy = 200*time.Millisecond, 2, 2, DropOldest
	})
	f.pop("q", "", "g", 1)
	f.push("q", "p1", "a")
	f.push("q", "p2", "b", "c") // drops a
	w := &Waiter{}
	parked, _, err := f.Park(f.now, &PopRequest{Tenant: "t", Queue: "q", Group: "g", Batch: 2}, w, &f.wakes)
	if parked || err != nil || texts(w.Delivery.Messages) != "b c" {
		t.Fatalf("enough is there: parked %v %v %s", parked, err, texts(w.Delivery.Messages))
	}
	f.push("q", "p1", "d", "e")
	f.push("q", "p2", "f", "g") // drops d and e
	f.pop("q", "", "g", 1)
	w = f.park("q", "", "g", 2)
	f.advance(200 * time.Millisecond)
	want(t, "its window", f.answer(w), "g")
}

func TestP3_WhatBecomesDeliverableTogetherFillsOneAnswer(t *testing.T) {
	f := newEngine(t)
	f.push("q", "p1", "a", "b")
	f.push("q", "p2", "c")
	f.pop("q", "", "g", 9)
	w := f.park("q", "", "g", 9)
	f.advance(30 * time.Second) // three leases in two partitions end at once
	want(t, "messages in one answer", len(w.Delivery.Messages), 3)
}
