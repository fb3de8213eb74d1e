package main

import (
	"context"
	"errors"
	"time"

	"github.com/queencell/queencell/cell"
	"github.com/queencell/queencell/engine"
	"github.com/queencell/queencell/httpapi"
)

// adapter shows a broker as what the HTTP surface asks for. The two packages do not know each other: it translates
// their types and refusals and decides nothing.
type adapter struct{ broker *cell.Broker }

var (
	_ httpapi.Broker = adapter{}
	_ httpapi.Admin  = adapter{}
	_ httpapi.Status = adapter{}
)

func (a adapter) Push(ctx context.Context, req *engine.PushRequest) (httpapi.Served, error) {
	served, err := a.broker.Push(ctx, req)
	return httpapi.Served(served), refusal(err)
}

func (a adapter) Pop(ctx context.Context, req *engine.PopRequest, wait time.Duration, d *engine.Delivery) (httpapi.Served, error) {
	served, err := a.broker.Pop(ctx, req, wait, d)
	return httpapi.Served(served), refusal(err)
}

func (a adapter) Ack(ctx context.Context, req *engine.AckRequest, outcomes []engine.Outcome) ([]engine.Outcome, httpapi.Served, error) {
	outcomes, served, err := a.broker.Ack(ctx, req, outcomes)
	return outcomes, httpapi.Served(served), refusal(err)
}

func (a adapter) GiveBack(d *engine.Delivery, traced bool) { a.broker.GiveBack(d, traced) }

func (a adapter) Configure(ctx context.Context, tenant, queue string, s engine.Settings, sent []byte) (httpapi.Served, error) {
	served, err := a.broker.Configure(ctx, tenant, queue, s, sent)
	return httpapi.Served(served), refusal(err)
}

func (a adapter) Reset(ctx context.Context, tenant, queue string) (int64, httpapi.Served, error) {
	dropped, served, err := a.broker.Reset(ctx, tenant, queue)
	return dropped, httpapi.Served(served), refusal(err)
}

func (a adapter) Delete(ctx context.Context, tenant, queue string) (deleted, declared bool, _ httpapi.Served, _ error) {
	deleted, declared, served, err := a.broker.Delete(ctx, tenant, queue)
	return deleted, declared, httpapi.Served(served), refusal(err)
}

func (a adapter) SetEnabled(ctx context.Context, enabled bool) error {
	return refusal(a.broker.SetEnabled(ctx, enabled))
}

func (a adapter) Queues(ctx context.Context, tenant, prefix, after string, limit int) (httpapi.QueuesAnswer, error) {
	q, err := a.broker.Queues(ctx, tenant, prefix, after, limit)
	return httpapi.QueuesAnswer{
		Served:       httpapi.Served(q.Served),
		QueuePage:    q.QueuePage,
		CellBytes:    q.Bytes,
		CellMaxBytes: q.MaxBytes,
	}, refusal(err)
}

func (a adapter) Depth(ctx context.Context, tenant, queue, group, after string, limit int) (httpapi.DepthAnswer, bool, error) {
	depth, served, ok, err := a.broker.Depth(ctx, tenant, queue, group, after, limit)
	return httpapi.DepthAnswer{Served: httpapi.Served(served), Depth: depth}, ok, refusal(err)
}

func (a adapter) System() httpapi.System {
	s := a.broker.System()
	return httpapi.System{
		Node:          s.Node,
		Enabled:       s.Enabled,
		Epoch:         s.SwitchVersion,
		ParkedWaiters: s.Engine.Waiters,
		ParkedPolls:   s.ParkedPolls,
		StoreUp:       s.StoreUp,
		Started:       s.Started,
		Engine:        s.Engine,
	}
}

func (a adapter) Health() httpapi.Health {
	h := a.broker.Health()
	health := httpapi.Health{State: httpapi.OK, Node: h.Node, StoreUp: h.StoreUp}
	if h.Draining {
		health.State, health.Reason = httpapi.Draining, "it is stopping"
	}
	return health
}

func (a adapter) Cell() httpapi.Cell {
	view := a.broker.View()
	members := make([]httpapi.Member, len(view.Members))
	for i, m := range view.Members {
		members[i] = member(m)
	}
	return httpapi.Cell{
		Name:        view.Name,
		Node:        view.Node,
		RingVersion: view.RingVersion,
		Slots:       view.Slots,
		Members:     members,
		Owner: func(tenant, queue, partition string) httpapi.Member {
			return member(a.broker.Owner(tenant, queue, partition))
		},
	}
}

func member(m cell.Member) httpapi.Member {
	return httpapi.Member{Node: m.Node, URL: m.URL, Epoch: m.Boot, Share: m.Share, Self: m.Self}
}

// refusals are the broker's refusals as the HTTP surface knows them.
var refusals = []struct{ from, to error }{
	{cell.ErrDisabled, httpapi.ErrDisabled},
	{cell.ErrMoved, httpapi.ErrMoved},
	{cell.ErrStoreDown, httpapi.ErrStoreDown},
	{cell.ErrStoreFailed, httpapi.ErrStoreFailed},
}

// refused is an error of the broker that is also one of the HTTP surface. It keeps the broker's text, which says why.
type refused struct {
	error
	as error
}

func (r refused) Unwrap() []error { return []error{r.as, r.error} }

func refusal(err error) error {
	if err == nil {
		return nil
	}
	for _, r := range refusals {
		if errors.Is(err, r.from) {
			return refused{err, r.to}
		}
	}
	return err
}
