package engine

import (
	"strings"
	"testing"
	"time"
)

func ttl(d time.Duration) func(*Options) { return func(o *Options) { o.TTL = d; o.MaxLength = 10 } }

// EN-14: old messages go by timer, without anybody touching the queue, wherever they are in the ring.
func TestT1_AQueueThatNobodyTouchesShrinks(t *testing.T) {
	f := newEngine(t)
	f.declare("q", ttl(2*time.Second))
	f.push("q", "", numbered(0, 10)...)
	f.advance(1900 * time.Millisecond)
	want(t, "in time", len(f.pop("q", "", "g", 3)), 3)
	f.refused(ErrFull, "q", "", "x")
	f.advance(600 * time.Millisecond)
	want(t, "drops", f.Stats().Drops, Drops{TTL: 10}) // no call but Tick was made
	q, _ := f.info("q")
	if q.Depth != 0 || q.Bytes != 0 || q.Drops.TTL != 10 {
		t.Fatalf("%+v", q)
	}
	want(t, "too late", texts(f.pop("q", "", "g", 9)), "")
	f.push("q", "", "x")
}

func TestT1_LeasedOrNotConsumedOrNot(t *testing.T) {
	f := newEngine(t)
	f.declare("q", ttl(10*time.Second))
	f.pop("q", "", "other", 1)
	f.push("q", "", "leased", "nacked", "acked", "unseen")
	got := f.pop("q", "", "g", 3)
	f.nack("q", "g", got[1])
	f.ack("q", "g", got[2])
	f.advance(10*time.Second + instant)
	want(t, "ack of an old one", f.ack("q", "g", got[0]), "unknown")
	want(t, "gauges", f.group("q", "g"), GroupDepth{Group: "g", Skipped: 1})
	want(t, "gauges", f.group("q", "other"), GroupDepth{Group: "other", Skipped: 4})
	want(t, "drops", f.drops("q"), Drops{TTL: 4})
	f.advance(time.Minute)
	want(t, "nothing comes back", texts(f.pop("q", "", "g", 9))+texts(f.pop("q", "", "late", 9)), "")
}

func TestT1_WhatEveryGroupSettledIsNotCounted(t *testing.T) {
	f := newEngine(t)
	f.declare("q", ttl(10*time.Second))
	f.push("q", "", "a")
	f.advance(9500 * time.Millisecond)
	f.ack("q", "g", f.pop("q", "", "g", 1)...)
	f.advance(time.Second)
	want(t, "drops", f.drops("q"), Drops{})
	want(t, "no pop returns an old one", texts(f.pop("q", "", "late", 9)), "")
}

func TestT1_NoCallSeesAnExpiredMessage(t *testing.T) {
	f := newEngine(t)
	f.declare("q", ttl(10*time.Second))
	f.push("q", "", "a")
	f.now += Time(11 * time.Second) // the shell is late with its Tick
	want(t, "pop", texts(f.pop("q", "", "g", 1)), "")
	f.push("q", "", "b")
	got := f.pop("q", "", "g", 1)
	f.now += Time(11 * time.Second)
	want(t, "ack", f.ack("q", "g", got...), "unknown")
	want(t, "depth", f.depth("q", "g").Pending, 0)
	w := f.park("q", "", "g", 1)
	f.advance(time.Minute)
	want(t, "parked", f.answer(w), "parked")
}

func TestT1_TheTTLNowInForce(t *testing.T) {
	f := newEngine(t)
	f.push("q", "", "a")
	f.advance(10*time.Second + instant)
	f.push("q", "", "b")
	f.declare("q", ttl(10*time.Second))
	f.advance(0)
	want(t, "a shorter ttl", texts(f.pop("q", "", "g1", 9)), "b")
	f.declare("q", ttl(20*time.Second))
	f.advance(15 * time.Second)
	want(t, "a longer ttl", texts(f.pop("q", "", "g2", 9)), "b")
	f.declare("q", ttl(0))
	f.advance(time.Hour)
	want(t, "none", texts(f.pop("q", "", "g3", 9)), "b")
	want(t, "drops", f.drops("q"), Drops{TTL: 1})
}

