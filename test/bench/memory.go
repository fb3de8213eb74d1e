package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/queencell/queencell/test/internal/broker"
)

// collected lets the server's collector run at least twice over what is live now, by work that leaves nothing, and
// returns the resident memory once it has stopped falling.
func collected(p *broker.Process, c *broker.Client) (int64, error) {
	runs := func() (float64, error) { return c.Metric("go_gc_duration_seconds_count") }
	before, err := runs()
	if err != nil {
		return 0, err
	}
	conn, err := dial(p.Addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	push := post("/api/v1/ephemeral/push", broker.PushBody("garbage", "", slices.Repeat([]string{payload()}, 100)...))
	pop := get(broker.PopPath("garbage", broker.PopOptions{Batch: 100, AutoAck: true}))
	for deadline := time.Now().Add(60 * time.Second); ; {
		for range 500 {
			if err := conn.do(push, 201); err != nil {
				return 0, err
			}
			if err := conn.do(pop, 200); err != nil {
				return 0, err
			}
		}
		now, err := runs()
		if err != nil {
			return 0, err
		}
		if now >= before+2 || time.Now().After(deadline) {
			break
		}
	}
	low, err := p.RSS()
	for range 30 { // the runtime gives pages back in the background
		time.Sleep(100 * time.Millisecond)
		rss, e := p.RSS()
		if e != nil {
			return 0, e
		}
		low = min(low, rss)
	}
	return low, err
}

// memoryOf measures what make costs in resident memory and in the broker's own count, per item.
func (b *bench) memoryOf(part, what string, n int, target string, make func(addr string, n int) error) error {
	p, c, err := b.start("GOGC", earlyCollection)
	if err != nil {
		return err
	}
	defer p.Kill()
	before, err := collected(p, c)
	if err != nil {
		return err
	}
	counted, err := c.Metric("queen_ephemeral_bytes")
	if err != nil {
		return err
	}
	if err := make(p.Addr, n); err != nil {
		return err
	}
	after, err := collected(p, c)
	if err != nil {
		return err
	}
	now, err := c.Metrics()
	if err != nil {
		return err
	}
	b.add(result{part, "queencell", fmt.Sprintf("%d %s, resident", n, what), float64(after-before) / float64(n), "bytes each", target})
	b.add(result{part, "queencell", fmt.Sprintf("%d %s, counted", n, what), (now["queen_ephemeral_bytes"] - counted) / float64(n), "bytes each", "within 10% of resident"})
	return nil
}

// inboxMemory is P7.
func (b *bench) inboxMemory() error {
	return b.memoryOf("p7", "idle inboxes", b.inboxes, "400", func(addr string, n int) error {
		return each(workers, func(w int) error {
			c, err := dial(addr)
			if err != nil {
				return err
			}
			defer c.Close()
			for i := w; i < n; i += workers {
				if err := c.do(get(fmt.Sprintf("/api/v1/ephemeral/pop?queue=inbox-%07d&autoAck=true", i)), 200); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// messageMemory is P8.
func (b *bench) messageMemory() error {
	return b.memoryOf("p8", "messages of 256 bytes", b.messages, "300", func(addr string, n int) error {
		return fill(addr, "held", n)
	})
}

// fill pushes n messages into a queue, over all partitions.
func fill(addr, queue string, n int) error {
	return each(workers, func(w int) error {
		c, err := dial(addr)
		if err != nil {
			return err
		}
		defer c.Close()
		share := n / workers
		if w == 0 {
			share += n % workers
		}
		for share > 0 {
			batch := min(share, 1000)
			share -= batch
			body := broker.PushBody(queue, fmt.Sprintf("p%d", w), slices.Repeat([]string{payload()}, batch)...)
			if err := c.do(post("/api/v1/ephemeral/push", body), 201); err != nil {
				return err
			}
		}
		return nil
	})
}

// earlyCollection makes a Go server's resident memory what is live, and little more.
const earlyCollection = "5"

// parkedMemory is P9: what a parked pop adds to what a parked request of a handler that does nothing holds.
func (b *bench) parkedMemory() error {
	noop, err := startEcho("GOGC=" + earlyCollection)
	if err != nil {
		return err
	}
	defer noop.stop()
	rss := func() (int64, error) { return broker.RSS(noop.cmd.Process.Pid) }
	floor, err := parkAll(noop.addr, b.parked, func(int) []byte { return get("/park") }, rss, nil)
	if err != nil {
		return err
	}
	b.add(result{"p9", "no-op", fmt.Sprintf("%d parked requests", b.parked), floor, "bytes each", ""})
	for _, c := range []struct {
		what, target string
		queue        func(i int) string
	}{
		{"on one queue", "1024", func(int) string { return "parked" }},
		{"an inbox each", "1024 and the inbox", func(i int) string { return fmt.Sprintf("parked-%d", i) }},
	} {
		pops, err := b.parkPops(c.queue)
		if err != nil {
			return err
		}
		b.add(result{"p9", "queencell", fmt.Sprintf("%d parked pops, %s", b.parked, c.what), pops, "bytes each", ""})
		b.add(result{"p9", "queencell", "a parked pop adds, " + c.what, pops - floor, "bytes each", c.target})
	}
	return nil
}

func (b *bench) parkPops(queue func(i int) string) (float64, error) {
	p, c, err := b.start("GOGC", earlyCollection)
	if err != nil {
		return 0, err
	}
	defer p.Kill()
	return parkAll(p.Addr, b.parked, func(i int) []byte {
		return get(broker.PopPath(queue(i), broker.PopOptions{Wait: true, Timeout: 5 * time.Minute}))
	}, p.RSS, func() (bool, error) {
		n, err := c.Metric("queen_parked_waiters")
		return int(n) == b.parked, err
	})
}

// parkAll opens n connections with a request each and returns what each added to the resident memory.
func parkAll(addr string, n int, request func(i int) []byte, rss func() (int64, error), parked func() (bool, error)) (float64, error) {
	before, err := rss()
	if err != nil {
		return 0, err
	}
	conns := make([]*client, 0, n)
	defer func() { closeAll(conns) }()
	for i := range n {
		c, err := dial(addr)
		if err != nil {
			return 0, fmt.Errorf("connection %d (see ulimit -n): %w", i, err)
		}
		c.r = nil // nothing is read here
		conns = append(conns, c)
		if _, err := c.Write(request(i)); err != nil {
			return 0, err
		}
	}
	for deadline := time.Now().Add(30 * time.Second); parked != nil; time.Sleep(20 * time.Millisecond) {
		if ok, err := parked(); err != nil || ok {
			if err != nil {
				return 0, err
			}
			break
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("the requests are not parked")
		}
	}
	time.Sleep(2 * time.Second) // the no-op server tells nothing of its requests
	after, err := rss()
	return float64(after-before) / float64(n), err
}
