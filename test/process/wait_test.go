package process

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/queencell/queencell/test/internal/broker"
)

// TestWaitBounds pins LP-05 (P4): an empty answer comes at the asked time; what is over the maximum is clamped, what is
// no number is refused.
func TestWaitBounds(t *testing.T) {
	t.Parallel()
	for _, ms := range []int{0, 1, 250, 1000, 3000} {
		t.Run(fmt.Sprint(ms), func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			a := shared.Get(fmt.Sprintf("/api/v1/ephemeral/pop?queue=%s&wait=true&timeout=%d", url.QueryEscape(queue(t)), ms))
			asked := time.Duration(ms) * time.Millisecond
			between(t, "answered", time.Since(start), asked, asked+slow(250*time.Millisecond))
			if p := broker.AsPop(a); p.Status != 200 || p.Messages == nil || len(p.Messages) != 0 {
				t.Errorf("answer %v", p)
			}
		})
	}
	for _, ms := range []string{"-1", "1.5", "1e3", "+1", "soon", "0x10", "%201"} {
		shared.Get("/api/v1/ephemeral/pop?queue=q&wait=true&timeout="+ms).WantCode(t, 400, "ephemeral_bad_request")
	}
	for _, ms := range []string{"300000", "300001", "1000000000000000000", "99999999999999999999999999"} {
		t.Run("parks "+ms, func(t *testing.T) {
			t.Parallel()
			name := queue(t)
			result := make(chan broker.Answer, 1)
			go func() {
				result <- shared.Get("/api/v1/ephemeral/pop?queue=" + url.QueryEscape(name) + "&group=g&wait=true&timeout=" + ms)
			}()
			select {
			case a := <-result:
				t.Fatalf("answered at once: %v", a)
			case <-time.After(300 * time.Millisecond):
			}
			shared.Push(name, "", `1`).Want(t, 201)
			if p := broker.AsPop(<-result); p.Payloads() != "1" {
				t.Errorf("answer %v", p)
			}
		})
	}
}

// TestEmptyAnswerIsPunctual pins P4 on an idle machine: not before the timeout and within 50 ms of it.
func TestEmptyAnswerIsPunctual(t *testing.T) {
	name := queue(t)
	late := 0
	const rounds = 10
	for range rounds {
		start := time.Now()
		p := shared.Pop(name, broker.PopOptions{Wait: true, Timeout: 100 * time.Millisecond})
		took := time.Since(start)
		if p.Status != 200 || len(p.Messages) != 0 || took < 100*time.Millisecond {
			t.Fatalf("after %v: %v", took, p)
		}
		if took > 150*time.Millisecond {
			late++
		}
	}
	if late > rounds/2 { // others may use the machine
		t.Errorf("%d of %d answers were more than 50 ms late", late, rounds)
	}
}

// TestLongWait pins LP-06: no write timeout of the server cuts a long poll. The default form outlasts any timeout of
// 10 s; QUEENCELL_SLOW=1 outlasts the usual 30 s too.
func TestLongWait(t *testing.T) {
	t.Parallel()
	wait := 13 * time.Second
	if os.Getenv("QUEENCELL_SLOW") != "" {
		wait = 38 * time.Second
	}
	name := queue(t)
	timer := time.AfterFunc(wait-2*time.Second, func() {
		if a := shared.Push(name, "", `"late"`); a.Status != 201 {
			t.Errorf("push: %v", a)
		}
	})
	defer timer.Stop()
	p := shared.Pop(name, broker.PopOptions{Wait: true, Timeout: wait})
	if p.Payloads() != `"late"` {
		t.Fatalf("answer: %v", p)
	}
	if a := shared.Ack(name, "", "", p.IDs()...); a.Outcomes() != "acked" {
		t.Errorf("ack: %v", a)
	}
}

// TestNoGapBetweenPolls pins LP-09: what comes while a consumer re-arms its poll is delivered by the next one.
func TestNoGapBetweenPolls(t *testing.T) {
	name := queue(t)
	pairs, limit := scaled(10000, 3000), 20*time.Second
	deadline := time.Now().Add(limit)
	var pushed atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		random := rand.New(rand.NewPCG(1, 2))
		for i := 0; i < pairs && time.Now().Before(deadline); i++ {
			for j := range 2 {
				if a := shared.Push(name, "", fmt.Sprint(2*i+j)); a.Status != 201 {
					t.Errorf("push: %v", a)
					return
				}
				pushed.Add(1)
			}
			// The case's own gap between pairs; without it the consumer would never park.
			time.Sleep(time.Duration(random.IntN(1000)) * time.Microsecond)
		}
	})
	next := 0
	for next < 2*pairs {
		p := shared.Pop(name, broker.PopOptions{Batch: 10, Wait: true, Timeout: 500 * time.Millisecond, AutoAck: true})
		if p.Status != 200 {
			t.Fatalf("pop: %v", p)
		}
		if len(p.Messages) == 0 && int64(next) == pushed.Load() && time.Now().After(deadline) {
			break
		}
		for _, m := range p.Messages {
			if string(m.Payload) != fmt.Sprint(next) {
				t.Fatalf("got %s, want %d", m.Payload, next)
			}
			next++
		}
	}
	wg.Wait()
	if int64(next) != pushed.Load() {
		t.Errorf("%d of %d messages came", next, pushed.Load())
	}
	t.Logf("%d messages", next)
}

