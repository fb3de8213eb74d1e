package cell

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/queencell/queencell/declare"
	"github.com/queencell/queencell/engine"
	"github.com/queencell/queencell/owner"
)

// Broker is one running broker. All its methods may be called by any number of goroutines.
type Broker struct {
	cfg     Config
	engine  *engine.Engine
	self    Member
	version string // of the ring
	started time.Time

	// change holds one token: that of the change of a declaration or the switch under way. It is a channel and not a
	// mutex because a change waits for the store.
	change  chan struct{}
	kill    atomic.Pointer[declare.Switch]
	storeUp atomic.Bool

	line     line
	draining atomic.Bool
	waiters  sync.Pool // of *waiter
	wakes    sync.Pool // of *engine.Wakes

	timer     timer
	closeOnce sync.Once
	done      chan struct{} // closed by Close
	running   sync.WaitGroup
}

// Start loads the declarations and the switch and returns a broker that serves. It fails when the store can't be read
// or the declared queues do not fit into the budget: a broker never serves a declared queue under the defaults.
func Start(ctx context.Context, cfg Config) (*Broker, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	var boot [8]byte
	_, _ = rand.Read(boot[:]) // never fails
	b := &Broker{
		cfg:     cfg,
		self:    Member{Node: cfg.Node, URL: cfg.URL, Boot: hex.EncodeToString(boot[:]), Share: 1, Self: true},
		version: owner.Version([]string{cfg.Node}),
		started: time.Now(),
		change:  make(chan struct{}, 1),
		done:    make(chan struct{}),
		timer:   newTimer(),
	}
	b.cfg.Engine.Slots = owner.Slots
	b.cfg.Engine.SlotOf = owner.SlotOf
	b.cfg.Engine.Alarm = b.timer.alarm
	var err error
	if b.engine, err = engine.New(b.cfg.Engine); err != nil {
		return nil, err
	}
	if err := b.load(ctx); err != nil {
		return nil, err
	}
	b.running.Go(b.tick)
	return b, nil
}

// Drain makes the broker say that it is draining, answers every parked pop now, and lets no other pop park (rule G1).
// Everything else is served as before. It does not wait.
func (b *Broker) Drain() {
	b.draining.Store(true)
	b.line.wakeAll()
}

// Close drains the broker and waits for its goroutines. It may be called again, and on nil, which is what a start that
// failed returns. Whoever closes it has stopped the transports before: nothing becomes due in a closed broker.
func (b *Broker) Close() {
	if b == nil {
		return
	}
	b.Drain()
	b.closeOnce.Do(func() { close(b.done) })
	b.running.Wait()
}

// now is the engine's time: nanoseconds since the start, on the monotonic clock.
func (b *Broker) now() engine.Time { return engine.Time(time.Since(b.started)) }

// takeWakes returns an empty list for a call into the engine.
func (b *Broker) takeWakes() *engine.Wakes {
	if w, ok := b.wakes.Get().(*engine.Wakes); ok {
		return w
	}
	return new(engine.Wakes)
}

// maxKeptWakes is how long a list may have grown that is kept for the next call.
const maxKeptWakes = 1024

// signal tells everybody whom a call into the engine has answered, and takes the list back. No lock is held.
func (b *Broker) signal(wakes *engine.Wakes) {
	for i := range *wakes {
		(*wakes)[i].Waiter.Owner.(*waiter).answer()
	}
	clear(*wakes)
	*wakes = (*wakes)[:0]
	if cap(*wakes) <= maxKeptWakes {
		b.wakes.Put(wakes)
	}
}
