package engine

import (
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// shardCount is how many parts the map of queues and the timers have. A power of two.
const shardCount = 64

// Engine is the state machine of all queues on one broker. All methods may be called at the same time.
type Engine struct {
	cfg      Config
	defaults Options       // of implicit queues
	closed   []atomic.Bool // by slot
	seed     maphash.Seed
	shards   [shardCount]shard
	tenants  tenants
	// firstTenant saves the hash of the tenant seen first: most brokers have one.
	firstTenant atomic.Pointer[hashedTenant]
	// recent saves the way through the map to queues that are used over and over. A queue is put here and taken out
	// under its own lock, so that a dead one is never kept.
	recent [recentCount]atomic.Pointer[queue]

	bytes  account
	leases atomic.Int64 // lease blocks of further groups, in bytes
	paused atomic.Bool
	next   atomic.Int64 // when the next Tick is due
	visits atomic.Int64 // queues and shards that relieve looked at, for the tests of contract R5

	queues, waiters               atomic.Int64
	pushed, popped, acked         atomic.Int64
	groupsForgotten, wipes, moved atomic.Int64
	drops                         struct{ bounds, ttl, retry atomic.Int64 }
}

// New makes an engine with every slot open.
func New(cfg Config) (*Engine, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.SlotOf == nil {
		cfg.SlotOf = func(string, string, string) int { return 0 }
	}
	if cfg.Incarnation == nil {
		cfg.Incarnation = rand.Uint64
	}
	if cfg.Alarm == nil {
		cfg.Alarm = func(Time) {}
	}
	e := &Engine{cfg: cfg, defaults: cfg.defaults(), closed: make([]atomic.Bool, cfg.Slots), seed: maphash.MakeSeed()}
	e.bytes.limit.Store(cfg.MaxBytes)
	e.next.Store(never)
	for i := range e.shards {
		s := &e.shards[i]
		s.queues = make(map[uint64]*queue)
		s.due.Store(never)
	}
	e.tenants.byName = make(map[string]*tenant)
	return e, nil
}

// InForce clamps s to this broker's ceilings and fills what was not sent with the defaults.
func (e *Engine) InForce(s Settings) Options { return e.cfg.InForce(s) }

// Stats reads the gauges and counters.
func (e *Engine) Stats() Stats {
	return Stats{
		Bytes:      e.bytes.used.Load(),
		LeaseBytes: e.leases.Load(),
		MaxBytes:   e.cfg.MaxBytes,
		Queues:     e.queues.Load(),
		Waiters:    e.waiters.Load(),
		Pushed:     e.pushed.Load(),
		Popped:     e.popped.Load(),
		Acked:      e.acked.Load(),
		Drops: Drops{
			Bounds: e.drops.bounds.Load(),
			TTL:    e.drops.ttl.Load(),
			Retry:  e.drops.retry.Load(),
		},
		GroupsForgotten: e.groupsForgotten.Load(),
		Wipes:           e.wipes.Load(),
		Moved:           e.moved.Load(),
	}
}

// shard is one part of the map of queues and of the timers. Its lock is a leaf but for the tenant's: it may be taken
// while a queue's is held, never the other way round.
type shard struct {
	mu     sync.RWMutex
	queues map[uint64]*queue // by hash; queues of one hash are chained
	n      int
	peak   int
	timers heap[*queue, byArmed]
	idle   list[queue, inIdleQueues] // implicit queues that hold nothing and that nobody waits for, longest idle first
	// settled lists the queues that may hold settled messages.
	settled list[body, inSettled]

	due atomic.Int64 // the earliest of timers and idle
}

// all lists the queues. They may come and go meanwhile.
func (s *shard) all() []*queue {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*queue, 0, s.n)
	for _, q := range s.queues {
		for ; q != nil; q = q.chain {
			all = append(all, q)
		}
	}
	return all
}

type byArmed struct{}

func (byArmed) at(x *queue) *int32 { return &x.timerPos }

type inIdleQueues struct{}

func (inIdleQueues) links(x *queue) *links[queue] { return &x.idle }

type inSettled struct{}

func (inSettled) links(x *body) *links[body] { return &x.settled }

