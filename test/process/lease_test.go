package process

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/queencell/queencell/test/internal/broker"
)

// TestLeaseEndsWhileConnectionStaysOpen pins EN-02 (D4): the lease's timer belongs to the message and not to the
// connection that got it.
func TestLeaseEndsWhileConnectionStaysOpen(t *testing.T) {
	t.Parallel()
	name := queue(t)
	shared.Configure(name, `{"leaseSeconds":2}`).Want(t, 201)
	shared.Push(name, "", `"m"`).Want(t, 201)
	c, err := shared.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if p := c.Pop(name, broker.PopOptions{Wait: true, Timeout: 5 * time.Second}, 5*time.Second); len(p.Messages) != 1 {
		t.Fatalf("first pop: %v", p)
	}
	start := time.Now()
	p := shared.Pop(name, broker.PopOptions{Wait: true, Timeout: 20 * time.Second})
	between(t, "redelivered", time.Since(start), 1500*time.Millisecond, 2500*time.Millisecond)
	if len(p.Messages) != 1 || p.Messages[0].Attempts != 2 {
		t.Fatalf("second consumer: %v", p)
	}
}

// TestLeaseExpiryIsPunctual pins D4: an expiry reaches a parked consumer within 150 ms of the deadline, and not before.
func TestLeaseExpiryIsPunctual(t *testing.T) {
	const n = 20
	prefix := queue(t)
	var wg sync.WaitGroup
	for i := range n {
		name := fmt.Sprintf("%s-%d", prefix, i)
		shared.Configure(name, `{"leaseSeconds":1}`).Want(t, 201)
		shared.Push(name, "", `1`).Want(t, 201)
		before := time.Now()
		if p := shared.Pop(name, broker.PopOptions{}); len(p.Messages) != 1 {
			t.Fatalf("pop: %v", p)
		}
		after := time.Now()
		wg.Go(func() {
			p := shared.Pop(name, broker.PopOptions{Wait: true, Timeout: 20 * time.Second})
			now := time.Now()
			if len(p.Messages) != 1 || p.Messages[0].Attempts != 2 {
				t.Errorf("second pop: %v", p)
			}
			// The lease began between before and after; its end is known to a millisecond at best.
			between(t, "redelivered", now.Sub(after), time.Second-after.Sub(before)-time.Millisecond, time.Second+slow(150*time.Millisecond))
		})
	}
	wg.Wait()
}

// TestConsumersKilled pins EN-03: what killed consumers held comes back in order, once, by itself.
func TestConsumersKilled(t *testing.T) {
	t.Parallel()
	name := queue(t)
	shared.Configure(name, `{"leaseSeconds":1}`).Want(t, 201)
	shared.Push(name, "", numbers(0, 100)...).Want(t, 201)
	paths := make([]string, 10)
	for i := range paths {
		paths[i] = broker.PopPath(name, broker.PopOptions{Batch: 10})
	}
	c := startChild(t, shared, paths...)
	c.answers(t, len(paths))
	if d := shared.Depth(name, ""); d.InGroup("").Leased != 100 {
		t.Fatalf("before the kill: %v", d)
	}
	c.kill()
	broker.Eventually(t, slow(2*time.Second), func() string {
		if d := shared.Depth(name, ""); d.InGroup("").Leased != 0 {
			return d.String()
		}
		return ""
	})
	p := shared.Pop(name, broker.PopOptions{Batch: 1000})
	if len(p.Messages) != 100 {
		t.Fatalf("%d messages came back", len(p.Messages))
	}
	for i, m := range p.Messages {
		if m.Attempts != 2 || string(m.Payload) != fmt.Sprint(i) {
			t.Fatalf("message %d is %s with attempts %d", i, m.Payload, m.Attempts)
		}
	}
}

