package engine

// Declare creates a queue with options of its own, or replaces those it has (contract E2). Nothing that is held is
// dropped for smaller bounds (B7).
func (e *Engine) Declare(now Time, tenant, name string, o Options, wakes *Wakes) error {
	err := e.declare(now, tenant, name, o, wakes)
	if err == ErrBudget {
		e.relieve(now, queueCost+bodyCost+nameCost(name))
		err = e.declare(now, tenant, name, o, wakes)
	}
	return err
}

func (e *Engine) declare(now Time, tenant, name string, o Options, wakes *Wakes) error {
	q, created, err := e.enterOrCreate(tenant, name, now, wakes)
	if err != nil {
		return err
	}
	var reserved int64
	if created {
		reserved = queueCost + bodyCost + nameCost(name)
		if err := e.reserve(q.tenant, reserved); err != nil {
			q.abandon(true, true)
			return err
		}
		q.used = now
	}
	now = q.at(now)
	q.declared = &o
	b := q.open()
	old := b.opts
	b.opts = &o
	b.armTTL()
	if b.parked > 0 && (old.Window != o.Window || old.WindowCount != o.WindowCount) {
		b.rewindow(now, wakes)
	}
	b.serveTouched(now, wakes)
	b.arm(now)
	q.reserved = reserved
	q.unlock()
	return nil
}

// rewindow applies a changed window to the pops that are parked.
func (b *body) rewindow(now Time, wakes *Wakes) {
	for b.windows.len() > 0 {
		b.stopWindow(b.windows.min())
	}
	for i := len(b.lines) - 1; i >= 0; i-- {
		g := b.lines[i]
		b.stopCount(g)
		if b.opts.Window > 0 {
			b.startCount(g)
		}
		b.serveGroup(g, now, wakes)
	}
	for _, r := range b.rings.items {
		for i := len(r.lines) - 1; i >= 0; i-- {
			b.serve(r.lines[i], now, wakes)
		}
	}
}

// Reset drops every message of a queue and voids every lease (contract X1). It returns how many messages that were
// not settled it dropped; groups, options and parked pops stay.
func (e *Engine) Reset(now Time, tenant, name string, wakes *Wakes) (dropped int64) {
	q := e.enter(tenant, name, now, wakes)
	if q == nil {
		return 0
	}
	q.used = q.at(now)
	if q.body == nil {
		q.unlock()
		return 0
	}
	// Ring by ring from the last, so that rings may come and go while the lock is given up.
	for i := q.body.rings.len() - 1; i >= 0; {
		b := q.body
		for left := stepLimit; i >= 0 && left > 0; i-- {
			if i >= b.rings.len() {
				continue
			}
			r := b.rings.items[i]
			left -= 1 + r.readers.len()
			dropped += int64(b.wipe(r))
		}
		if i < 0 {
			break
		}
		q.unlock()
		if q = e.enter(tenant, name, now, wakes); q == nil {
			return dropped
		}
		if q.body == nil {
			break
		}
	}
	q.unlock()
	return dropped
}

// wipe empties a ring, forgets its leases and leaves every cursor at the empty head. It returns how many messages it
// dropped that were not settled.
func (b *body) wipe(r *ring) (dropped int) {
	r.fresh()
	dropped = r.heldN - r.settledN
	for _, c := range r.readers.items {
		b.visits++
		g := c.g
		g.skipped += b.cursorSkipped(c)
		g.counts(-c.deliverable())
		g.leased -= c.leased
		c.leased, c.waitingN = 0, 0
		c.waiting.items = nil
		c.last = nil
		if len(c.blocks.items) > 0 {
			b.trash = append(b.trash, c.blocks)
			c.blocks = table[uint64, *block]{}
			b.arm(b.clock)
		}
		if c.atBase() {
			c.mark = r.drops
		} else {
			r.places.remove(c)
			c.mark = r.drops
		}
		c.seg = nil
	}
	for _, g := range b.counted {
		if _, ok := r.readers.get(g); !ok {
			g.counts(-r.heldN)
		}
	}
	if r.heldN == 0 {
		return dropped
	}
	r.settledGone(r.settledN, r.settledBytes)
	r.log, r.logHead = nil, 0
	b.held -= r.heldN
	b.bytes -= r.bytes
	r.heldN, r.bytes = 0, 0
	var back int64
	for s := r.first; s != nil; s = s.next {
		b.visits++
		back += s.cost
		s.entries = nil // who remembers it looks on
	}
	b.charge(-back)
	r.first, r.last, r.lowSeg = nil, nil, nil
	r.emptied()
	for _, c := range r.readers.items {
		c.turns()
	}
	b.lapse(r)
	return dropped
}

// removeRing takes an empty or wiped ring away. Pops parked on it must be gone.
func (b *body) removeRing(r *ring, now Time) {
	for len(r.readers.items) > 0 {
		b.removeCursor(r.readers.items[len(r.readers.items)-1], now)
	}
	if s := r.last; s != nil {
		r.unlink(s)
	}
	if b.idleRings.has(r) {
		b.idleRings.remove(r)
	}
	b.rings.remove(r)
	if b.last == r {
		b.last = nil
	}
	b.charge(-ringCost - nameCost(r.name))
}

