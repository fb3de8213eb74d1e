package process

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/queencell/queencell/test/internal/broker"
)

// TestIdleCollection pins EN-25 and E3: what keeps an implicit queue alive, and what does not.
func TestIdleCollection(t *testing.T) {
	t.Parallel()
	b := broker.Start(t, map[string]string{"QUEEN_EPHEMERAL_IMPLICIT_IDLE_S": "2"})
	const used, declared, parked, leased, pending = "used", "declared", "parked", "leased", "pending"
	b.Configure(declared, `{}`).Want(t, 201)
	for _, name := range []string{used, declared} {
		b.Push(name, "", `1`).Want(t, 201)
		p := b.Pop(name, broker.PopOptions{})
		if got := b.Ack(name, "", "", p.IDs()...).Outcomes(); got != "acked" {
			t.Fatalf("%s: ack %s", name, got)
		}
	}
	b.Push(leased, "", `1`).Want(t, 201)
	b.Push(pending, "", `1`).Want(t, 201)
	if p := b.Pop(leased, broker.PopOptions{}); len(p.Messages) != 1 {
		t.Fatalf("pop: %v", p)
	}
	start := time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Pop(parked, broker.PopOptions{Wait: true, Timeout: 60 * time.Second, Context: ctx})
	}()
	// Reading the status all the while does not keep it.
	broker.Eventually(t, 8*time.Second, func() string {
		if d := b.Depth(used, ""); d.Status != 404 {
			return d.String()
		}
		return ""
	})
	between(t, "the idle queue was collected", time.Since(start), 1500*time.Millisecond, 7*time.Second)
	// The others have been as long without use by now, and some more.
	for time.Since(start) < 4*time.Second {
		if p := b.Pop("clock", broker.PopOptions{Wait: true, Timeout: time.Second}); p.Status != 200 {
			t.Fatal(p)
		}
	}
	q := b.Queues("", "", 0)
	for _, name := range []string{declared, parked, leased, pending} {
		if q.Find(name) == nil {
			t.Errorf("%s is gone: %v", name, q)
		}
	}
	if q.Find(used) != nil {
		t.Errorf("%s is listed", used)
	}
	cancel()
	<-done
	broker.Eventually(t, 8*time.Second, func() string {
		if d := b.Depth(parked, ""); d.Status != 404 {
			return "no longer parked: " + d.String()
		}
		return ""
	})
	// A queue of that name is new (E4).
	b.Push(used, "", `2`).Want(t, 201)
	if p := b.Pop(used, broker.PopOptions{Batch: 10}); p.Payloads() != "2" || p.Messages[0].Attempts != 1 {
		t.Errorf("made again: %v", p)
	}
}

// TestLateReplies pins EN-32: replies that nobody fetches any more are not delivered under another name, and their
// inboxes go when the requester's group is forgotten.
func TestLateReplies(t *testing.T) {
	t.Parallel()
	b := broker.Start(t, map[string]string{"QUEEN_EPHEMERAL_IMPLICIT_IDLE_S": "2", "QUEEN_EPHEMERAL_GROUP_IDLE_S": "2"})
	before, err := b.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	rounds := scaled(10000, 2000)
	var wg sync.WaitGroup
	for w := range 50 {
		wg.Go(func() {
			for i := w; i < rounds; i += 50 {
				inbox := fmt.Sprintf("inbox-%d", i)
				if p := b.Pop(inbox, broker.PopOptions{Wait: true, Timeout: 5 * time.Millisecond}); p.Status != 200 || len(p.Messages) != 0 {
					t.Errorf("%s: %v", inbox, p)
				}
				if a := b.Push(inbox, "", broker.Quote(inbox)); a.Status != 201 {
					t.Errorf("late reply: %v", a)
				}
			}
		})
	}
	wg.Wait()
	broker.Eventually(t, slow(15*time.Second), func() string {
		if n, err := b.Metric("queen_ephemeral_queues"); err != nil || n != before["queen_ephemeral_queues"] {
			return fmt.Sprintf("%v queues, %v", n, err)
		}
		return ""
	})
	if n, err := b.Metric("queen_ephemeral_bytes"); err != nil || n != before["queen_ephemeral_bytes"] {
		t.Errorf("%v bytes after, %v before, %v", n, before["queen_ephemeral_bytes"], err)
	}
}

// TestForgottenGroup pins E6: a group that nobody uses does not pin a queue.
func TestForgottenGroup(t *testing.T) {
	t.Parallel()
	b := broker.Start(t, map[string]string{"QUEEN_EPHEMERAL_GROUP_IDLE_S": "2"})
	b.Push("q", "", `1`).Want(t, 201)
	for _, group := range []string{"dead", "living"} {
		if p := b.Pop("q", broker.PopOptions{Group: group, AutoAck: group == "living"}); p.Payloads() != "1" {
			t.Fatalf("%s: %v", group, p)
		}
	}
	b.Push("q", "", `2`).Want(t, 201)
	// The living group keeps asking; the dead one's lease of 30 s keeps it, until it is settled.
	p := b.Pop("q", broker.PopOptions{Group: "dead"})
	if p.Payloads() != "2" {
		t.Fatalf("pop: %v", p)
	}
	b.Reset("q").Want(t, 200) // voids the leases, keeps the groups
	b.Push("q", "", `3`).Want(t, 201)
	broker.Eventually(t, slow(8*time.Second), func() string {
		b.Pop("q", broker.PopOptions{Group: "living", AutoAck: true})
		n, err := b.Metric("queen_ephemeral_groups_forgotten_total")
		if err != nil || n < 1 {
			return fmt.Sprintf("%v groups were forgotten, %v", n, err)
		}
		return ""
	})
	// What only the forgotten group held is settled and reclaimed within two seconds.
	broker.Eventually(t, slow(3*time.Second), func() string {
		b.Pop("q", broker.PopOptions{Group: "living", AutoAck: true})
		d := b.Depth("q", "")
		if len(d.Groups) != 1 || d.Groups[0].Group != "living" || d.Bytes != 0 {
			return d.String()
		}
		return ""
	})
}