// TestAutoAckOfAParkedPop pins EN-10 (D1): the waiting path settles like the immediate one.
func TestAutoAckOfAParkedPop(t *testing.T) {
	t.Parallel()
	for _, waiting := range []bool{true, false} {
		t.Run(fmt.Sprintf("waiting=%v", waiting), func(t *testing.T) {
			t.Parallel()
			name := queue(t)
			shared.Configure(name, `{"leaseSeconds":1}`).Want(t, 201)
			result := make(chan broker.Popped, 1)
			pop := func() {
				result <- shared.Pop(name, broker.PopOptions{Group: "g", Wait: waiting, Timeout: 10 * time.Second, AutoAck: true})
			}
			if waiting {
				go pop()
				// The group is known once the pop is there.
				broker.Eventually(t, 5*time.Second, func() string {
					if d := shared.Depth(name, ""); len(d.Groups) != 1 {
						return d.String()
					}
					return ""
				})
				shared.Push(name, "", `"m"`).Want(t, 201)
			} else {
				shared.Push(name, "", `"m"`).Want(t, 201)
				go pop()
			}
			p := <-result
			if p.Payloads() != `"m"` {
				t.Fatalf("pop: %v", p)
			}
			if d := shared.Depth(name, ""); d.InGroup("g").Leased != 0 {
				t.Errorf("a lease was kept: %v", d)
			}
			if again := shared.Pop(name, broker.PopOptions{Group: "g", Wait: true, Timeout: 1500 * time.Millisecond}); len(again.Messages) != 0 {
				t.Errorf("it came again: %v", again)
			}
			if a := shared.Ack(name, "g", "", p.IDs()...); a.Outcomes() != "unknown" {
				t.Errorf("ack of an auto-acked message: %v", a)
			}
		})
	}
}

// TestRedeliveryWakes pins LP-04 (P3): what becomes deliverable again reaches who is parked.
func TestRedeliveryWakes(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"retry", "failed", "silent"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			name := queue(t)
			shared.Configure(name, `{"leaseSeconds":2}`).Want(t, 201)
			shared.Push(name, "", `"m"`).Want(t, 201)
			first := shared.Pop(name, broker.PopOptions{})
			if len(first.Messages) != 1 {
				t.Fatalf("pop: %v", first)
			}
			start := time.Now()
			type timed struct {
				broker.Popped
				at time.Time
			}
			result := make(chan timed, 1)
			go func() {
				p := shared.Pop(name, broker.PopOptions{Wait: true, Timeout: 20 * time.Second})
				result <- timed{p, time.Now()}
			}()
			var second timed
			if status == "silent" {
				second = <-result
				between(t, "redelivered", second.at.Sub(start), 1500*time.Millisecond, 2500*time.Millisecond)
			} else {
				select {
				case second = <-result:
					t.Fatalf("redelivered before the nack: %v", second.Popped)
				case <-time.After(time.Second): // the reported case: one second into the lease
				}
				acked := time.Now()
				if a := shared.Ack(name, "", status, first.IDs()...); a.Outcomes() != "redelivered" {
					t.Errorf("nack: %v", a)
				}
				second = <-result
				between(t, "redelivered after the nack", second.at.Sub(acked), 0, slow(300*time.Millisecond))
			}
			if len(second.Messages) != 1 || second.Messages[0].Attempts != 2 {
				t.Fatalf("second consumer: %v", second.Popped)
			}
		})
	}
}

// TestTwoQuickRequeues pins EN-09: two concurrent nacks lose nothing, however often.
func TestTwoQuickRequeues(t *testing.T) {
	name := queue(t)
	shared.Configure(name, `{"retryLimit":1000}`).Want(t, 201)
	shared.Push(name, "", `"a"`, `"b"`).Want(t, 201)
	for round := range scaled(500, 200) {
		p := shared.Pop(name, broker.PopOptions{Batch: 2, Wait: true, Timeout: 5 * time.Second})
		if p.Payloads() != `"a" "b"` {
			t.Fatalf("round %d: %v", round, p)
		}
		var wg sync.WaitGroup
		for _, m := range p.Messages {
			if m.Attempts != round+1 {
				t.Fatalf("round %d: %s has attempts %d", round, m.Payload, m.Attempts)
			}
			wg.Go(func() {
				if a := shared.Ack(name, "", "retry", m.ID); a.Outcomes() != "redelivered" {
					t.Errorf("round %d: %v", round, a)
				}
			})
		}
		wg.Wait()
		if d := shared.Depth(name, ""); d.Pending != 2 || d.InGroup("").Leased != 0 {
			t.Fatalf("round %d: %v", round, d)
		}
	}
}

