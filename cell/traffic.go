package cell

import (
	"context"

	"github.com/queencell/queencell/engine"
)

// Push stores the messages of req at the tail of its ring. A request that has arrived whole is carried out, whether or
// not its client is still there.
func (b *Broker) Push(_ context.Context, req *engine.PushRequest) (Served, error) {
	if err := b.enabled(); err != nil {
		return b.served(0), err
	}
	var one uint64
	err := b.serve(req.Tenant, req.Queue, req.Partition, func(now engine.Time, wakes *engine.Wakes) (err error) {
		one, err = b.engine.Push(now, req, wakes)
		return err
	})
	return b.served(one), err
}

// Ack appends one outcome per ack of req to outcomes, in order. Like a push it is carried out for a client that has
// gone, too.
func (b *Broker) Ack(_ context.Context, req *engine.AckRequest, outcomes []engine.Outcome) ([]engine.Outcome, Served, error) {
	if err := b.enabled(); err != nil {
		return outcomes, b.served(0), err
	}
	first := len(outcomes)
	outcomes, one := b.ack(req, outcomes)
	for range maxRoutes - 1 {
		if !b.ackAgain(req, outcomes[first:]) {
			break
		}
		one = 0
	}
	for i := range outcomes[first:] {
		if outcomes[first+i] == engine.OutcomeClosed {
			outcomes[first+i] = engine.OutcomeUnavailable
		}
	}
	return outcomes, b.served(one), nil
}

func (b *Broker) ack(req *engine.AckRequest, outcomes []engine.Outcome) ([]engine.Outcome, uint64) {
	wakes := b.takeWakes()
	outcomes, one := b.engine.Ack(b.now(), req, outcomes, wakes)
	b.signal(wakes)
	return outcomes, one
}

// ackAgain sends the acks again whose slot was closed, in their order, and puts their outcomes in place. It returns
// false when there are none.
func (b *Broker) ackAgain(req *engine.AckRequest, outcomes []engine.Outcome) bool {
	again := engine.AckRequest{Tenant: req.Tenant, Queue: req.Queue, Group: req.Group}
	var at []int
	for i, o := range outcomes {
		if o == engine.OutcomeClosed {
			again.Acks = append(again.Acks, req.Acks[i])
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return false
	}
	results, _ := b.ack(&again, nil)
	for i, o := range results {
		outcomes[at[i]] = o
	}
	return true
}

// enabled is ErrDisabled while the kill switch is off.
func (b *Broker) enabled() error {
	if !b.kill.Load().Enabled {
		return ErrDisabled
	}
	return nil
}