// EN-23: a reset leaves nothing behind, neither in the counts nor in the timers.
func TestX1_Reset(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(o *Options) { o.MaxLength = 10 })
	f.pop("q", "", "slow", 1)
	f.push("q", "p", numbered(0, 10)...)
	got := f.pop("q", "", "g", 5)
	w := f.park("q", "other", "g", 1)
	want(t, "dropped", f.reset("q"), 10)
	want(t, "again", f.reset("q"), 0)
	want(t, "unknown queue", f.reset("nobody"), 0)
	for _, g := range []string{"g", "slow"} {
		want(t, "gauges", f.group("q", g), GroupDepth{Group: g})
	}
	q, _ := f.info("q")
	if q.Depth != 0 || q.Bytes != 0 || q.Drops != (Drops{}) || !q.Declared || q.Options.MaxLength != 10 {
		t.Fatalf("%+v", q)
	}
	want(t, "old acks", f.ack("q", "g", got...), strings.TrimSpace(strings.Repeat("unknown ", 5)))
	inc := f.push("q", "p", "new")
	again := f.pop("q", "p", "g", 9)
	want(t, "at once, first attempt", texts(again), "new")
	if inc != got[0].Incarnation || again[0].Seq <= got[4].Seq {
		t.Fatalf("sequences go on: %x %d after %x %d", inc, again[0].Seq, got[4].Incarnation, got[4].Seq)
	}
	f.advance(29 * time.Second)
	f.ack("q", "g", again...)
	f.advance(5 * time.Second)
	want(t, "nothing old comes back", texts(f.pop("q", "p", "g", 9)), "")
	want(t, "the slow group", texts(f.pop("q", "p", "slow", 9)), "new")
	f.push("q", "other", "x")
	want(t, "the waiter stayed", f.answer(w), "x")
}

func TestX2_Delete(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(o *Options) { o.MaxLength = 3 })
	f.push("q", "", "a", "b")
	got := f.pop("q", "", "g", 1)
	want(t, "existed", f.delete("q"), true)
	want(t, "existed", f.delete("q"), false)
	if _, ok := f.info("q"); ok {
		t.Fatal("still listed")
	}
	want(t, "old ack", f.ack("q", "g", got...), "stale")
	f.push("q", "", "c")
	q, _ := f.info("q")
	if q.Declared || q.Groups != 0 || q.Options != f.InForce(Settings{}) {
		t.Fatalf("created again: %+v", q)
	}
	f.advance(time.Minute)
	want(t, "content", texts(f.pop("q", "", "g", 9)), "c")
	f.delete("q")
	want(t, "usage", f.Usage("t"), 0)
}

// EN-27: the gauges and counters of a queue add up.
func TestX_GaugesAddUp(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(o *Options) { o.MaxLength = 20; o.Policy = DropOldest; o.RetryLimit = 2; o.Lease = time.Second })
	f.pop("q", "", "g", 1)
	pushed, acked := int64(0), int64(0)
	for i := range 300 {
		f.push("q", []string{"p1", "p2", "p3"}[i%3], numbered(i, 1+i%4)...)
		pushed += int64(1 + i%4)
		got := f.pop("q", "", "g", i%5)
		for j, m := range got {
			if j%3 == 1 {
				f.nack("q", "g", m)
			} else if j%3 == 0 {
				want(t, "ack", f.ack("q", "g", m), "acked")
				acked++
			}
		}
		f.advance(90 * time.Millisecond)
		g, drops := f.group("q", "g"), f.drops("q")
		if sum := acked + drops.Bounds + drops.Retry + g.Pending + g.Leased; sum != pushed || g.Pending < 0 || g.Leased < 0 {
			t.Fatalf("step %d: pushed %d, acked %d, %+v, %+v", i, pushed, acked, drops, g)
		}
	}
	for {
		n := f.depth("q", "g").Pending
		got := f.pop("q", "", "g", 1)
		if (n > 0) != (len(got) == 1) {
			t.Fatalf("pending %d, and a pop gets %d", n, len(got))
		}
		if n == 0 {
			return
		}
	}
}

func TestX_Pages(t *testing.T) {
	f := newEngine(t)
	for _, q := range []string{"b", "a", "c", "ab", "aa"} {
		f.push(q, "", "x")
	}
	page := f.Queues(f.now, "t", "a", "a", 1)
	if len(page.Queues) != 1 || page.Queues[0].Queue != "aa" || page.Count != 3 || !page.More {
		t.Fatalf("%+v", page)
	}
	page = f.Queues(f.now, "t", "a", "aa", 10)
	if len(page.Queues) != 1 || page.Queues[0].Queue != "ab" || page.Count != 3 || page.More {
		t.Fatalf("%+v", page)
	}
	for _, p := range []string{"3", "1", "2"} {
		f.push("q", p, "x", "y")
	}
	d, _ := f.Depth(f.now, "t", "q", "g", "1", 1, &f.wakes)
	if d.Pending != 6 || d.PartitionsPending != 3 || len(d.Partitions) != 1 || !d.More ||
		d.Partitions[0] != (PartitionDepth{Partition: "2", Pending: 2, Bytes: 2}) {
		t.Fatalf("%+v", d)
	}
	f.pop("q", "", "", 1)
	want(t, "without a named group it is the shared cursor's", f.depth("q", "").Pending, 5)
	f.pop("q", "", "g1", 4)
	f.pop("q", "", "g2", 3)
	want(t, "the worst of the named groups", f.depth("q", "").Pending, 3)
	want(t, "an unknown group sees all", f.depth("q", "nobody").Pending, 6)
	f.advance(7 * time.Second)
	if age := f.depth("q", "").OldestAge; age > Time(7*time.Second) || age < Time(7*time.Second-instant) {
		t.Fatalf("oldest age %d", age)
	}
}
