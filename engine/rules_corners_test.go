package engine

import (
	"fmt"
	"hash/fnv"
	"testing"
	"time"
)

// Corners where waiters, windows and slots meet.

// Slots close also where a queue has more rings than a step looks at.
func TestO3_ASlotClosesBesideManyOpenRings(t *testing.T) {
	f := newEngine(t, func(c *Config) {
		c.Slots = 64
		c.SlotOf = func(_, _, p string) int { h := fnv.New32(); h.Write([]byte(p)); return int(h.Sum32() % 64) }
	})
	for i := range 3000 {
		f.push("q", fmt.Sprint("p", i), "x")
	}
	done := make(chan struct{})
	go func() { var w Wakes; f.CloseSlots(f.now, []int{3}, &w); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("CloseSlots does not return")
	}
}

// The head of a windowed line leaves, and the next, who could have claimed if only it were first, does: both on the
// partition, and either of them on the whole queue.
func TestP5_TheNextIsServedWhenTheHeadLeaves(t *testing.T) {
	for _, c := range []struct{ head, next string }{{"p", "p"}, {"p", ""}, {"", "p"}} {
		t.Run(fmt.Sprintf("head %q next %q", c.head, c.next), func(t *testing.T) {
			f := newEngine(t)
			f.declare("q", func(o *Options) { o.Window = 60 * time.Second })
			w1 := f.park("q", c.head, "g", 10)
			w2 := f.park("q", c.next, "g", 1)
			f.push("q", "p", "a")
			want(t, "w2 behind w1", f.answer(w2), "parked")
			if !f.Withdraw(f.now, w1, true, &f.wakes) {
				t.Fatal("w1")
			}
			f.collect()
			f.advance(20 * time.Second)
			want(t, "w2", f.answer(w2), "a")
		})
	}
}

// The head takes what fits at its timeout; the next one has its window.
func TestP5_TheNextWindowBeginsAfterATimeout(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(o *Options) { o.Window = 5 * time.Second })
	w1 := f.parkRequest(PopRequest{Queue: "q", Partition: "p", Group: "g", Batch: 10, MaxBytes: 4})
	w2 := f.park("q", "p", "g", 10)
	f.push("q", "p", "aaa", "bbb")
	f.advance(time.Second)
	if f.Withdraw(f.now, w1, false, &f.wakes) {
		t.Fatal("w1 got nothing")
	}
	f.collect()
	f.advance(20 * time.Second)
	want(t, "w2", f.answer(w2), "bbb")
}

// With the window gone everybody is served, whoever had the first ring.
func TestP3_ConfigureServesEveryLine(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(o *Options) { o.Window = 60 * time.Second })
	w1 := f.park("q", "a", "g", 10)
	w2 := f.park("q", "", "g", 10)
	f.push("q", "a", "a1")
	f.push("q", "b", "b1")
	f.declare("q", func(o *Options) {})
	want(t, "w1", f.answer(w1), "a1")
	f.advance(20 * time.Second)
	want(t, "w2", f.answer(w2), "b1")
}

// And after a pause.
func TestP3_ResumeServesEveryLine(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(o *Options) { o.Lease = time.Second })
	f.push("q", "a", "a1")
	f.push("q", "b", "b1")
	f.pop("q", "a", "g", 1)
	f.pop("q", "b", "g", 1)
	w1 := f.park("q", "a", "g", 10)
	w2 := f.park("q", "", "g", 10)
	f.SetPaused(f.now, true, &f.wakes)
	f.advance(2 * time.Second)
	f.SetPaused(f.now, false, &f.wakes)
	f.collect()
	want(t, "w1", f.answer(w1), "a1.2")
	f.advance(500 * time.Millisecond)
	want(t, "w2", f.answer(w2), "b1.2")
}

// D3, D6: attempts stop at the largest that an id can name; they do not begin anew.
func TestD3_AttemptsDoNotWrap(t *testing.T) {
	f := newEngine(t)
	f.push("q", "p", "a")
	for i := range maxAttempt + 10 {
		d := f.popDelivery("q", "p", "g", 1)
		if want := min(i+1, maxAttempt); len(d.Messages) != 1 || d.Messages[0].Attempts != want {
			t.Fatalf("delivery %d: %+v", i+1, d.Messages)
		}
		f.giveBack(d, true)
	}
}

// B6: acks for queues at rest cost nothing.
func TestB6_AnAckLeavesAQueueAtRest(t *testing.T) {
	f := newEngine(t)
	f.push("q", "p", "a")
	got := f.pop("q", "p", "g", 1)
	f.ack("q", "g", got...)
	f.advance(10 * time.Second)
	before := f.Stats().Bytes
	want(t, "the old id", f.ack("q", "g", got...), "unknown")
	got[0].Incarnation++
	want(t, "another incarnation", f.ack("q", "g", got...), "stale")
	if after := f.Stats().Bytes; after != before || f.find("t", "q").body != nil {
		t.Errorf("footprint %d, before %d", after, before)
	}
}