// Delete removes a queue with its contents, groups and options, and says whether there was one (contract X2). While
// pops are parked on it the queue is listed again at once, as a new and implicit one, and they go on waiting.
func (e *Engine) Delete(now Time, tenant, name string, wakes *Wakes) (existed bool) {
	q := e.enter(tenant, name, now, wakes)
	if q == nil {
		return false
	}
	now = q.at(now)
	b := q.open()
	if b.parked == 0 {
		for i := range b.trash {
			for _, k := range b.trash[i].items {
				k.recycle(b)
			}
		}
		for _, r := range b.rings.items {
			for _, c := range r.readers.items {
				for _, k := range c.blocks.items {
					k.recycle(b)
				}
			}
		}
		e.remove(q)
		q.unlock()
		return true
	}
	q.declared, b.opts = nil, &e.defaults
	for i := len(b.rings.items) - 1; i >= 0; i-- {
		r := b.rings.items[i]
		b.wipe(r)
		if len(r.lines) == 0 {
			b.removeRing(r, now)
			continue
		}
		for j := len(r.readers.items) - 1; j >= 0; j-- {
			if c := r.readers.items[j]; c.line.waiters.n == 0 {
				b.removeCursor(c, now)
			}
		}
		b.renew(r)
	}
	for i := len(b.groups.items) - 1; i >= 0; i-- {
		g := b.groups.items[i]
		if g.parked == 0 {
			b.beginForget(g, now)
			continue
		}
		g.skipped, g.from, g.covered = 0, b.drops, 0
		if g.whole && g.line.waiters.n == 0 {
			g.whole = false
			b.whole--
			for _, c := range g.cursors {
				c.r.partial++
			}
		}
		for _, c := range g.cursors {
			c.mark, c.from = c.r.drops, c.r.drops
		}
	}
	b.dropped = Drops{}
	b.rewindow(now, wakes)
	q.unlock()
	return true
}

// renew makes a wiped ring a new one.
func (b *body) renew(r *ring) {
	if s := r.last; s != nil {
		r.unlink(s)
	}
	r.incarnation = b.e.cfg.Incarnation()
	r.tail, r.base, r.low, r.closing = 0, 0, 0, 0
	r.hint = firstChunkSize
	for _, c := range r.readers.items {
		c.pos = 0
	}
}

// CloseSlots ends the service of slots: their rings are emptied and gone, and pops parked on them are answered as
// moved. It marks all slots closed before it looks at the first queue, so that nothing new begins in them.
func (e *Engine) CloseSlots(now Time, slots []int, wakes *Wakes) {
	for _, s := range slots {
		e.closed[s].Store(true)
	}
	for i := range e.shards {
		for _, q := range e.shards[i].all() {
			for left := never; left > 0; {
				left = e.closeQueue(q, left, now, wakes)
			}
		}
	}
}

// closeQueue empties the closed ones of a queue's first n rings, from the last, a step at a time, and returns how many
// are left to look at. Rings that come meanwhile are in open slots.
func (e *Engine) closeQueue(q *queue, n int, now Time, wakes *Wakes) (next int) {
	q.mu.Lock()
	defer q.unlock()
	if q.dead {
		return 0
	}
	b := q.body
	if b == nil {
		if q.rest == nil {
			return 0
		}
		lost := false
		for i := range q.rest.rings {
			lost = lost || e.closed[e.cfg.SlotOf(q.tenant.name, q.name, q.rest.rings[i].name)].Load()
		}
		if !lost {
			return 0
		}
		b = q.open()
	}
	now = q.at(now)
	i := min(n, b.rings.len())
	for left := stepLimit; i > 0 && left > 0; {
		left--
		r := b.rings.items[i-1]
		if !e.closed[r.slot].Load() {
			i--
			continue
		}
		for len(r.lines) > 0 && left > 0 {
			left--
			w := r.lines[len(r.lines)-1].line.waiters.head
			w.Moved = true
			b.wake(w, now, wakes)
		}
		if len(r.lines) > 0 {
			break // and on with it in the next step
		}
		i--
		left -= r.readers.len()
		if n := b.wipe(r); n > 0 {
			e.wipes.Add(1)
			e.moved.Add(int64(n))
		}
		b.removeRing(r, now)
	}
	b.due = min(b.due, now)
	return i
}

// OpenSlots begins the service of slots.
func (e *Engine) OpenSlots(slots []int) {
	for _, s := range slots {
		e.closed[s].Store(false)
	}
}

// SetPaused holds back everything from those that are parked, or lets them have what has come meanwhile. Leases and
// ttl run on. Who calls the engine refuses calls on its own while it is paused.
func (e *Engine) SetPaused(now Time, paused bool, wakes *Wakes) {
	if e.paused.Swap(paused) == paused || paused {
		return
	}
	for i := range e.shards {
		for _, q := range e.shards[i].all() {
			q.mu.Lock()
			if b := q.body; !q.dead && b != nil && b.parked > 0 {
				b.rewindow(q.at(now), wakes)
			}
			q.unlock()
		}
	}
}
