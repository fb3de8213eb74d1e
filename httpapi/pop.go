package httpapi

import (
	"net/http"
	"time"

	"github.com/queencell/queencell/engine"
)

const (
	// maxPopTimeout is the longest that a pop waits.
	maxPopTimeout = 300 * time.Second
	// maxPopBytes is where the payload of an answer stops, but for the first message (contract B8). As base64 it grows
	// by a third.
	maxPopBytes = 8 << 20
)

var popParameters = []string{"queue", "partition", "group", "batch", "wait", "timeout", "autoAck"}

// parsePop reads the query of a pop into the exchange.
func (x *exchange) parsePop() error {
	var values [7]string
	seen, err := parseQuery(x.r.URL.RawQuery, popParameters, values[:])
	if err != nil {
		return err
	}
	p := &x.popRequest
	*p = engine.PopRequest{Tenant: x.tenant, Queue: values[0], Partition: values[1], Group: values[2], Batch: 1,
		MaxBytes: maxPopBytes, Room: &x.server.inflight}
	if err := checkQueue(p.Queue); err != nil {
		return err
	}
	if err := checkOptionalName("partition", p.Partition); err != nil {
		return err
	}
	if err := checkOptionalName("group", p.Group); err != nil {
		return err
	}
	wait, timeout := false, x.server.cfg.PopDefaultTimeout
	if seen&(1<<3) != 0 {
		if p.Batch, err = number("batch", values[3], 1, maxItems); err != nil {
			return err
		}
	}
	if seen&(1<<4) != 0 {
		if wait, err = boolean("wait", values[4]); err != nil {
			return err
		}
	}
	if seen&(1<<5) != 0 {
		ms, err := number("timeout", values[5], 0, int(maxPopTimeout/time.Millisecond))
		if err != nil {
			return err
		}
		timeout = time.Duration(ms) * time.Millisecond
	}
	if seen&(1<<6) != 0 {
		if p.AutoAck, err = boolean("autoAck", values[6]); err != nil {
			return err
		}
	}
	x.popWait = 0
	if wait {
		x.popWait = timeout
	}
	return nil
}

// pop hands out messages, and takes back what the client did not get (contract D9).
func (x *exchange) pop() error {
	if err := x.parsePop(); err != nil {
		return err
	}
	if err := x.ignoreBody(); err != nil {
		return err
	}
	s, ctx := x.server, x.r.Context()
	if s.inflight.full() {
		return errInFlight
	}
	if ctx.Err() != nil {
		return errGone
	}
	d := s.pools.delivery(x.popWait > 0)
	served, err := s.broker.Pop(ctx, &x.popRequest, x.popWait, d)
	x.held += d.Taken
	x.served(served)
	switch {
	case err != nil && ctx.Err() != nil:
		err = errGone
	case err != nil:
	case ctx.Err() != nil:
		x.giveBack(d, false)
		err = errGone
	default:
		err = x.deliver(d)
	}
	s.pools.putDelivery(d)
	return err
}

// deliver writes the answer of a pop and gives back what did not reach the client. An error that it returns means that
// nothing was written.
func (x *exchange) deliver(d *engine.Delivery) error {
	s, size := x.server, popSize(d)
	switch held := max(size+int64(d.Cap())-d.Taken, 0); {
	case x.hold(held):
	case d.AutoAck, s.inflight.used.Load() <= x.held:
		x.forceHold(held) // its messages are settled and can only be written, or it is alone
	default:
		x.giveBack(d, false)
		return errInFlight
	}
	m := s.pools.scratch()
	x.mem = m
	if int64(cap(m.out)) < size {
		m.out = make([]byte, 0, size)
	}
	m.out = appendPop(m.out[:0], x.popRequest.Queue, d)
	err := x.answer(http.StatusOK, m.out)
	if err == nil {
		err = http.NewResponseController(x.w.Writer).Flush()
	}
	// A small answer to a client that has gone is written and flushed without an error: only the context tells.
	if err != nil || x.r.Context().Err() != nil {
		x.giveBack(d, true)
	}
	return nil
}

func (x *exchange) giveBack(d *engine.Delivery, traced bool) {
	if len(d.Messages) > 0 && !d.AutoAck {
		x.server.broker.GiveBack(d, traced)
	}
}
