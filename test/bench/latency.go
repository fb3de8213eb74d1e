package main

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/queencell/queencell/test/internal/broker"
)

func quantile(all []time.Duration, q float64) float64 {
	slices.Sort(all)
	return float64(all[min(len(all)-1, int(float64(len(all))*q))].Nanoseconds()) / 1e3
}

// pause lets what was sent arrive and the machine come to rest: a consumer is parked when the next push goes out, and
// the no-op request starts from the same rest.
func pause() { time.Sleep(300 * time.Microsecond) }

// delivery is P4: from the push's write to the parked consumer's answer, one message in flight, against a no-op request.
// Both take turns, so that what else the machine does hits both.
func (b *bench) delivery() error {
	n := b.size(5000)
	p, _, err := b.start()
	if err != nil {
		return err
	}
	defer p.Kill()
	noop, err := startEcho()
	if err != nil {
		return err
	}
	defer noop.stop()
	consumers, err := dialAll(p.Addr, 2)
	if err != nil {
		return err
	}
	defer closeAll(consumers)
	consumer, producer := consumers[0], consumers[1]
	echo, err := dial(noop.addr)
	if err != nil {
		return err
	}
	defer echo.Close()
	push := post("/api/v1/ephemeral/push", broker.PushBody("d", "p", payload()))
	pop := get(broker.PopPath("d", broker.PopOptions{Partition: "p", Wait: true, Timeout: time.Minute, AutoAck: true}))
	request := get("/noop")
	delivered, answered := make([]time.Duration, 0, n), make([]time.Duration, 0, n)
	for i := range n + n/10 {
		if _, err := consumer.Write(pop); err != nil {
			return err
		}
		pause()
		start := time.Now()
		if _, err := producer.Write(push); err != nil {
			return err
		}
		if err := consumer.expect(200); err != nil {
			return err
		}
		delivery := time.Since(start)
		if err := producer.expect(201); err != nil {
			return err
		}
		if consumer.ids(func([]byte) {}) != 1 {
			return fmt.Errorf("no message: %.200s", consumer.body)
		}
		pause()
		start = time.Now()
		if err := echo.do(request, 200); err != nil {
			return err
		}
		if i >= n/10 { // the first tenth warms up
			delivered, answered = append(delivered, delivery), append(answered, time.Since(start))
		}
	}
	floor := quantile(answered, 0.5)
	b.add(result{"p4", "no-op", "request, p50", floor, "µs", ""})
	b.add(result{"p4", "no-op", "request, p99", quantile(answered, 0.99), "µs", ""})
	b.add(result{"p4", "queencell", "delivery, p50", quantile(delivered, 0.5), "µs", fmt.Sprintf("%.0f", 1.5*floor)})
	b.add(result{"p4", "queencell", "delivery, p99", quantile(delivered, 0.99), "µs", ""})
	b.add(result{"p4", "queencell", "delivery p50 / no-op p50", quantile(delivered, 0.5) / floor, "", "1.5"})
	return nil
}

