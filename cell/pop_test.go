package cell

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/queencell/queencell/declare"
	"github.com/queencell/queencell/engine"
	"github.com/queencell/queencell/owner"
)

// Contract P4, case LP-05: an empty answer comes at the timeout, not before and not late.
func TestEmptyAnswerComesAtTheTimeout(t *testing.T) {
	for _, wait := range []time.Duration{time.Millisecond, time.Second, 20 * time.Second, 300 * time.Second} {
		for _, partition := range []string{"", "p"} {
			inBubble(t, func(t *testing.T, b *Broker) {
				req := request("q")
				req.Partition = partition
				p := popAs(t.Context(), b, req, wait)
				expect(t, p)
				if p.after != wait {
					t.Errorf("partition %q: empty after %v, want %v", partition, p.after, wait)
				}
				expectNobody(t, b)
			})
		}
	}
}

// Case LP-16: no setting of one pop is seen by the next, which gets the same pooled waiter.
func TestWaitsDoNotLeak(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Broker) {
		for i := range 200 {
			long, short := 5*time.Second, time.Duration(i)*time.Millisecond
			for _, wait := range []time.Duration{0, long, short, 0, long} {
				p := pop(t.Context(), b, "q", wait)
				expect(t, p)
				if p.after != wait {
					t.Fatalf("round %d: empty after %v, want %v", i, p.after, wait)
				}
			}
		}
	})
}

func TestPushAnswersTheParkedPop(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Broker) {
		done := park(t.Context(), b, request("q"), 20*time.Second)
		if n := b.System().ParkedPolls; n != 1 {
			t.Fatalf("%d parked polls, want 1", n)
		}
		time.Sleep(7 * time.Second)
		push(t, b, "q", "a", "b")
		p := <-done
		expect(t, p, "a", "b")
		if p.after != 7*time.Second {
			t.Errorf("answered after %v, want 7s", p.after)
		}
		if !p.served.OneRing || p.served.Incarnation != p.d.Messages[0].Incarnation || p.served.Node != "b1" {
			t.Errorf("served by %+v, message of ring %x", p.served, p.d.Messages[0].Incarnation)
		}
		expectNobody(t, b)
		if outcome := ack(t, b, "q", &p.d.Messages[0], engine.Complete); outcome != engine.OutcomeAcked {
			t.Errorf("ack: %v", outcome)
		}
	})
}

// Contract P2, case LP-08: the longest waiting first, one message each.
func TestOneMessageWakesOneWaiter(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Broker) {
		req := request("q")
		req.Batch = 1
		var waiting []<-chan *popped
		for range 10 {
			waiting = append(waiting, park(t.Context(), b, req, time.Minute))
		}
		for i, done := range waiting {
			push(t, b, "q", fmt.Sprint(i))
			synctest.Wait()
			if n := b.System().ParkedPolls; n != int64(9-i) {
				t.Fatalf("%d polls wait after %d messages", n, i+1)
			}
			expect(t, <-done, fmt.Sprint(i))
		}
	})
}

// Contract D4, cases EN-02 and LP-04: the end of a lease reaches a parked consumer when it comes.
func TestLeaseExpiryReachesTheParkedPop(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Broker) {
		configure(t, b, "q", `{"leaseSeconds":2}`)
		push(t, b, "q", "a")
		first := pop(t.Context(), b, "q", 5*time.Second)
		expect(t, first, "a")
		second := pop(t.Context(), b, "q", 20*time.Second)
		expect(t, second, "a")
		if second.after < 2*time.Second || second.after > 2*time.Second+50*time.Millisecond {
			t.Errorf("redelivered after %v, want 2s", second.after)
		}
		if n := second.d.Messages[0].Attempts; n != 2 {
			t.Errorf("attempts %d, want 2", n)
		}
	})
}