// TestMessageMeetsTimeout pins P4: when a message and a timeout meet there is one outcome, delivered or still there.
func TestMessageMeetsTimeout(t *testing.T) {
	workers, rounds := 100, scaled(100, 25)
	const timeout = 20 * time.Millisecond
	prefix := queue(t)
	var delivered, kept atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 7))
			name := fmt.Sprintf("%s-%d", prefix, w)
			for round := range rounds {
				pushed := make(chan broker.Answer, 1)
				pause := timeout + time.Duration(random.IntN(8000)-4000)*time.Microsecond
				timer := time.AfterFunc(pause, func() { pushed <- shared.Push(name, "", fmt.Sprint(round)) })
				o := broker.PopOptions{Wait: true, Timeout: timeout, AutoAck: true}
				p := shared.Pop(name, o)
				a := <-pushed
				timer.Stop()
				after := shared.Pop(name, broker.PopOptions{Batch: 10, AutoAck: true})
				if p.Status != 200 || after.Status != 200 || a.Status != 201 {
					t.Errorf("pop %v, push %v, second pop %v", p, a, after)
					return
				}
				if len(p.Messages)+len(after.Messages) != 1 {
					t.Errorf("round %d: %d outcomes: %v, then %v", round, len(p.Messages)+len(after.Messages), p, after)
					return
				}
				delivered.Add(int64(len(p.Messages)))
				kept.Add(int64(len(after.Messages)))
			}
		})
	}
	wg.Wait()
	t.Logf("%d delivered, %d still there", delivered.Load(), kept.Load())
	if delivered.Load() == 0 || kept.Load() == 0 {
		t.Error("message and timeout never met: the test is off its mark")
	}
}

// TestClientTimeoutEqualsWait pins LP-15: a client that gives up at the very end of its wait loses nothing under
// explicit ack; under autoAck only what was already on the wire.
func TestClientTimeoutEqualsWait(t *testing.T) {
	for _, autoAck := range []bool{false, true} {
		t.Run(fmt.Sprintf("autoAck=%v", autoAck), func(t *testing.T) {
			workers, rounds := 50, scaled(40, 15)
			const wait = 50 * time.Millisecond
			prefix := queue(t)
			var lost, total atomic.Int64
			var wg sync.WaitGroup
			for w := range workers {
				name := fmt.Sprintf("%s-%d", prefix, w)
				shared.Configure(name, `{"leaseSeconds":1,"retryLimit":1000}`).Want(t, 201)
				wg.Go(func() {
					random := rand.New(rand.NewPCG(uint64(w), 11))
					seen := map[string]bool{}
					take := func(p broker.Popped) {
						for _, m := range p.Messages {
							seen[string(m.Payload)] = true
						}
						if !autoAck && len(p.Messages) > 0 {
							shared.Ack(name, "", "", p.IDs()...)
						}
					}
					for round := range rounds {
						pushed := make(chan struct{})
						time.AfterFunc(wait+time.Duration(random.IntN(10)-7)*time.Millisecond, func() {
							defer close(pushed)
							if a := shared.Push(name, "", fmt.Sprint(round)); a.Status != 201 {
								t.Errorf("push: %v", a)
							}
						})
						ctx, cancel := context.WithTimeout(context.Background(), wait)
						take(shared.Pop(name, broker.PopOptions{Wait: true, Timeout: wait, AutoAck: autoAck, Context: ctx}))
						cancel()
						<-pushed
					}
					// What a cut answer held comes back when its lease ends.
					end := time.Now().Add(slow(4 * time.Second))
					for len(seen) < rounds && time.Now().Before(end) {
						p := shared.Pop(name, broker.PopOptions{Batch: 100, Wait: true, Timeout: 1300 * time.Millisecond, AutoAck: autoAck})
						if len(p.Messages) == 0 && autoAck {
							break
						}
						take(p)
					}
					lost.Add(int64(rounds - len(seen)))
					total.Add(int64(rounds))
				})
			}
			wg.Wait()
			t.Logf("%d of %d lost", lost.Load(), total.Load())
			if !autoAck && lost.Load() != 0 {
				t.Errorf("%d messages were lost under explicit ack", lost.Load())
			}
			// Nearly every round meets the boundary here, so the share is far above a random push's; it must not be
			// the whole of them.
			if autoAck && lost.Load() > total.Load()/4 {
				t.Errorf("%d of %d messages were lost under autoAck", lost.Load(), total.Load())
			}
		})
	}
}

// TestWaitIsPerRequest pins LP-16: every combination of the other parameters waits when asked to, and only then.
func TestWaitIsPerRequest(t *testing.T) {
	const wait = 60 * time.Millisecond
	prefix := queue(t)
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			c, err := shared.Dial()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			name := fmt.Sprintf("%s-%d", prefix, n)
			for round := range scaled(48, 24) {
				o := broker.PopOptions{AutoAck: round&2 != 0, Wait: round&1 != 0}
				if round&4 != 0 {
					o.Group = "g"
				}
				if round&8 != 0 {
					o.Partition = "p"
				}
				if o.Wait {
					o.Timeout = wait
				}
				start := time.Now()
				p := c.Pop(name, o, 10*time.Second)
				took := time.Since(start)
				if p.Status != 200 || len(p.Messages) != 0 {
					t.Errorf("%+v: %v", o, p)
					return
				}
				if o.Wait && (took < wait || took > wait+slow(250*time.Millisecond)) || !o.Wait && took > slow(50*time.Millisecond) {
					t.Errorf("%+v: answered after %v", o, took)
				}
			}
		})
	}
	wg.Wait()
}