// TestLeasedHeadHoldsNothingUp pins EN-13 (R1, P6): another partition is served at once, and so is the message when its
// lease is given back.
func TestLeasedHeadHoldsNothingUp(t *testing.T) {
	t.Parallel()
	name := queue(t)
	shared.Push(name, "A", `"a1"`).Want(t, 201)
	shared.Push(name, "B", `"b1"`, `"b2"`).Want(t, 201)
	held := shared.Pop(name, broker.PopOptions{Partition: "A"})
	if held.Payloads() != `"a1"` {
		t.Fatalf("pop of A: %v", held)
	}
	start := time.Now()
	if p := shared.Pop(name, broker.PopOptions{Partition: "B", Wait: true, Timeout: 5 * time.Second}); p.Payloads() != `"b1"` {
		t.Errorf("pop of B: %v", p)
	}
	if p := shared.Pop(name, broker.PopOptions{Wait: true, Timeout: 5 * time.Second}); p.Payloads() != `"b2"` {
		t.Errorf("pop of all: %v", p)
	}
	between(t, "B was served", time.Since(start), 0, slow(500*time.Millisecond))
	// A second message of A goes past the leased one (R1), and the leased one comes at once when it is given back.
	shared.Push(name, "A", `"a2"`).Want(t, 201)
	if p := shared.Pop(name, broker.PopOptions{Partition: "A"}); p.Payloads() != `"a2"` {
		t.Errorf("second pop of A: %v", p)
	}
	result := make(chan time.Time, 1)
	go func() {
		p := shared.Pop(name, broker.PopOptions{Partition: "A", Wait: true, Timeout: 20 * time.Second})
		if p.Payloads() != `"a1"` {
			t.Errorf("parked pop of A: %v", p)
		}
		result <- time.Now()
	}()
	acked := time.Now()
	if a := shared.Ack(name, "", "retry", held.IDs()...); a.Outcomes() != "redelivered" {
		t.Errorf("nack: %v", a)
	}
	between(t, "A was served", (<-result).Sub(acked), 0, slow(300*time.Millisecond))
}

// TestTTLWithoutPolls pins EN-14 (T1): a queue that nobody touches shrinks by itself.
func TestTTLWithoutPolls(t *testing.T) {
	t.Parallel()
	name := queue(t)
	shared.Configure(name, `{"ttlSeconds":2,"maxLength":10}`).Want(t, 201)
	shared.Push(name, "", numbers(0, 10)...).Want(t, 201)
	start := time.Now()
	shared.Push(name, "", `10`).WantCode(t, 429, "queue_full")
	broker.Eventually(t, 4*time.Second, func() string {
		d := shared.Depth(name, "")
		if d.Pending != 0 || d.Bytes != 0 {
			if age := time.Since(start); age > 2*time.Second+slow(300*time.Millisecond) {
				t.Fatalf("after %v: %v", age, d)
			}
			return d.String()
		}
		return ""
	})
	between(t, "expired", time.Since(start), 1900*time.Millisecond, 2*time.Second+slow(400*time.Millisecond))
	q := shared.Queues(name, "", 10).Find(name)
	if q == nil || q.Drops.TTL != 10 || q.Depth != 0 || q.Bytes != 0 {
		t.Errorf("listed as %+v", q)
	}
	shared.Push(name, "", `11`).Want(t, 201)
	if p := shared.Pop(name, broker.PopOptions{Batch: 100}); p.Payloads() != "11" {
		t.Errorf("pop: %v", p)
	}
}

// TestAutoAckDeliversOnce pins EN-21: an autoAck loop gets each message once, in order, without gaps.
func TestAutoAckDeliversOnce(t *testing.T) {
	t.Parallel()
	for _, consumers := range []int{1, 4} {
		t.Run(fmt.Sprint(consumers), func(t *testing.T) {
			t.Parallel()
			name := queue(t)
			shared.Push(name, "", numbers(0, 20)...).Want(t, 201)
			var mu sync.Mutex
			var got []string
			var wg sync.WaitGroup
			for range consumers {
				wg.Go(func() {
					for {
						start := time.Now()
						p := shared.Pop(name, broker.PopOptions{Group: "g", AutoAck: true})
						if len(p.Messages) == 0 {
							return
						}
						if gap := time.Since(start); gap > slow(time.Second) {
							t.Errorf("a pop took %v", gap)
						}
						mu.Lock()
						got = append(got, p.Payloads())
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			seen := map[string]bool{}
			for i, payload := range got {
				if consumers == 1 && payload != fmt.Sprint(i) {
					t.Errorf("message %d is %s", i, payload)
				}
				seen[payload] = true
			}
			if len(got) != 20 || len(seen) != 20 {
				t.Errorf("got %v", got)
			}
		})
	}
}
