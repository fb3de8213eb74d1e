package cell

import (
	"context"
	"time"

	"github.com/queencell/queencell/engine"
	"github.com/queencell/queencell/owner"
)

// Served tells which broker answered, and which ring where one ring did.
type Served struct {
	Node string
	// Incarnation is the ring's number; it means nothing unless OneRing.
	Incarnation uint64
	OneRing     bool
}

// served is the mark of an answer from here; one is what the engine's calls return.
func (b *Broker) served(one uint64) Served {
	return Served{Node: b.cfg.Node, Incarnation: one, OneRing: one != 0}
}

// Queues is a page of a tenant's queues.
type Queues struct {
	Served
	engine.QueuePage
	// Bytes is the tenant's footprint, MaxBytes what it may use.
	Bytes, MaxBytes int64
}

// Queues lists a tenant's queues that begin with prefix and come after the name after, at most limit. It asks memory.
func (b *Broker) Queues(_ context.Context, tenant, prefix, after string, limit int) (Queues, error) {
	if err := b.enabled(); err != nil {
		return Queues{Served: b.served(0)}, err
	}
	return Queues{
		Served:    b.served(0),
		QueuePage: b.engine.Queues(b.now(), tenant, prefix, after, limit),
		Bytes:     b.engine.Usage(tenant),
		MaxBytes:  b.cfg.Engine.MaxBytes,
	}, nil
}

// Depth tells the depth of one queue, and false for an unknown one. It asks memory.
func (b *Broker) Depth(_ context.Context, tenant, queue, group, after string, limit int) (engine.Depth, Served, bool, error) {
	if err := b.enabled(); err != nil {
		return engine.Depth{}, b.served(0), false, err
	}
	wakes := b.takeWakes() // what is late is counted as it will be once its timer has run
	depth, ok := b.engine.Depth(b.now(), tenant, queue, group, after, limit, wakes)
	b.signal(wakes)
	return depth, b.served(0), ok, nil
}

// System are the broker's gauges.
type System struct {
	Node    string
	Enabled bool
	// SwitchVersion is the version of the stored switch: it grows with each change.
	SwitchVersion uint64
	// ParkedPolls is how many pops that arrived here wait.
	ParkedPolls int64
	// StoreUp is how the last change fared.
	StoreUp bool
	Started time.Time
	Engine  engine.Stats
}

// System reads the gauges.
func (b *Broker) System() System {
	kill := b.kill.Load()
	return System{
		Node:          b.cfg.Node,
		Enabled:       kill.Enabled,
		SwitchVersion: kill.Version,
		ParkedPolls:   b.line.len(),
		StoreUp:       b.storeUp.Load(),
		Started:       b.started,
		Engine:        b.engine.Stats(),
	}
}

// Health is what a load balancer asks for.
type Health struct {
	Node              string
	Draining, StoreUp bool
}

// Health reads three words of memory.
func (b *Broker) Health() Health {
	return Health{Node: b.cfg.Node, Draining: b.draining.Load(), StoreUp: b.storeUp.Load()}
}

// Enabled tells the kill switch.
func (b *Broker) Enabled() bool { return b.enabled() == nil }

// Member is one broker of the cell.
type Member struct {
	Node, URL string
	// Boot is drawn at each start of the member: one that restarted has lost its contents, and this tells.
	Boot string
	// Share is the part of the slots it owns, 0 to 1.
	Share float64
	Self  bool
}

// View is the cell as this broker sees it.
type View struct {
	Name, Node string
	// RingVersion is a function of the members alone.
	RingVersion string
	Slots       int
	// Members are sorted by node.
	Members []Member
}

// View reads the cell.
func (b *Broker) View() View {
	return View{
		Name:        b.cfg.Name,
		Node:        b.cfg.Node,
		RingVersion: b.version,
		Slots:       owner.Slots,
		Members:     []Member{b.self},
	}
}

// Owner tells which member owns a partition; "" is the partition Default, which is where the whole queue is at home. A
// broker that is alone owns all of them.
func (b *Broker) Owner(tenant, queue, partition string) Member { return b.self }
