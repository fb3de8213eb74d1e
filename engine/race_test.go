package engine

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestAllAtOnce calls everything from many goroutines, over a budget small enough to be refused and relieved, and looks
// whether the sums are right afterwards and nothing is left. It is for the race detector.
func TestAllAtOnce(t *testing.T) {
	const workers, steps = 8, 3000
	e, err := New(Config{
		Slots: 5, SlotOf: func(_, q, p string) int { return (len(q) + len(p)) % 5 },
		MaxBytes: 400_000, QueueMaxBytes: 100_000, QueueMaxLength: 500, Lease: 20 * time.Millisecond, RetryLimit: 4,
		ImplicitIdle: 200 * time.Millisecond, GroupIdle: 300 * time.Millisecond, MaxGroups: 5, MaxPartitions: 5,
	})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	now := func() Time { return Time(time.Since(begin)) }
	// Every waiter is answered or withdrawn, and never both.
	var parked, ended atomic.Int64
	woken := func(wakes *Wakes) {
		for _, w := range *wakes {
			ended.Add(1)
			w.Waiter.Owner.(chan struct{}) <- struct{}{}
		}
		*wakes = (*wakes)[:0]
	}
	stop := make(chan struct{})
	var ticker, all sync.WaitGroup
	ticker.Go(func() {
		var wakes Wakes
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				e.Tick(now(), &wakes)
				woken(&wakes)
			}
		}
	})
	for worker := range workers {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(worker), 7))
			pick := func(s ...string) string { return s[rnd.IntN(len(s))] }
			var wakes Wakes
			for i := range steps {
				queue, group := pick("a", "b", "cc", "i"+strconv.Itoa(rnd.IntN(300))), pick("", "g1", "g2")
				partition := pick("", "", "p", "pp", "ppp")
				d := new(Delivery)
				switch rnd.IntN(14) {
				case 0, 1, 2, 3:
					m := make([]Message, 1+rnd.IntN(5))
					for j := range m {
						m[j].Payload = make([]byte, rnd.IntN(100))
					}
					_, _ = e.Push(now(), &PushRequest{"t", queue, partition, m}, &wakes)
				case 4, 5, 6:
					_, _ = e.Pop(now(), &PopRequest{Tenant: "t", Queue: queue, Partition: partition, Group: group, Batch: 5, AutoAck: rnd.IntN(3) == 0}, d, &wakes)
				case 7, 8, 9:
					w := &Waiter{Owner: make(chan struct{}, 1)}
					is, _, err := e.Park(now(), &PopRequest{Tenant: "t", Queue: queue, Partition: partition, Group: group, Batch: 2}, w, &wakes)
					if err != nil || !is {
						d = &w.Delivery
						break
					}
					parked.Add(1)
					woken(&wakes)
					if rnd.IntN(2) == 0 {
						time.Sleep(time.Duration(rnd.IntN(300)) * time.Microsecond)
					}
					withdrawn := e.Withdraw(now(), w, rnd.IntN(2) == 0, &wakes)
					woken(&wakes) // w may be among them: its lease may have been the one that was due
					switch {
					case withdrawn:
						ended.Add(1)
						if len(w.Owner.(chan struct{})) > 0 {
							t.Error("a waiter was withdrawn and answered")
						}
					case w.Woken():
						<-w.Owner.(chan struct{})
						d = &w.Delivery
					default:
						ended.Add(1)
						d = &w.Delivery
					}
				case 10:
					o := e.InForce(Settings{})
					o.Policy, o.TTL = Policy(rnd.IntN(2)), time.Duration(rnd.IntN(2)*10)*time.Millisecond
					o.Window = time.Duration(rnd.IntN(2)) * time.Millisecond
					_ = e.Declare(now(), "t", queue, o, &wakes)
				case 11:
					if rnd.IntN(2) == 0 {
						e.Reset(now(), "t", queue, &wakes)
					} else {
						e.Delete(now(), "t", queue, &wakes)
					}
				case 12:
					e.Depth(now(), "t", queue, group, "", 10, &wakes)
					e.Queues(now(), "t", "", "", 100)
					_ = e.Peek(now(), &PopRequest{Tenant: "t", Queue: queue, Group: group}, new(Delivery), &wakes)
				case 13:
					if i%10 == 0 {
						slot := []int{rnd.IntN(5)}
						e.CloseSlots(now(), slot, &wakes)
						e.OpenSlots(slot)
					}
				}
				if len(d.Messages) > 0 && !d.AutoAck {
					if rnd.IntN(4) == 0 {
						e.GiveBack(now(), d, rnd.IntN(2) == 0, &wakes)
					} else {
						req := &AckRequest{Tenant: "t", Queue: queue, Group: group}
						for _, m := range d.Messages {
							req.Acks = append(req.Acks, Ack{ID: ID{m.Incarnation, m.Partition, m.Seq, m.Attempts}, Verb: Verb(rnd.IntN(2))})
						}
						e.Ack(now(), req, nil, &wakes)
					}
				}
				woken(&wakes)
			}
		})
	}
	all.Wait()
	close(stop)
	ticker.Wait()
	if parked.Load() != ended.Load() {
		t.Errorf("%d parked, %d ended", parked.Load(), ended.Load())
	}
	if err := checkInvariants(e); err != nil {
		t.Error(err)
	}
	var wakes Wakes
	for _, q := range e.Queues(now(), "t", "", "", 10_000).Queues {
		e.Delete(now(), "t", q.Queue, &wakes)
	}
	if s := e.Stats(); s.Bytes != 0 || s.LeaseBytes != 0 || s.Queues != 0 || s.Waiters != 0 || len(e.tenants.byName) != 0 {
		t.Errorf("left behind: %+v", s)
	}
}
