package cell

import (
	"context"
	"errors"
	"time"

	"github.com/queencell/queencell/engine"
)

// Pop fills d, which must be empty, with messages for the group of req. With wait above zero it stays until a message
// is deliverable or wait has passed, and then returns with d empty. When ctx ends first it returns ctx's error, and
// nothing is claimed (contract D9). While the broker drains it does not stay, and while the kill switch is off a pop that
// was parked before stays and gets nothing.
func (b *Broker) Pop(ctx context.Context, req *engine.PopRequest, wait time.Duration, d *engine.Delivery) (Served, error) {
	if err := b.enabled(); err != nil {
		return b.served(0), err
	}
	if err := ctx.Err(); err != nil {
		return b.served(0), err
	}
	var one uint64
	var err error
	if wait > 0 {
		one, err = b.wait(ctx, req, wait, d)
	} else {
		err = b.serve(req.Tenant, req.Queue, req.Partition, func(now engine.Time, wakes *engine.Wakes) (err error) {
			one, err = b.engine.Pop(now, req, d, wakes)
			return err
		})
	}
	return b.served(one), err
}

// wait is a pop that parks when there is nothing for it, until its time is over.
func (b *Broker) wait(ctx context.Context, req *engine.PopRequest, wait time.Duration, d *engine.Delivery) (one uint64, err error) {
	w := b.takeWaiter()
	defer b.releaseWaiter(w)
	deadline := b.now() + engine.Time(wait)
	for {
		parked := false
		// The memory of d goes to the engine and comes back with the answer: nothing is copied.
		*d, w.parked.Delivery = w.parked.Delivery, *d
		err := b.serve(req.Tenant, req.Queue, req.Partition, func(now engine.Time, wakes *engine.Wakes) (err error) {
			parked, one, err = b.engine.Park(now, req, &w.parked, wakes)
			return err
		})
		if !parked {
			*d, w.parked.Delivery = w.parked.Delivery, *d
			if err == nil {
				err = w.parked.Err // a window that was full at once
			}
			return one, err
		}
		answered, err := b.stay(ctx, w, deadline)
		*d, w.parked.Delivery = w.parked.Delivery, *d
		if err != nil {
			d.Messages = d.Messages[:0] // what there was went back; d tells only what it took of the request's room
			return 0, err
		}
		switch {
		case !answered:
			return one, nil
		case w.parked.Err != nil:
			return 0, w.parked.Err
		case !w.parked.Moved:
			return d.OneRing(), nil
		case b.now() >= deadline:
			return 0, nil // its time ended while it was on its way: empty, as for every other
		}
		// The partition is served elsewhere now: the pop is routed again with the time it has left (rule O4).
		w.answered.Store(false)
	}
}

// stay keeps a parked waiter until it is answered, its deadline has come, the broker drains, or ctx ends. Afterwards
// the engine has forgotten w, and nobody will wake it as answered any more.
func (b *Broker) stay(ctx context.Context, w *waiter, deadline engine.Time) (answered bool, err error) {
	b.line.join(w)
	defer b.line.leave(w)
	w.wakeAfter(time.Duration(deadline - b.now()))
	// The broker is looked at after joining the line: a drain that began before has not seen w, one that begins later
	// wakes it.
	for !w.answered.Load() && !b.draining.Load() && b.now() < deadline {
		select {
		case <-w.wakeup:
		case <-ctx.Done():
			return false, b.gone(ctx, w)
		}
	}
	if ctx.Err() != nil {
		return false, b.gone(ctx, w)
	}
	return b.withdraw(w, false), nil
}

// gone ends the wait of a client that has gone. What was claimed for it before that was seen goes back without a trace.
func (b *Broker) gone(ctx context.Context, w *waiter) error {
	if b.withdraw(w, true) && len(w.parked.Delivery.Messages) > 0 {
		b.GiveBack(&w.parked.Delivery, false)
	}
	return ctx.Err()
}

// withdraw takes w out of the engine, and tells whether it was answered before or claimed in this very moment, which a
// gone one never does.
func (b *Broker) withdraw(w *waiter, gone bool) (answered bool) {
	if w.answered.Load() {
		return true
	}
	wakes := b.takeWakes()
	withdrawn := b.engine.Withdraw(b.now(), &w.parked, gone, wakes)
	b.signal(wakes)
	if withdrawn {
		return false
	}
	if w.parked.Woken() {
		// Another call has answered w and is about to signal it. Until it has, w cannot be used for another pop.
		for !w.answered.Load() {
			<-w.wakeup
		}
	}
	return true
}

// GiveBack returns what Pop delivered and the client did not take (contract D9). traced says that a byte of it may have
// reached the client. d is not used any more by the broker afterwards.
func (b *Broker) GiveBack(d *engine.Delivery, traced bool) {
	wakes := b.takeWakes()
	b.engine.GiveBack(b.now(), d, traced, wakes)
	b.signal(wakes)
}

// maxRoutes is how often a request is routed. A request that routed by an old table meets a closed slot once; one that
// does so again and again is in the middle of a change that is better waited for by the client.
const maxRoutes = 3

// serve routes a request and runs op, which carries it out in this broker's engine. Partition "" is the whole queue,
// which is at home where its partition Default is.
func (b *Broker) serve(tenant, queue, partition string, op func(engine.Time, *engine.Wakes) error) error {
	for range maxRoutes {
		if !b.Owner(tenant, queue, partition).Self {
			return ErrMoved
		}
		wakes := b.takeWakes()
		err := op(b.now(), wakes)
		b.signal(wakes)
		if !errors.Is(err, engine.ErrClosed) {
			return err
		}
	}
	return ErrMoved
}
