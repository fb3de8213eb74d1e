package engine

import "sync"

// queue is the unit of locking: its lock guards all its rings, groups, leases and parked pops on this broker. It has
// a body while it is in use and what is left of one otherwise. Under the lock only leaf locks are taken, those of the
// shard and the tenant, and never another queue's.
type queue struct {
	e      *Engine
	tenant *tenant
	name   string
	hash   uint64
	chain  *queue // guarded by the shard's lock

	mu       sync.Mutex
	body     *body    // guarded by mu; nil: at rest
	rest     *rest    // guarded by mu; what is kept at rest
	declared *Options // guarded by mu; nil: implicit
	used     Time     // guarded by mu; the last push, pop or ack
	seen     Time     // guarded by mu; the latest time that a call brought
	charged  int64    // guarded by mu; what the queue costs now
	reserved int64    // guarded by mu; what the call that holds the lock has reserved; unlock gives it back
	dead     bool     // guarded by mu

	timerPos int32 // guarded by the shard's lock
	// armed is when the timer looks at the queue, idleAt since when it is idle. They are written under both locks.
	armed, idleAt Time
	idle          links[queue]
	isIdle        bool // guarded by mu; in shard.idle
}

// charge adds n to what the queue costs, whether or not the budgets allow it: admission was asked before.
func (q *queue) charge(n int64) {
	q.charged += n
	q.tenant.bytes.used.Add(n)
	q.e.bytes.used.Add(n)
}

// options are the options in force.
func (q *queue) options() *Options {
	if q.declared != nil {
		return q.declared
	}
	return &q.e.defaults
}

// open returns the queue's body, making it when the queue was at rest.
func (q *queue) open() *body {
	if q.body == nil {
		q.rouse()
	}
	return q.body
}

// unlock carries what happened to the shard and the budgets and gives the lock up. Every holder of the lock that
// changed something ends with it.
func (q *queue) unlock() {
	e := q.e
	b := q.body
	if q.dead {
		q.mu.Unlock()
		return
	}
	s := e.shardOf(q.hash)
	due := Time(never)
	idle := q.declared == nil
	settles := false
	if b != nil {
		if b.delta != 0 || q.reserved != 0 {
			// What was reserved for the call and what it really cost go into the budgets as one sum.
			q.charged += b.delta
			n := b.delta - q.reserved
			q.tenant.bytes.used.Add(n)
			e.bytes.used.Add(n)
			b.delta, q.reserved = 0, 0
		}
		if b.resting() {
			b.due = min(b.due, q.used+second)
		}
		due = b.due
		idle = idle && b.held == 0 && b.parked == 0
		settles = b.settledN > 0 && !b.isSettled
	} else {
		due = q.restDue()
	}
	if due < q.armed || idle != q.isIdle || idle && q.used >= q.idleAt+second || settles {
		s.mu.Lock()
		if due < q.armed {
			q.arm(s, due)
		}
		if settles {
			b.isSettled = true
			s.settled.pushBack(b)
		}
		switch {
		case idle && !q.isIdle:
			q.idleAt = q.seen
			s.idle.pushBack(q)
		case idle && q.used > q.idleAt:
			q.idleAt = q.used
			s.idle.moveToBack(q)
		case !idle && q.isIdle:
			s.idle.remove(q)
		}
		q.isIdle = idle
		if idle && s.idle.head == q {
			e.alarm(s, q.idleAt+Time(e.cfg.ImplicitIdle))
		}
		s.mu.Unlock()
	}
	q.mu.Unlock()
}

// arm sets when the timer looks at the queue. The shard's lock is held.
func (q *queue) arm(s *shard, due Time) {
	q.armed = due
	if q.timerPos < 0 {
		s.timers.push(q, due)
	} else {
		s.timers.fix(q, due)
	}
	if s.timers.min() == q {
		q.e.alarm(s, due)
	}
}

// alarm tells the shell when something is due before it meant to look.
func (e *Engine) alarm(s *shard, due Time) {
	if int64(due) < s.due.Load() {
		s.due.Store(int64(due))
	}
	for {
		next := e.next.Load()
		if int64(due) >= next {
			return
		}
		if e.next.CompareAndSwap(next, int64(due)) {
			e.cfg.Alarm(due)
			return
		}
	}
}

// at is the time of a call that brought now: time does not go back for a queue.
func (q *queue) at(now Time) Time {
	q.seen = max(q.seen, now)
	return q.seen
}

// catchUp lets what is due by now happen, up to a step of it, and says whether that is all.
func (q *queue) catchUp(now Time, wakes *Wakes) bool {
	now = q.at(now)
	b := q.body
	if b == nil {
		if q.rest == nil || q.rest.due > now {
			return true
		}
		q.rouse()
		b = q.body
		b.due = now
	}
	return b.due > now || b.run(now, wakes)
}

// enter returns the queue with its lock held and everything done that was due by now, or nil when there is none.
func (e *Engine) enter(tenant, name string, now Time, wakes *Wakes) *queue {
	for {
		q := e.lock(tenant, name)
		if q == nil || q.catchUp(now, wakes) {
			return q
		}
		q.unlock()
	}
}

// enterOrCreate is enter that makes the queue. What a new one costs is in its body's delta.
func (e *Engine) enterOrCreate(tenant, name string, now Time, wakes *Wakes) (q *queue, created bool, err error) {
	for {
		q, created, err = e.lockOrCreate(tenant, name)
		if err != nil {
			return nil, false, err
		}
		if created {
			q.used = q.at(now)
			return q, true, nil
		}
		if q.catchUp(now, wakes) {
			return q, false, nil
		}
		q.unlock()
	}
}
