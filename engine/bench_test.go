package engine

import (
	"strconv"
	"sync"
	"testing"
	"time"
)

// benchEngine has room for everything the benchmarks hold.
func benchEngine(b *testing.B, budget int64) *Engine {
	b.Helper()
	e, err := New(Config{
		Slots: 1, MaxBytes: budget, QueueMaxBytes: budget, QueueMaxLength: 1 << 30,
		Lease: 30 * time.Second, RetryLimit: 5, ImplicitIdle: 300 * time.Second, GroupIdle: time.Hour,
		MaxGroups: 1000, MaxPartitions: 1_000_000,
	})
	if err != nil {
		b.Fatal(err)
	}
	return e
}

// cycle pushes a batch, pops it and acknowledges it.
type cycle struct {
	e     *Engine
	now   Time
	wakes Wakes
	push  PushRequest
	pop   PopRequest
	ack   AckRequest
	out   []Outcome
	d     Delivery
}

func newCycle(e *Engine, queue, partition string, batch int) *cycle {
	c := &cycle{
		e:    e,
		push: PushRequest{Tenant: "t", Queue: queue, Partition: partition, Messages: make([]Message, batch)},
		pop:  PopRequest{Tenant: "t", Queue: queue, Partition: partition, Batch: batch},
		ack:  AckRequest{Tenant: "t", Queue: queue, Acks: make([]Ack, batch)},
	}
	for i := range c.push.Messages {
		c.push.Messages[i].Payload = make([]byte, 256)
	}
	return c
}

func (c *cycle) run(b *testing.B) {
	c.now += 100_000
	if _, err := c.e.Push(c.now, &c.push, &c.wakes); err != nil {
		b.Fatal(err)
	}
	c.d.Reset()
	if _, err := c.e.Pop(c.now, &c.pop, &c.d, &c.wakes); err != nil {
		b.Fatal(err)
	}
	for i := range c.d.Messages {
		m := &c.d.Messages[i]
		c.ack.Acks[i] = Ack{ID: ID{m.Incarnation, m.Partition, m.Seq, m.Attempts}}
	}
	c.out, _ = c.e.Ack(c.now, &c.ack, c.out[:0], &c.wakes)
	if len(c.out) != len(c.push.Messages) || c.out[len(c.out)-1] != OutcomeAcked {
		b.Fatal(c.out)
	}
}

// BenchmarkCycle is push, pop and ack of 256-byte messages over one queue; the time is per message.
func BenchmarkCycle(b *testing.B) {
	for _, batch := range []int{1, 100} {
		b.Run("batch="+strconv.Itoa(batch), func(b *testing.B) {
			e := benchEngine(b, 1<<30)
			c := newCycle(e, "q", "", batch)
			b.ReportAllocs()
			for b.Loop() {
				c.run(b)
				if c.now%second == 0 {
					e.Tick(c.now, &c.wakes)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/msg")
		})
	}
}

// BenchmarkFloor is what a cycle cannot do without: three locked calls that find a queue by name, and a payload copied
// in and out. Where the machine's speed varies, compare the cycle with it.
func BenchmarkFloor(b *testing.B) {
	type place struct {
		mu   sync.Mutex
		slab [256]byte
	}
	queues := map[string]*place{"q": {}}
	var lock sync.RWMutex
	payload, answer := make([]byte, 256), make([]byte, 256)
	find := func() *place {
		lock.RLock()
		defer lock.RUnlock()
		return queues["q"]
	}
	for b.Loop() {
		p := find()
		p.mu.Lock()
		copy(p.slab[:], payload)
		p.mu.Unlock()
		p = find()
		p.mu.Lock()
		copy(answer, p.slab[:])
		p.mu.Unlock()
		p = find()
		p.mu.Lock()
		p.slab[0]++
		p.mu.Unlock()
	}
}

// BenchmarkFanOut hands each message to ten groups.
func BenchmarkFanOut(b *testing.B) {
	const batch, groups = 100, 10
	e := benchEngine(b, 1<<30)
	cycles := make([]*cycle, groups)
	for i := range cycles {
		cycles[i] = newCycle(e, "q", "", batch)
		cycles[i].pop.Group = "g" + strconv.Itoa(i)
		cycles[i].ack.Group = cycles[i].pop.Group
	}
	b.ReportAllocs()
	for b.Loop() {
		p := cycles[0]
		p.now += 100_000
		if _, err := e.Push(p.now, &p.push, &p.wakes); err != nil {
			b.Fatal(err)
		}
		for _, c := range cycles {
			c.d.Reset()
			if _, err := e.Pop(p.now, &c.pop, &c.d, &c.wakes); err != nil {
				b.Fatal(err)
			}
			for i := range c.d.Messages {
				m := &c.d.Messages[i]
				c.ack.Acks[i] = Ack{ID: ID{m.Incarnation, m.Partition, m.Seq, m.Attempts}}
			}
			c.out, _ = e.Ack(p.now, &c.ack, c.out[:0], &c.wakes)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch*groups), "ns/delivery")
}
