package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/queencell/queencell/test/internal/broker"
)

// workers is how many connections produce and consume, each with a partition of its own.
const workers = 8

// each runs f once per worker and joins their errors.
func each(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// measured runs f and returns what it cost the server, and how long it took.
func measured(cpu func() (time.Duration, error), f func() error) (used, took time.Duration, err error) {
	before, err := cpu()
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	if err := f(); err != nil {
		return 0, 0, err
	}
	took = time.Since(start)
	after, err := cpu()
	return after - before, took, err
}

// floor reports what a request that does nothing costs a server in this run: the figures of a part mean little without
// it on a machine whose speed changes with what else it does.
func (b *bench) floor(part string) error {
	s, err := startEcho()
	if err != nil {
		return err
	}
	defer s.stop()
	conns, err := dialAll(s.addr, workers)
	if err != nil {
		return err
	}
	defer closeAll(conns)
	const perWorker = 5000
	request := get("/noop")
	requests := func() error {
		return each(workers, func(i int) error {
			for range perWorker {
				if err := conns[i].do(request, 200); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := requests(); err != nil { // warms up
		return err
	}
	used, _, err := measured(s.cpu, requests)
	if err != nil {
		return err
	}
	b.add(result{part, "no-op", "request over HTTP", used.Seconds() * 1e6 / (perWorker * workers), "CPU-µs each", ""})
	return nil
}

// driver is one server's way to do the work of a worker: produce n messages, then consume and settle n.
type driver interface {
	produce(n, batch int) error
	consume(n, batch int) error
	Close() error
}

func (b *bench) throughput(batch int) error {
	n := b.size(map[int]int{1: 100_000, 100: 1_000_000}[batch]) / (workers * batch) * (workers * batch)
	if n == 0 {
		return fmt.Errorf("-n is too small for %d workers and batches of %d", workers, batch)
	}
	target := map[int]string{1: "60, at 14 a request", 100: "2.0"}[batch]
	if err := b.floor(map[int]string{1: "p2", 100: "p1"}[batch]); err != nil {
		return err
	}
	p, _, err := b.start()
	if err != nil {
		return err
	}
	defer p.Kill()
	err = b.work("queencell", batch, n, target, p.CPU, func(i int) (driver, error) {
		c, err := dial(p.Addr)
		return newHTTPDriver(c, "bench", fmt.Sprintf("p%d", i)), err
	})
	if err != nil || !b.peers {
		return err
	}
	return b.peerThroughput(batch, n)
}

// work lets all workers produce and then consume, and reports the CPU of both. A tenth of the work goes before, so that
// the server has its buffers and its heap its size.
func (b *bench) work(name string, batch, n int, target string, cpu func() (time.Duration, error), make func(i int) (driver, error)) error {
	drivers := [workers]driver{}
	for i := range drivers {
		d, err := make(i)
		if err != nil {
			return err
		}
		defer d.Close()
		drivers[i] = d
	}
	share := n / workers
	phase := func(n int, consume bool) func() error {
		return func() error {
			return each(workers, func(i int) error {
				if consume {
					return drivers[i].consume(n, batch)
				}
				return drivers[i].produce(n, batch)
			})
		}
	}
	warm := max(share/10/batch, 1) * batch
	if err := errors.Join(phase(warm, false)(), phase(warm, true)()); err != nil {
		return err
	}
	produceCPU, produceTime, err := measured(cpu, phase(share, false))
	if err != nil {
		return err
	}
	consumeCPU, consumeTime, err := measured(cpu, phase(share, true))
	if err != nil {
		return err
	}
	perMillion := 1e6 / float64(n)
	part := map[int]string{1: "p2", 100: "p1"}[batch]
	b.add(result{part, name, fmt.Sprintf("batch %d, all", batch), (produceCPU + consumeCPU).Seconds() * perMillion, "CPU-s per million", target})
	b.add(result{part, name, fmt.Sprintf("batch %d, produce", batch), produceCPU.Seconds() * perMillion, "CPU-s per million", ""})
	b.add(result{part, name, fmt.Sprintf("batch %d, consume and ack", batch), consumeCPU.Seconds() * perMillion, "CPU-s per million", ""})
	b.add(result{part, name, fmt.Sprintf("batch %d, rate", batch), float64(n) / (produceTime + consumeTime).Seconds(), "messages per second", ""})
	return nil
}

// httpDriver speaks to the broker: one partition, no group.
type httpDriver struct {
	*client
	queue, partition string
	batch            int // of the requests below
	push, pop, ack   []byte
	acks             bytes.Buffer
}

func newHTTPDriver(c *client, queue, partition string) *httpDriver {
	return &httpDriver{client: c, queue: queue, partition: partition}
}

func (d *httpDriver) prepare(batch int) {
	if d.batch == batch {
		return
	}
	d.batch = batch
	d.push = post("/api/v1/ephemeral/push", broker.PushBody(d.queue, d.partition, slices.Repeat([]string{payload()}, batch)...))
	d.pop = get(broker.PopPath(d.queue, broker.PopOptions{Partition: d.partition, Batch: batch}))
}

func (d *httpDriver) produce(n, batch int) error {
	d.prepare(batch)
	for ; n > 0; n -= batch {
		if err := d.do(d.push, 201); err != nil {
			return err
		}
	}
	return nil
}

func (d *httpDriver) consume(n, batch int) error {
	d.prepare(batch)
	for n > 0 {
		if err := d.do(d.pop, 200); err != nil {
			return err
		}
		got := d.buildAck("")
		if got == 0 {
			return fmt.Errorf("%d messages are missing", n)
		}
		if err := d.do(d.ack, 200); err != nil {
			return err
		}
		if settled := bytes.Count(d.body, []byte(`"acked"`)); settled != got {
			return fmt.Errorf("%d of %d were acked: %.200s", settled, got, d.body)
		}
		n -= got
	}
	return nil
}

// buildAck makes the request that acks the last pop's messages, and returns their number.
func (d *httpDriver) buildAck(group string) int {
	d.acks.Reset()
	d.acks.WriteString(`{"queue":"` + d.queue + `"`)
	if group != "" {
		d.acks.WriteString(`,"group":"` + group + `"`)
	}
	d.acks.WriteString(`,"acks":[`)
	first := true
	n := d.ids(func(id []byte) {
		if !first {
			d.acks.WriteByte(',')
		}
		first = false
		d.acks.WriteString(`{"id":"`)
		d.acks.Write(id)
		d.acks.WriteString(`"}`)
	})
	d.acks.WriteString(`]}`)
	d.ack = append(d.ack[:0], "POST /api/v1/ephemeral/ack HTTP/1.1\r\nHost: b\r\nContent-Length: "...)
	d.ack = fmt.Appendf(d.ack, "%d\r\n\r\n", d.acks.Len())
	d.ack = append(d.ack, d.acks.Bytes()...)
	return n
}
