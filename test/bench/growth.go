package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/queencell/queencell/test/internal/broker"
)

// growth is P12: a message costs the same however much else there is.
func (b *bench) growth() error {
	n := b.size(20_000)
	for _, c := range []struct {
		what   string
		sizes  []int
		set    func(addr string, size int) error // makes what there is beside the traffic
		queues func(size int) int
	}{
		{"queues", []int{1, 1_000, 100_000}, func(addr string, size int) error { return touch(addr, size) }, func(size int) int { return size }},
		{"messages held", []int{10, b.messages}, func(addr string, size int) error { return fill(addr, "q-0", size) }, nil},
		{"leases", []int{1, 1_000}, lease, nil},
		{"settled groups", []int{1, 100}, settle, nil},
	} {
		first := 0.0
		for _, size := range c.sizes {
			queues := 1
			if c.queues != nil {
				queues = c.queues(size)
			}
			cost, err := b.cycleCost(n, queues, func(addr string) error { return c.set(addr, size) })
			if err != nil {
				return fmt.Errorf("%d %s: %w", size, c.what, err)
			}
			target := ""
			if first == 0 {
				first = cost
			} else {
				target = fmt.Sprintf("%.1f (within 20%%)", first*1.2)
			}
			b.add(result{"p12", "queencell", fmt.Sprintf("%d %s", size, c.what), cost, "CPU-µs per message", target})
		}
	}
	return nil
}

// cycleCost is the server's CPU for one push, pop and ack of one message, over n of them spread over queues.
func (b *bench) cycleCost(n, queues int, set func(addr string) error) (float64, error) {
	p, _, err := b.start()
	if err != nil {
		return 0, err
	}
	defer p.Kill()
	if err := set(p.Addr); err != nil {
		return 0, err
	}
	conns, err := dialAll(p.Addr, workers)
	if err != nil {
		return 0, err
	}
	defer closeAll(conns)
	cycles := func(n int) func() error {
		return func() error {
			return each(workers, func(w int) error {
				var d *httpDriver
				for i := w; i < n; i += workers {
					// A prime step visits the queues in no order that a cache would like.
					queue := fmt.Sprintf("q-%d", i*7919%queues)
					if d == nil || d.queue != queue {
						d = newHTTPDriver(conns[w], queue, partition(queues, w))
					}
					if err := d.produce(1, 1); err != nil {
						return err
					}
					if err := d.consume(1, 1); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	if err := cycles(max(n/10, workers))(); err != nil {
		return 0, err
	}
	// What else the machine does only adds: the best of some is the nearest to the truth.
	best := 0.0
	for range 3 {
		used, _, err := measured(p.CPU, cycles(n))
		if err != nil {
			return 0, err
		}
		if cost := used.Seconds() * 1e6 / float64(n); best == 0 || cost < best {
			best = cost
		}
	}
	return best, nil
}

// partition is a worker's own in a single queue; many queues have one each.
func partition(queues, worker int) string {
	if queues > 1 {
		worker = 0
	}
	return fmt.Sprintf("p%d", worker)
}

// touch makes queues that have carried a message, each with a partition and a group.
func touch(addr string, queues int) error {
	return each(workers, func(w int) error {
		c, err := dial(addr)
		if err != nil {
			return err
		}
		defer c.Close()
		for i := w; i < queues; i += workers {
			queue, partition := fmt.Sprintf("q-%d", i), partition(queues, w)
			if err := c.do(post("/api/v1/ephemeral/push", broker.PushBody(queue, partition, payload())), 201); err != nil {
				return err
			}
			if err := c.do(get(broker.PopPath(queue, broker.PopOptions{Partition: partition, AutoAck: true})), 200); err != nil {
				return err
			}
		}
		return nil
	})
}

// lease holds n messages of the queue, for the longest there is.
func lease(addr string, n int) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.do(post("/api/v1/ephemeral/configure", []byte(`{"queue":"q-0","options":{"leaseSeconds":86400}}`)), 201); err != nil {
		return err
	}
	if err := c.do(post("/api/v1/ephemeral/push", broker.PushBody("q-0", "p0", slices.Repeat([]string{payload()}, n)...)), 201); err != nil {
		return err
	}
	return c.do(get(broker.PopPath("q-0", broker.PopOptions{Partition: "p0", Batch: n})), 200)
}

// settle makes groups that have had all there was and settled it.
func settle(addr string, groups int) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for w := range workers {
		for g := range groups { // known in the partition before the message is there
			if err := c.do(get(broker.PopPath("q-0", broker.PopOptions{Partition: fmt.Sprintf("p%d", w), Group: fmt.Sprintf("g%d", g)})), 200); err != nil {
				return err
			}
		}
		if err := c.do(post("/api/v1/ephemeral/push", broker.PushBody("q-0", fmt.Sprintf("p%d", w), payload())), 201); err != nil {
			return err
		}
		for g := range groups {
			o := broker.PopOptions{Partition: fmt.Sprintf("p%d", w), Group: fmt.Sprintf("g%d", g), AutoAck: true}
			if err := c.do(get(broker.PopPath("q-0", o)), 200); err != nil {
				return err
			}
		}
	}
	time.Sleep(2 * time.Second) // what is settled goes within two seconds
	return nil
}
