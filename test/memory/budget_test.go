package memory

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/queencell/queencell/test/internal/broker"
)

const (
	budget = 64 << 20
	// mixTime bounds one mix; most end before, when the broker refuses.
	mixTime = 5 * time.Second
)

// load runs one mix against one broker and counts what became of its calls.
type load struct {
	*broker.Broker
	ctx             context.Context
	served, refused atomic.Int64
	odd             sync.Map // answers that no rule allows, by status and code
}

// took counts an answer and reports whether it was a refusal.
func (l *load) took(a broker.Answer) bool {
	switch {
	case a.Err != nil:
		if l.ctx.Err() == nil {
			l.odd.Store(a.String(), true)
		}
		return true
	case a.Status/100 == 2:
		l.served.Add(1)
		return false
	case a.Status == 503 && a.Code() == "ephemeral_unavailable", a.Status == 429 && a.Code() == "queue_full",
		a.Status == 403 && a.Code() == "ephemeral_quota_exceeded":
		l.refused.Add(1)
		return true
	}
	l.odd.Store(fmt.Sprint(a.Status, a.Code()), true)
	return true
}

// each calls f(0), f(1), ... from workers until f says that it was refused often enough, or the mix's time is over.
func (l *load) each(workers int, f func(i int) (refused bool)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for refusals := 0; refusals < 200 && l.ctx.Err() == nil; {
				if f(int(next.Add(1) - 1)) {
					refusals++
				}
			}
		})
	}
	wg.Wait()
}

// environment gives queues bounds so wide that only the broker's budget refuses.
func environment() map[string]string {
	return map[string]string{
		"QUEEN_EPHEMERAL_MAX_BYTES":        fmt.Sprint(budget),
		"QUEEN_EPHEMERAL_QUEUE_MAX_BYTES":  "1073741824",
		"QUEEN_EPHEMERAL_QUEUE_MAX_LENGTH": "100000000",
		"QUEEN_EPHEMERAL_MAX_GROUPS":       "50000",
		"QUEEN_STORE":                      "memory",
	}
}

// watch samples the resident memory until stop is called, which returns the highest value.
func watch(t *testing.T, b *broker.Broker) (stop func() int64) {
	done, peak := make(chan struct{}), int64(0)
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for {
			rss, err := b.RSS()
			if err != nil {
				t.Errorf("the broker's memory cannot be read: %v", err)
				return
			}
			peak = max(peak, rss)
			select {
			case <-done:
				return
			case <-ticker.C:
			}
		}
	})
	return func() int64 {
		close(done)
		wg.Wait()
		return peak
	}
}

// TestBudget pins B6, each mix alone and all of them together.
func TestBudget(t *testing.T) {
	type named struct {
		name string
		run  func(*load)
	}
	mixes := []named{
		{"empty inboxes", emptyInboxes},
		{"one-byte messages", oneByteMessages},
		{"many groups", manyGroups},
		{"many leases", manyLeases},
		{"slow readers", slowReaders},
		{"big bodies", bigBodies},
		{"one survivor per segment", survivors},
	}
	all := named{"all together", func(l *load) {
		var wg sync.WaitGroup
		for _, m := range mixes {
			wg.Go(func() { m.run(l) })
		}
		wg.Wait()
	}}
	for _, m := range append(mixes, all) {
		t.Run(m.name, func(t *testing.T) {
			b := broker.Start(t, environment())
			warmUp(t, b)
			idle, err := b.RSS()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), mixTime)
			defer cancel()
			stop := watch(t, b)
			l := &load{Broker: b, ctx: ctx}
			m.run(l)
			counted, err := b.Metric("queen_ephemeral_bytes")
			if err != nil {
				t.Error(err)
			}
			stillServes(t, b)
			peak := stop()
			limit := int64(budget)*3/2 + idle
			t.Logf("%-26s idle %5.1f MB, peak %6.1f MB, allowed %6.1f MB, counted %5.1f MB, %d calls served, %d refused",
				m.name, float64(idle)/1e6, float64(peak)/1e6, float64(limit)/1e6, counted/1e6, l.served.Load(), l.refused.Load())
			if peak > limit {
				t.Errorf("resident memory reached %d bytes, allowed are %d", peak, limit)
			}
			l.odd.Range(func(answer, _ any) bool {
				t.Errorf("an answer that no rule allows: %v", answer)
				return true
			})
			if l.served.Load() == 0 {
				t.Error("nothing was served")
			}
		})
	}
}

// warmUp makes the buffers that any traffic needs, so that "idle" is a broker that has served.
func warmUp(t *testing.T, b *broker.Broker) {
	t.Helper()
	for range 100 {
		b.Push("warm", "", `1`).Want(t, 201)
		b.Pop("warm", broker.PopOptions{AutoAck: true}).Want(t, 200)
	}
	b.Delete("warm").Want(t, 200)
}

// stillServes deletes what holds messages and expects that the broker takes new ones.
func stillServes(t *testing.T, b *broker.Broker) {
	t.Helper()
	after := ""
	for range 40 { // pages; an inbox without messages needs no delete
		q := b.Queues("", after, 10_000)
		q.Want(t, 200)
		for _, info := range q.Queues {
			if info.Depth > 0 || info.Groups > 100 {
				b.Delete(info.Queue).Want(t, 200)
			}
		}
		if after = q.Next; after == "" {
			break
		}
	}
	broker.Eventually(t, 15*time.Second, func() string {
		if a := b.Push("after", "", `"after"`); a.Status != 201 {
			return a.String()
		}
		p := b.Pop("after", broker.PopOptions{})
		if p.Payloads() != `"after"` {
			return p.String()
		}
		if got := b.Ack("after", "", "", p.IDs()...).Outcomes(); got != "acked" {
			return got
		}
		return ""
	})
}

// TestOneGroupDrainsAFullBroker pins B6: the lease of the first group is paid for at the push, so that no pop or ack of
// it is refused, however full the broker is.
func TestOneGroupDrainsAFullBroker(t *testing.T) {
	b := broker.Start(t, environment())
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	oneByteMessages(&load{Broker: b, ctx: ctx})
	held := b.Depth("bytes", "").Pending
	if held < 10_000 {
		t.Fatalf("%d messages are held", held)
	}
	got := int64(0)
	var ids [][]string
	for {
		p := b.Pop("bytes", broker.PopOptions{Batch: 10_000})
		p.Want(t, 200)
		if len(p.Messages) == 0 {
			break
		}
		got += int64(len(p.Messages))
		ids = append(ids, p.IDs())
	}
	if got != held {
		t.Errorf("popped %d of %d", got, held)
	}
	for _, some := range ids {
		a := b.Ack("bytes", "", "", some...)
		a.Want(t, 200)
		for _, r := range a.Results {
			if r.Outcome != "acked" {
				t.Fatalf("ack: %+v", r)
			}
		}
	}
	b.Push("bytes", "", `1`).Want(t, 201)
}
