package process

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/queencell/queencell/test/internal/broker"
)

// ledger is what clients were told about one queue.
type ledger struct{ pushed, completed, reset atomic.Int64 }

// TestNothingIsUnaccounted pins EN-27: after random traffic each pushed message was settled, dropped for a counted
// cause, or is there to be had.
func TestNothingIsUnaccounted(t *testing.T) {
	const queues, clients = 5, 20
	prefix := queue(t)
	var ledgers [queues]ledger
	name := func(i int) string { return fmt.Sprintf("%s-%d", prefix, i) }
	for i, options := range []string{
		`{"leaseSeconds":1,"retryLimit":3}`,
		`{"leaseSeconds":1,"retryLimit":0}`,
		`{"leaseSeconds":1,"maxLength":50,"policy":"dropOldest","retryLimit":1000}`,
		`{"leaseSeconds":1,"ttlSeconds":1,"retryLimit":2}`,
		`{"leaseSeconds":1,"maxLength":100,"retryLimit":5}`,
	} {
		shared.Configure(name(i), options).Want(t, 201)
	}
	end := time.Now().Add(6 * time.Second)
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(c), 3))
			for time.Now().Before(end) {
				i := random.IntN(queues)
				step(t, random, name(i), &ledgers[i])
			}
		})
	}
	wg.Wait()
	for i := range queues {
		l := &ledgers[i]
		broker.Eventually(t, slow(4*time.Second), func() string {
			d := shared.Depth(name(i), "")
			q := shared.Queues(name(i), "", 1).Find(name(i))
			if q == nil {
				return "not listed"
			}
			g := d.InGroup("")
			if d.Pending < 0 || d.Bytes < 0 || q.Depth < 0 || q.Bytes < 0 || g.Pending < 0 || g.Leased < 0 || g.Skipped < 0 {
				t.Fatalf("a gauge below zero: %v %+v", d, q)
			}
			accounted := l.completed.Load() + l.reset.Load() + q.Drops.Bounds + q.Drops.TTL + q.Drops.Retry + g.Pending + g.Leased
			if g.Leased != 0 || accounted != l.pushed.Load() {
				return fmt.Sprintf("queue %d: pushed %d; completed %d, reset %d, drops %+v, pending %d, leased %d", i,
					l.pushed.Load(), l.completed.Load(), l.reset.Load(), q.Drops, g.Pending, g.Leased)
			}
			return ""
		})
		t.Logf("queue %d: pushed %d, completed %d, reset %d", i, l.pushed.Load(), l.completed.Load(), l.reset.Load())
		if l.pushed.Load() == 0 || l.completed.Load() == 0 {
			t.Errorf("queue %d saw no traffic", i)
		}
		// A depth above zero means that a pop gets something.
		if d := shared.Depth(name(i), ""); d.Pending > 0 && i != 3 {
			if p := shared.Pop(name(i), broker.PopOptions{Batch: 10_000}); int64(len(p.Messages)) != d.Pending {
				t.Errorf("queue %d: %d pending, %d popped", i, d.Pending, len(p.Messages))
			}
		}
	}
}

// step is one random request and what follows from it.
func step(t *testing.T, random *rand.Rand, name string, l *ledger) {
	partition := fmt.Sprintf("p%d", random.IntN(3))
	switch n := random.IntN(100); {
	case n < 45:
		payloads := numbers(0, 1+random.IntN(8))
		switch a := shared.Push(name, partition, payloads...); a.Status {
		case 201:
			l.pushed.Add(int64(len(payloads)))
		case 429:
		default:
			t.Errorf("push: %v", a)
		}
	case n < 99:
		o := broker.PopOptions{Batch: 1 + random.IntN(8), AutoAck: random.IntN(5) == 0}
		if random.IntN(2) == 0 {
			o.Partition = partition
		}
		if random.IntN(4) == 0 {
			o.Wait, o.Timeout = true, 20*time.Millisecond
		}
		p := shared.Pop(name, o)
		if p.Status != 200 {
			t.Errorf("pop: %v", p)
		}
		if o.AutoAck {
			l.completed.Add(int64(len(p.Messages)))
			return
		}
		if len(p.Messages) == 0 || random.IntN(10) == 0 {
			return // left to expire
		}
		status := []string{"completed", "completed", "completed", "failed", "retry"}[random.IntN(5)]
		a := shared.Ack(name, "", status, p.IDs()...)
		if len(a.Results) != len(p.Messages) {
			t.Errorf("ack: %v", a)
		}
		for _, r := range a.Results {
			if status == "completed" && r.Outcome == "acked" {
				l.completed.Add(1)
			}
		}
	default:
		r := shared.Reset(name)
		if r.Status != 200 {
			t.Errorf("reset: %v", r)
		}
		l.reset.Add(r.Dropped)
	}
}