// Contract P4: a message and a timeout that meet have one outcome. The push comes just before, at, and just after the
// end of the wait.
func TestMessageAndTimeoutMeet(t *testing.T) {
	for _, offset := range []time.Duration{-1, 0, 1} {
		inBubble(t, func(t *testing.T, b *Broker) {
			for i := range 300 {
				name := fmt.Sprint(i)
				done := park(t.Context(), b, request("q"), time.Second)
				time.Sleep(time.Second + offset)
				push(t, b, "q", name)
				p := <-done
				if p.err != nil {
					t.Fatal(p.err)
				}
				rest := pop(t.Context(), b, "q", 0)
				if got := append(p.payloads(), rest.payloads()...); len(got) != 1 || got[0] != name {
					t.Fatalf("offset %v: delivered %q and then %q", offset, p.payloads(), rest.payloads())
				}
				for _, d := range []*popped{p, rest} {
					for j := range d.d.Messages {
						ack(t, b, "q", &d.d.Messages[j], engine.Complete)
					}
				}
				expectNobody(t, b)
			}
		})
	}
}

// Contract D9, case LP-01: who has gone gets nothing, also when it goes in the moment of the delivery.
func TestGoneConsumerGetsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Broker) {
		for i := range 300 {
			ctx, cancel := context.WithCancel(t.Context())
			done := park(ctx, b, request("q"), time.Minute)
			name := fmt.Sprint(i)
			switch i % 3 {
			case 0:
				cancel()
				synctest.Wait()
				expectNobody(t, b)
				push(t, b, "q", name)
			case 1:
				cancel()
				push(t, b, "q", name)
			case 2:
				push(t, b, "q", name)
				cancel()
			}
			gone := <-done
			cancel()
			if gone.err == nil && i%3 == 2 {
				// It had taken the message before it went; the transport gives it back.
				b.GiveBack(&gone.d, false)
			} else if !errors.Is(gone.err, context.Canceled) || len(gone.d.Messages) > 0 {
				t.Fatalf("round %d: the gone consumer got %q, %v", i, gone.payloads(), gone.err)
			}
			live := pop(t.Context(), b, "q", 0)
			expect(t, live, name)
			if n := live.d.Messages[0].Attempts; n != 1 {
				t.Fatalf("round %d: attempts %d, want 1: the give-back left a trace", i, n)
			}
			ack(t, b, "q", &live.d.Messages[0], engine.Complete)
		}
	})
}

// A call has answered a waiter, and the waiter's time ends, or its client goes, before the call signals it. The waiter
// can't be used again until it was signalled.
func TestAnsweredButNotYetSignalled(t *testing.T) {
	for _, goes := range []bool{false, true} {
		inBubble(t, func(t *testing.T, b *Broker) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := park(ctx, b, request("q"), time.Second)
			wakes := b.takeWakes()
			message := &engine.PushRequest{Tenant: tenant, Queue: "q", Messages: []engine.Message{{Payload: []byte("a")}}}
			if _, err := b.engine.Push(b.now(), message, wakes); err != nil || len(*wakes) != 1 {
				t.Fatalf("%d woken, %v", len(*wakes), err)
			}
			if goes {
				cancel()
			} else {
				time.Sleep(2 * time.Second)
			}
			synctest.Wait()
			select {
			case p := <-done:
				t.Fatalf("the pop ended before it was signalled, with %q, %v", p.payloads(), p.err)
			default:
			}
			b.signal(wakes)
			p := <-done
			if !goes {
				expect(t, p, "a")
				return
			}
			if !errors.Is(p.err, context.Canceled) || len(p.d.Messages) > 0 {
				t.Errorf("the gone consumer got %q, %v", p.payloads(), p.err)
			}
			live := pop(t.Context(), b, "q", 0)
			expect(t, live, "a")
			if live.d.Messages[0].Attempts != 1 {
				t.Error("the give-back left a trace")
			}
		})
	}
}

// blind is a context whose end is seen only by who asks.
type blind struct {
	context.Context
	ended atomic.Bool
}

func (b *blind) Err() error {
	if b.ended.Load() {
		return context.Canceled
	}
	return nil
}

// Contract D9: a client that goes in the moment in which its answer comes is looked for once more.
func TestContextIsLookedAtAfterWaking(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Broker) {
		ctx := &blind{Context: t.Context()}
		done := park(ctx, b, request("q"), time.Minute)
		ctx.ended.Store(true)
		push(t, b, "q", "a")
		if p := <-done; !errors.Is(p.err, context.Canceled) || len(p.d.Messages) > 0 {
			t.Errorf("the gone consumer got %q, %v", p.payloads(), p.err)
		}
		live := pop(t.Context(), b, "q", 0)
		expect(t, live, "a")
		if live.d.Messages[0].Attempts != 1 {
			t.Error("the give-back left a trace")
		}
	})
}

func TestEndedContextClaimsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Broker) {
		push(t, b, "q", "a")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, wait := range []time.Duration{0, time.Second} {
			if p := pop(ctx, b, "q", wait); !errors.Is(p.err, context.Canceled) || len(p.d.Messages) > 0 {
				t.Errorf("wait %v: got %q, %v", wait, p.payloads(), p.err)
			}
		}
		p := pop(t.Context(), b, "q", 0)
		expect(t, p, "a")
		if p.d.Messages[0].Attempts != 1 {
			t.Error("the pop of an ended context claimed")
		}
	})
}

// Contract P5: at the end of its time a windowed pop claims what is there.
func TestWindowedPopClaimsAtItsTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Broker) {
		configure(t, b, "q", `{"windowBuffer":{"ms":5000,"count":3}}`)
		push(t, b, "q", "a")
		p := pop(t.Context(), b, "q", 2*time.Second)
		expect(t, p, "a")
		if p.after != 2*time.Second {
			t.Errorf("answered after %v, want 2s", p.after)
		}
		push(t, b, "q", "b")
		p = pop(t.Context(), b, "q", time.Minute)
		expect(t, p, "b")
		if p.after != 5*time.Second {
			t.Errorf("answered after %v, want the window's 5s", p.after)
		}
	})
}

// Rule O4: a parked pop whose partition moved is routed again with the time it has left.
func TestMovedPopIsRoutedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Broker) {
		req := request("q")
		req.Partition = "p"
		slots := []int{owner.SlotOf(tenant, "q", "p")}
		done := park(t.Context(), b, req, 10*time.Second)
		time.Sleep(4 * time.Second)

		wakes := b.takeWakes()
		b.engine.CloseSlots(b.now(), slots, wakes)
		b.engine.OpenSlots(slots)
		b.signal(wakes)
		synctest.Wait()
		if n := b.System().ParkedPolls; n != 1 {
			t.Fatalf("%d polls wait after the move, want 1", n)
		}
		p := <-done
		expect(t, p)
		if p.after != 10*time.Second {
			t.Errorf("empty after %v, want 10s", p.after)
		}
		expectNobody(t, b)
	})
}

// A partition that stays closed is not waited for: the client is told to come again, and nothing was done.
func TestClosedPartitionIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Broker) {
		req := request("q")
		req.Partition = "p"
		message := &engine.PushRequest{Tenant: tenant, Queue: "q", Partition: "p", Messages: []engine.Message{{Payload: []byte("1")}}}
		if _, err := b.Push(t.Context(), message); err != nil {
			t.Fatal(err)
		}
		got := popAs(t.Context(), b, req, 0)
		expect(t, got, "1")
		parked := park(t.Context(), b, req, time.Minute)

		wakes := b.takeWakes()
		b.engine.CloseSlots(b.now(), []int{owner.SlotOf(tenant, "q", "p")}, wakes)
		b.signal(wakes)
		if p := <-parked; !errors.Is(p.err, ErrMoved) {
			t.Errorf("parked pop: %v, want ErrMoved", p.err)
		}
		if p := popAs(t.Context(), b, req, 0); !errors.Is(p.err, ErrMoved) {
			t.Errorf("pop: %v, want ErrMoved", p.err)
		}
		if _, err := b.Push(t.Context(), message); !errors.Is(err, ErrMoved) {
			t.Errorf("push: %v, want ErrMoved", err)
		}
		if outcome := ack(t, b, "q", &got.d.Messages[0], engine.Complete); outcome != engine.OutcomeUnavailable {
			t.Errorf("ack: %v, want unavailable", outcome)
		}
		expectNobody(t, b)
	})
}