// requestReply is P5: a request names an inbox that nobody declared, the reply comes there: push, pop, push, pop.
func (b *bench) requestReply() error {
	n := b.size(20_000)
	if err := b.floor("p5"); err != nil {
		return err
	}
	for _, pairs := range []int{1, workers} {
		p, _, err := b.start()
		if err != nil {
			return err
		}
		err = b.requestReplyPairs(p, pairs, n)
		p.Kill()
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) requestReplyPairs(p *broker.Process, pairs, n int) error {
	share := n / pairs
	times := make([][]time.Duration, pairs)
	round := func(rounds int, keep bool, prefix string) func() error {
		return func() error {
			return each(pairs, func(i int) error {
				took, err := exchange(p.Addr, fmt.Sprintf("service-%d", i), fmt.Sprintf("%s-%d", prefix, i), rounds)
				if keep {
					times[i] = took
				}
				return err
			})
		}
	}
	if err := round(max(share/10, 1), false, "warm")(); err != nil {
		return err
	}
	used, _, err := measured(p.CPU, round(share, true, "inbox"))
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%d at a time", pairs)
	b.add(result{"p5", "queencell", name + ", server CPU", used.Seconds() * 1e6 / float64(share*pairs), "CPU-µs per round trip", "90, at 14 a request"})
	b.add(result{"p5", "queencell", name + ", p50", quantile(slices.Concat(times...), 0.5), "µs", ""})
	return nil
}

// exchange runs rounds of a requester against a responder of its own.
func exchange(addr, service, prefix string, rounds int) ([]time.Duration, error) {
	both, err := dialAll(addr, 2)
	if err != nil {
		return nil, err
	}
	defer closeAll(both)
	var responder error
	var wg sync.WaitGroup
	wg.Go(func() {
		pop := get(broker.PopPath(service, broker.PopOptions{Wait: true, Timeout: time.Minute, AutoAck: true}))
		for i := range rounds {
			if responder = both[1].do(pop, 200); responder != nil {
				return
			}
			reply := post("/api/v1/ephemeral/push", broker.PushBody(fmt.Sprintf("%s-%d", prefix, i), "", payload()))
			if responder = both[1].do(reply, 201); responder != nil {
				return
			}
		}
	})
	times := make([]time.Duration, 0, rounds)
	request := post("/api/v1/ephemeral/push", broker.PushBody(service, "", payload()))
	for i := range rounds {
		inbox := get(broker.PopPath(fmt.Sprintf("%s-%d", prefix, i), broker.PopOptions{Wait: true, Timeout: 10 * time.Second, AutoAck: true}))
		start := time.Now()
		if err = both[0].do(request, 201); err != nil {
			break
		}
		if err = both[0].do(inbox, 200); err != nil {
			break
		}
		times = append(times, time.Since(start))
		if both[0].ids(func([]byte) {}) != 1 {
			err = fmt.Errorf("no reply: %.200s", both[0].body)
			break
		}
	}
	if err != nil {
		closeAll(both) // the responder must not wait for the next request
	}
	wg.Wait()
	if err == nil {
		err = responder
	}
	return times, err
}

// fanOut is P6: each of 10 groups gets every message.
func (b *bench) fanOut() error {
	const groups, batch = 10, 100
	n := max(b.size(100_000)/batch, 1) * batch
	p, _, err := b.start()
	if err != nil {
		return err
	}
	defer p.Kill()
	conns, err := dialAll(p.Addr, groups)
	if err != nil {
		return err
	}
	defer closeAll(conns)
	pops := make([][]byte, groups)
	for i, c := range conns { // the groups are there before the messages
		pops[i] = get(broker.PopPath("f", broker.PopOptions{Group: fmt.Sprintf("g%d", i), Batch: batch}))
		if err := c.do(pops[i], 200); err != nil {
			return err
		}
	}
	push := post("/api/v1/ephemeral/push", broker.PushBody("f", "", slices.Repeat([]string{payload()}, batch)...))
	produce, _, err := measured(p.CPU, func() error {
		for range n / batch {
			if err := conns[0].do(push, 201); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	consume, _, err := measured(p.CPU, func() error {
		return each(groups, func(i int) error {
			d := newHTTPDriver(conns[i], "f", "")
			for left := n; left > 0; {
				if err := d.do(pops[i], 200); err != nil {
					return err
				}
				got := d.buildAck(fmt.Sprintf("g%d", i))
				if got == 0 {
					return fmt.Errorf("group %d misses %d messages", i, left)
				}
				if err := d.do(d.ack, 200); err != nil {
					return err
				}
				left -= got
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	perMillion := 1e6 / float64(n*groups)
	b.add(result{"p6", "queencell", "10 groups, batch 100", (produce + consume).Seconds() * perMillion, "CPU-s per million deliveries", "1.5"})
	return nil
}
