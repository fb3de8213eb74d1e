package engine

// Tick does what is due by now and returns when it is to be called next. Waiters that it answered are appended to
// wakes. It gives the locks up between queues and at least every thousand messages; when a lot is due it returns
// early, and the next call is due at once.
func (e *Engine) Tick(now Time, wakes *Wakes) (next Time) {
	left := 64 * stepLimit
	for {
		next = never
		for i := range e.shards {
			s := &e.shards[i]
			if Time(s.due.Load()) <= now {
				left = e.tickShard(s, now, left, wakes)
			}
			next = min(next, Time(s.due.Load()))
		}
		e.next.Store(int64(next))
		// What was armed before the store saw the old value and raised no alarm.
		again := false
		for i := range e.shards {
			due := Time(e.shards[i].due.Load())
			again = again || due < next
		}
		if !again && next > now || left <= 0 {
			return next
		}
	}
}

func (e *Engine) tickShard(s *shard, now Time, left int, wakes *Wakes) int {
	for left > 0 {
		left--
		q, collect := s.pop(now, Time(e.cfg.ImplicitIdle))
		if q == nil {
			return left
		}
		if collect {
			e.collect(q, now, Time(e.cfg.ImplicitIdle))
			continue
		}
		left -= e.tickQueue(s, q, now, wakes)
	}
	return left
}

// pop returns a queue that is due, or an implicit one that has been idle for so long. When there is none it sets when
// there will be one.
func (s *shard) pop(now, idle Time) (q *queue, collect bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := Time(never)
	if s.timers.len() > 0 {
		q := s.timers.min()
		if q.armed <= now {
			s.timers.remove(q)
			return q, false
		}
		due = q.armed
	}
	if q := s.idle.head; q != nil {
		if q.idleAt+idle <= now {
			return q, true
		}
		due = min(due, q.idleAt+idle)
	}
	s.due.Store(int64(due))
	return nil, false
}

// tickQueue runs one queue's due work and returns how many steps that took.
func (e *Engine) tickQueue(s *shard, q *queue, now Time, wakes *Wakes) (steps int) {
	for done := false; !done; steps += stepLimit / 8 {
		q.mu.Lock()
		if q.dead {
			q.mu.Unlock()
			return steps
		}
		s.mu.Lock()
		if q.timerPos >= 0 {
			s.timers.remove(q)
		}
		q.armed = never
		s.mu.Unlock()
		if q.body == nil && q.rest != nil && q.rest.due <= now {
			q.rouse()
		}
		done = true
		now := q.at(now)
		if b := q.body; b != nil {
			before := b.visits
			done = b.run(now, wakes)
			steps += b.visits - before
			if done && b.resting() && q.used+second <= now {
				q.settle()
			}
		}
		q.unlock()
	}
	return steps
}

// collect removes an implicit queue that has been idle for at least idle (contract E3).
func (e *Engine) collect(q *queue, now, idle Time) {
	q.mu.Lock()
	defer q.unlock()
	if q.dead || !q.isIdle {
		return
	}
	if max(q.idleAt, q.used)+idle > now {
		// It was used within the second that the list does not look at.
		s := e.shardOf(q.hash)
		s.mu.Lock()
		q.idleAt = max(q.idleAt, q.used)
		s.idle.moveToBack(q)
		s.mu.Unlock()
		return
	}
	e.remove(q)
}

// relieve frees what nobody misses when the budget is used up: settled messages, then implicit queues that hold
// nothing and were not used for five seconds, longest idle first (contract B6). No queue's lock is held by the caller.
// It stops when need bytes are free.
func (e *Engine) relieve(now Time, need int64) {
	enough := func() bool { return e.bytes.used.Load()+need <= e.cfg.MaxBytes }
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.RLock()
		n := s.settled.n
		s.mu.RUnlock()
		for ; n > 0 && !enough(); n-- {
			s.mu.RLock()
			b := s.settled.head
			s.mu.RUnlock()
			if b == nil {
				break
			}
			for e.reclaim(s, b) {
			}
		}
	}
	const unused = 5 * second
	for !enough() {
		var oldest *queue
		var at Time
		for i := range e.shards {
			s := &e.shards[i]
			e.visits.Add(1)
			s.mu.RLock()
			if q := s.idle.head; q != nil && (oldest == nil || q.idleAt < at) {
				oldest, at = q, q.idleAt
			}
			s.mu.RUnlock()
		}
		if oldest == nil || at+unused > now {
			return
		}
		e.collect(oldest, now, unused)
	}
}

// reclaim frees settled messages of one queue, up to a step, and says whether there are more.
func (e *Engine) reclaim(s *shard, b *body) bool {
	e.visits.Add(1)
	q := b.q
	q.mu.Lock()
	defer q.unlock()
	s.mu.Lock()
	if s.settled.has(b) {
		s.settled.remove(b)
	}
	s.mu.Unlock()
	if q.dead || q.body != b {
		return false
	}
	b.isSettled = false
	before := b.settledN
	b.makeRoom(b.settledN, stepLimit)
	return b.settledN > 0 && b.settledN < before
}

// makeRoom reclaims settled messages of any ring until n were, or limit things were looked at.
func (b *body) makeRoom(n, limit int) {
	goal := b.settledN - n
	for i := range b.lingering {
		for len(b.lingering[i]) > 0 && b.settledN > goal && limit > 0 {
			l := b.lingering[i]
			r := l[len(l)-1]
			if r.tablePos >= 0 && r.epoch == b.epoch {
				limit = r.reclaim(b.gen, limit)
				if r.settledN > 0 && limit <= 0 {
					return
				}
			}
			limit--
			if r.settledN == 0 || r.epoch != b.epoch || r.tablePos < 0 {
				l[len(l)-1] = nil
				b.lingering[i] = l[:len(l)-1]
				r.listed = 0
			}
		}
	}
}