func (e *Engine) hash(tenant, name string) uint64 {
	const spread = 0x9e3779b97f4a7c15
	h := maphash.String(e.seed, name)
	t := e.firstTenant.Load()
	if t != nil && t.name == tenant {
		return h ^ t.hash*spread
	}
	x := maphash.String(e.seed, tenant)
	if t == nil {
		e.firstTenant.Store(&hashedTenant{tenant, x})
	}
	return h ^ x*spread
}

// hashedTenant is a tenant's name with its hash.
type hashedTenant struct {
	name string
	hash uint64
}

func (e *Engine) shardOf(hash uint64) *shard { return &e.shards[hash>>(64-6)] }

// find returns the queue, which may die at any moment as its lock is not held.
func (e *Engine) find(tenant, name string) *queue {
	h := e.hash(tenant, name)
	s := e.shardOf(h)
	s.mu.RLock()
	q := s.queues[h]
	for q != nil && (q.name != name || q.tenant.name != tenant) {
		q = q.chain
	}
	s.mu.RUnlock()
	return q
}

// recentCount is how many queues recent holds. A power of two.
const recentCount = 256

// recentOf is the place in recent for a queue of that name.
func (e *Engine) recentOf(name string) *atomic.Pointer[queue] {
	if name == "" {
		return &e.recent[0]
	}
	n := len(name)
	return &e.recent[(uint(n)*7^uint(name[n-1])^uint(name[n/2])<<3^uint(name[0])<<5)%recentCount]
}

// lock returns the queue with its lock held, or nil when there is none.
func (e *Engine) lock(tenant, name string) *queue {
	recent := e.recentOf(name)
	if q := recent.Load(); q != nil && q.name == name && q.tenant.name == tenant {
		q.mu.Lock()
		if !q.dead {
			return q
		}
		q.mu.Unlock()
	}
	for {
		q := e.find(tenant, name)
		if q == nil {
			return nil
		}
		q.mu.Lock()
		if !q.dead {
			recent.Store(q)
			return q
		}
		q.mu.Unlock()
	}
}

// lockOrCreate returns the queue with its lock held. A new one is in no list yet that would keep it: who made it
// reserves what it costs, or removes it again.
func (e *Engine) lockOrCreate(tenant, name string) (q *queue, created bool, err error) {
	for {
		if q := e.lock(tenant, name); q != nil {
			return q, false, nil
		}
		h := e.hash(tenant, name)
		s := e.shardOf(h)
		t := e.tenants.get(tenant)
		q = &queue{e: e, tenant: t, name: name, hash: h, timerPos: -1, armed: never}
		q.mu.Lock()
		s.mu.Lock()
		there := s.queues[h]
		for x := there; x != nil; x = x.chain {
			if x.name == name && x.tenant.name == tenant {
				q = nil
				break
			}
		}
		if q == nil {
			s.mu.Unlock()
			continue
		}
		if ok, err := t.add(q); !ok {
			s.mu.Unlock()
			if err == nil {
				continue // the tenant's record was just given up
			}
			return nil, false, err
		}
		q.chain = there
		s.queues[h] = q
		s.n++
		s.peak = max(s.peak, s.n)
		s.mu.Unlock()
		e.queues.Add(1)
		return q, true, nil
	}
}

// remove takes a queue that is empty of everything out of the engine. Its lock is held.
func (e *Engine) remove(q *queue) {
	q.dead = true
	e.recentOf(q.name).CompareAndSwap(q, nil)
	s := e.shardOf(q.hash)
	s.mu.Lock()
	if q.timerPos >= 0 {
		s.timers.remove(q)
	}
	if s.idle.has(q) {
		s.idle.remove(q)
	}
	if q.body != nil && s.settled.has(q.body) {
		s.settled.remove(q.body)
	}
	if first := s.queues[q.hash]; first == q {
		if q.chain == nil {
			delete(s.queues, q.hash)
		} else {
			s.queues[q.hash] = q.chain
		}
	} else {
		for first.chain != q {
			first = first.chain
		}
		first.chain = q.chain
	}
	q.chain = nil
	s.n--
	if s.n < s.peak/4 { // a Go map never gives memory back
		m := make(map[uint64]*queue, s.n)
		for h, x := range s.queues {
			m[h] = x
		}
		s.queues, s.peak = m, max(s.n, 64)
	}
	s.mu.Unlock()
	q.tenant.remove(q)
	if q.body != nil {
		q.body.delta = 0
	}
	q.charge(-q.charged)
	e.tenants.drop(q.tenant)
	e.queues.Add(-1)
}