// The acks of one call that met a closed slot are sent again, in place.
func TestAckIsRoutedAgainInPlace(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Broker) {
		push(t, b, "q", "a", "b")
		got := pop(t.Context(), b, "q", 0)
		expect(t, got, "a", "b")
		req := &engine.AckRequest{Tenant: tenant, Queue: "q"}
		for i := range got.d.Messages {
			req.Acks = append(req.Acks, engine.Ack{ID: idOf(&got.d.Messages[i])})
		}
		outcomes := []engine.Outcome{engine.OutcomeClosed, engine.OutcomeStale}
		if !b.ackAgain(req, outcomes) {
			t.Fatal("nothing was sent again")
		}
		if outcomes[0] != engine.OutcomeAcked || outcomes[1] != engine.OutcomeStale {
			t.Errorf("outcomes %v, want acked and, as it was, stale", outcomes)
		}
		if b.ackAgain(req, outcomes) {
			t.Error("it was sent again though no slot was closed")
		}
	})
}

// Rule G1, case LP-11: a single broker that stops answers the parked pops at once, and parks no other.
func TestDrainAnswersParkedPops(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Broker) {
		var waiting []<-chan *popped
		for range 100 {
			waiting = append(waiting, park(t.Context(), b, request("q"), time.Minute))
		}
		if b.Health().Draining {
			t.Error("it drains before it was told")
		}
		b.Drain()
		if !b.Health().Draining {
			t.Error("the health does not tell the drain")
		}
		for _, done := range waiting {
			p := <-done
			expect(t, p)
			if p.after != 0 {
				t.Fatalf("answered after %v, want at once", p.after)
			}
		}
		expectNobody(t, b)
		if p := pop(t.Context(), b, "q", time.Minute); p.after != 0 || p.err != nil {
			t.Errorf("a new pop took %v, %v", p.after, p.err)
		}
		push(t, b, "q", "a")
		expect(t, pop(t.Context(), b, "q", time.Minute), "a")
	})
}

// The memory of the delivery that comes in is used for the answer, and the engine keeps none of it.
func TestDeliveriesAreNotShared(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Broker) {
		var d engine.Delivery
		for i := range 20 {
			d.Reset()
			wait := time.Duration(i%2) * time.Second
			push(t, b, "q", fmt.Sprintf("%020d", i))
			if _, err := b.Pop(t.Context(), request("q"), wait, &d); err != nil || len(d.Messages) != 1 {
				t.Fatalf("%d messages, %v", len(d.Messages), err)
			}
			other := park(t.Context(), b, request("q"), time.Second)
			push(t, b, "q", "other")
			expect(t, <-other, "other")
			if got, want := string(d.Messages[0].Payload), fmt.Sprintf("%020d", i); got != want {
				t.Fatalf("the delivery changed to %q", got)
			}
		}
	})
}

func idOf(m *engine.Delivered) engine.ID {
	return engine.ID{Incarnation: m.Incarnation, Partition: m.Partition, Seq: m.Seq, Attempt: m.Attempts}
}

func ack(t testing.TB, b *Broker, queue string, m *engine.Delivered, verb engine.Verb) engine.Outcome {
	t.Helper()
	req := &engine.AckRequest{Tenant: tenant, Queue: queue, Acks: []engine.Ack{{ID: idOf(m), Verb: verb}}}
	outcomes, _, err := b.Ack(t.Context(), req, nil)
	if err != nil || len(outcomes) != 1 {
		t.Fatalf("ack: %v, %v", outcomes, err)
	}
	return outcomes[0]
}

// BenchmarkPushPopAck is one message through the broker: nothing is allocated on the way.
func BenchmarkPushPopAck(b *testing.B) {
	broker := start(b, testConfig(declare.OpenMemory()))
	message := &engine.PushRequest{Tenant: tenant, Queue: "q", Messages: []engine.Message{{Payload: make([]byte, 256)}}}
	req := request("q")
	acks := &engine.AckRequest{Tenant: tenant, Queue: "q", Acks: make([]engine.Ack, 1)}
	var d engine.Delivery
	var outcomes []engine.Outcome
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := broker.Push(ctx, message); err != nil {
			b.Fatal(err)
		}
		d.Reset()
		if _, err := broker.Pop(ctx, req, time.Second, &d); err != nil {
			b.Fatal(err)
		}
		acks.Acks[0].ID = idOf(&d.Messages[0])
		outcomes, _, _ = broker.Ack(ctx, acks, outcomes[:0])
	}
}
