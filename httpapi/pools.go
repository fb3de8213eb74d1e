package httpapi

import (
	"sync"

	"github.com/queencell/queencell/engine"
)

// What is kept of a pooled piece of memory, in bytes. Larger ones go to the garbage collector, so that one huge request
// does not stay for ever. A pop that may wait takes from a pool of its own, because it holds its piece while it is parked.
const (
	keepBytes       = 1 << 20
	keepParkedBytes = 8 << 10
)

// scratch is the memory that reading and answering a request needs.
type scratch struct {
	scanner  scanner
	push     push
	pushReq  engine.PushRequest
	ack      ack
	ackReq   engine.AckRequest
	outcomes []engine.Outcome
	// body is the request's, out the answer's.
	body, out []byte
}

// pools keep memory for the requests to come. The zero value is ready.
type pools struct {
	exchanges, scratches, deliveries, parked sync.Pool
}

func (p *pools) exchange() *exchange {
	if x, ok := p.exchanges.Get().(*exchange); ok {
		return x
	}
	return new(exchange)
}

// put takes an exchange back with all it has.
func (p *pools) put(x *exchange) {
	if x.mem != nil {
		p.putScratch(x.mem)
	}
	*x = exchange{}
	p.exchanges.Put(x)
}

func (p *pools) scratch() *scratch {
	if m, ok := p.scratches.Get().(*scratch); ok {
		return m
	}
	return new(scratch)
}

func (p *pools) putScratch(m *scratch) {
	// What is kept must not hold on to names and bodies.
	clear(m.push.messages)
	clear(m.ack.acks)
	clear(m.ack.ids)
	m.push = push{messages: kept(m.push.messages[:0], 32)}
	m.ack = ack{acks: kept(m.ack.acks[:0], 48), ids: kept(m.ack.ids[:0], 24)}
	m.pushReq, m.ackReq = engine.PushRequest{}, engine.AckRequest{}
	m.scanner.start(nil)
	clear(m.scanner.unknown[:cap(m.scanner.unknown)])
	m.outcomes = kept(m.outcomes[:0], 1)
	m.body, m.out = kept(m.body[:0], 1), kept(m.out[:0], 1)
	p.scratches.Put(m)
}

// kept is s if its memory is small enough to be kept; size is that of an item.
func kept[T any](s []T, size int) []T {
	if cap(s)*size > keepBytes {
		return nil
	}
	return s
}

// delivery is an empty one for a pop that may wait or not.
func (p *pools) delivery(waits bool) *engine.Delivery {
	pool := &p.deliveries
	if waits {
		pool = &p.parked
	}
	if d, ok := pool.Get().(*engine.Delivery); ok {
		return d
	}
	return new(engine.Delivery)
}

// putDelivery takes a delivery back, into the pool that its size is for.
func (p *pools) putDelivery(d *engine.Delivery) {
	d.Reset()
	switch size := d.Cap(); {
	case size <= keepParkedBytes:
		p.parked.Put(d)
	case size <= keepBytes:
		p.deliveries.Put(d)
	}
}
