package engine

// newClaim begins a claim for d.
func (b *body) newClaim(d *Delivery, group string, batch, maxBytes int, room Room, autoAck bool, now Time) claim {
	d.tenant, d.queue, d.group, d.AutoAck = b.q.tenant.name, b.q.name, group, autoAck
	return claim{
		d: d, left: max(batch, 1), maxBytes: maxBytes, autoAck: autoAck,
		room: room, granted: roomStep,
		now: now, deadline: now + Time(b.opts.Lease),
	}
}

// finish ends a claim: the payloads are where they stay. A claim that got something is no failure.
func (b *body) finish(k *claim) error {
	d := k.d
	for i := range d.Messages {
		end := len(d.buf)
		if i+1 < len(d.Messages) {
			end = d.Messages[i+1].off
		}
		d.Messages[i].Payload = d.buf[d.Messages[i].off:end:end]
	}
	n := len(d.Messages)
	b.e.popped.Add(int64(n))
	if n > 0 {
		if k.autoAck {
			b.e.acked.Add(int64(n))
		}
		return nil
	}
	return k.err
}

// OneRing is the incarnation of the one ring that all messages came from, or 0.
func (d *Delivery) OneRing() uint64 {
	if len(d.Messages) == 0 {
		return 0
	}
	inc := d.Messages[0].Incarnation
	for i := range d.Messages {
		if d.Messages[i].Incarnation != inc {
			return 0
		}
	}
	return inc
}

// takeOne claims from one ring.
func (b *body) takeOne(c *cursor, k *claim) {
	if c.take(k) > 0 {
		c.turns()
	}
}

// takeAny claims from the rings in turn (contract P6): as much as fits from the first one that has something, then on
// with the next; one that gave goes to the tail.
func (b *body) takeAny(g *group, k *claim) {
	for k.left > 0 && !k.stopped && k.err == nil {
		err := b.scan(g)
		c := g.ready.head
		if c == nil {
			k.err = err
			return
		}
		b.visits++
		c.take(k)
		c.turns()
		if g.ready.has(c) {
			g.ready.remove(c)
			c.enqueue()
		}
	}
}

// scan sees to it that the head of the rotation is the ring whose turn it is, of those in the rotation and those that
// the group has not looked at yet. The latter have their turns in the order in which they came to hold something.
func (b *body) scan(g *group) error {
	for {
		g.prune()
		r := b.roster.next(g.scanned)
		if r == nil || g.ready.head != nil && g.ready.head.since < r.stamp {
			return nil
		}
		b.visits++
		c, err := b.cursor(g, r)
		if err != nil {
			return err
		}
		g.scanned = r.stamp
		if c.deliverable() > 0 && !g.ready.has(c) {
			c.uncatch()
			c.since = r.stamp
			g.ready.pushFront(c)
			return nil
		}
		c.turns()
	}
}

// prune takes rings off the head of the rotation whose messages were dropped since they came into it.
func (g *group) prune() {
	for c := g.ready.head; c != nil && c.deliverable() == 0; c = g.ready.head {
		g.b.visits++
		c.turns()
	}
}

// cursor returns the group's place in a ring, making it when the budget allows it.
func (b *body) cursor(g *group, r *ring) (*cursor, error) {
	if c, ok := r.readers.get(g); ok {
		return c, nil
	}
	if r.readers.len() > 0 {
		if err := b.e.reserve(b.q.tenant, cursorCost); err != nil {
			return nil, err
		}
		b.e.release(b.q.tenant, cursorCost) // addCursor charges it
	}
	return b.addCursor(g, r), nil
}

// Pop hands out what is deliverable now, and creates the queue, and a partition that is named, when there is none
// (contract E1). one is the incarnation of the ring that answered, 0 where it was none or more than one. d must be
// empty.
func (e *Engine) Pop(now Time, req *PopRequest, d *Delivery, wakes *Wakes) (one uint64, err error) {
	p := pop{e: e, now: now, req: req, d: d}
	return p.do(wakes)
}

// Park is Pop into w's Delivery, but when nothing is deliverable, or the queue's window says to wait, w is parked
// until something is (contract P1). Then it is put among the Wakes of the call that answers it.
func (e *Engine) Park(now Time, req *PopRequest, w *Waiter, wakes *Wakes) (parked bool, one uint64, err error) {
	p := pop{e: e, now: now, req: req, d: &w.Delivery, w: w}
	one, err = p.do(wakes)
	return p.parked, one, err
}

// pop is a pop at work.
type pop struct {
	e      *Engine
	now    Time
	req    *PopRequest
	d      *Delivery
	w      *Waiter // nil: do not wait
	parked bool
	need   int64
}

func (p *pop) do(wakes *Wakes) (one uint64, err error) {
	one, err = p.try(wakes)
	if err == ErrBudget {
		p.e.relieve(p.now, p.need+cursorCost)
		one, err = p.try(wakes)
	}
	return one, err
}

func (p *pop) try(wakes *Wakes) (one uint64, err error) {
	e, req := p.e, p.req
	group := req.Group
	if group == "" {
		group = QueueMode
	}
	slot := 0
	if req.Partition != "" {
		slot = e.cfg.SlotOf(req.Tenant, req.Queue, req.Partition)
		if e.closed[slot].Load() {
			return 0, ErrClosed
		}
	}
	q, created, err := e.enterOrCreate(req.Tenant, req.Queue, p.now, wakes)
	if err != nil {
		return 0, err
	}
	p.now = q.at(p.now)
	slept := q.body == nil
	b := q.open()
	g, r, reserved, err := p.admit(b, group, slot, created || slept)
	if err != nil {
		q.abandon(created, slept)
		return 0, err
	}
	if g == nil {
		g = b.addGroup(group, p.now)
	}
	var c *cursor
	if req.Partition != "" {
		if r == nil {
			r = b.makeRing(req.Partition, slot, e.cfg.Incarnation())
		}
		var ok bool
		if c, ok = r.readers.get(g); !ok {
			c = b.addCursor(g, r)
		}
		one = r.incarnation
	} else if !g.whole {
		g.makeWhole()
	}
	q.used = max(q.used, p.now)
	b.touchGroup(g, p.now)
	if r != nil && r.heldN == 0 {
		b.ringIdle(r)
	}
	if err = p.claim(b, g, c, wakes); err == nil && req.Partition == "" {
		one = p.d.OneRing()
	}
	b.serveTouched(p.now, wakes)
	q.reserved = reserved
	q.unlock()
	return one, err
}

// admit looks whether the pop may create what it needs: a group, a partition, the group's place in it.
func (p *pop) admit(b *body, name string, slot int, asleep bool) (g *group, r *ring, reserved int64, err error) {
	e, req := p.e, p.req
	p.need = 0
	g, _ = b.groups.get(name)
	if g == nil {
		if b.groups.len() >= e.cfg.MaxGroups {
			return nil, nil, 0, ErrGroups
		}
		p.need = nameCost(name)
		if b.groups.len() > 0 {
			p.need += groupCost
		}
	}
	if req.Partition != "" {
		if e.closed[slot].Load() {
			return nil, nil, 0, ErrClosed
		}
		r = b.ring(req.Partition)
		switch {
		case r == nil:
			if b.rings.len() >= e.cfg.MaxPartitions {
				return nil, nil, 0, ErrPartitions
			}
			p.need += ringCost + nameCost(req.Partition)
		case r.readers.len() > 0:
			if _, ok := r.readers.get(g); !ok {
				p.need += cursorCost
			}
		}
	}
	if p.w != nil {
		p.need += waiterCost
	}
	if asleep {
		p.need += max(b.delta, 0)
	}
	if p.need == 0 {
		return g, r, 0, nil
	}
	if err = e.reserve(b.q.tenant, p.need); err != nil {
		return nil, nil, 0, err
	}
	return g, r, p.need, nil
}

// claim takes what the pop gets, or parks it.
func (p *pop) claim(b *body, g *group, c *cursor, wakes *Wakes) error {
	req := p.req
	batch := max(req.Batch, 1)
	l := &g.line
	if c != nil {
		l = &c.line
	}
	if w := p.w; w != nil {
		if p.waits(b, g, c, batch) {
			w.Delivery.Reset()
			b.park(w, l, req, batch)
			p.parked = true
			if b.opts.Window > 0 && !b.e.paused.Load() {
				p.window(b, l, c, wakes)
			}
			return nil
		}
		if w.Watch {
			return nil
		}
	}
	k := b.newClaim(p.d, g.name, batch, req.MaxBytes, req.Room, req.AutoAck, p.now)
	if c != nil {
		b.takeOne(c, &k)
	} else {
		b.takeAny(g, &k)
	}
	if b.opts.Window > 0 {
		b.restartTaken(g, p.d, p.now)
	}
	return b.finish(&k)
}

// waits says whether a pop that may wait has to.
func (p *pop) waits(b *body, g *group, c *cursor, batch int) bool {
	if b.e.paused.Load() {
		return true
	}
	if b.opts.Window > 0 && !p.w.Watch {
		return true // the window decides
	}
	if c != nil {
		return c.deliverable() == 0
	}
	err := b.scan(g)
	return g.ready.head == nil && err == nil
}

// window lets a pop that has just parked claim at once when its window is already full, or starts it. It is behind
// those that wait in its line, whose windows run already.
func (p *pop) window(b *body, l *line, c *cursor, wakes *Wakes) {
	if c != nil {
		b.serve(c, p.now, wakes)
	} else {
		b.serveGroup(l.g, p.now, wakes)
	}
	if p.w.woken {
		// It was answered by its own call: nobody has to be woken.
		p.parked = false
		p.w.woken = false
		for i := len(*wakes) - 1; i >= 0; i-- {
			if (*wakes)[i].Waiter == p.w {
				*wakes = append((*wakes)[:i], (*wakes)[i+1:]...)
				break
			}
		}
	}
}

// Withdraw ends a waiter's wait: gone, because nobody is there any more, or because its time is over; then a waiter
// whose window was running claims what is there (contract P5). It answers true when the waiter leaves with nothing,
// and then no call will answer it. It answers false when the waiter has its answer: when w.Woken, it is among the Wakes
// of a call, perhaps of this one, and is signalled like every other; else Withdraw itself has claimed for it.
func (e *Engine) Withdraw(now Time, w *Waiter, gone bool, wakes *Wakes) (withdrawn bool) {
	q := w.q
	if q == nil {
		return false
	}
	for {
		q.mu.Lock()
		if w.line == nil {
			q.unlock()
			return false
		}
		if q.catchUp(now, wakes) {
			break
		}
		q.unlock()
	}
	defer q.unlock()
	l := w.line
	if l == nil {
		return false
	}
	b := q.body
	now = q.at(now)
	q.used = max(q.used, now)
	if !gone && !w.Watch && b.opts.Window > 0 && !e.paused.Load() && b.reachable(l) > 0 {
		w.Err = b.claimFor(w, l.c, now)
		if l.waiters.head == w {
			b.stopWindow(l)
		}
		b.leave(w, now)
		b.restartTaken(l.g, &w.Delivery, now)
		b.serveBehind(l, now, wakes)
		return false
	}
	first := l.waiters.head == w
	if first {
		b.stopWindow(l)
	}
	b.leave(w, now)
	if first {
		b.serveBehind(l, now, wakes)
	}
	return true
}

// serveBehind serves those that stood behind the first of a line, who has left: they may claim at once, or their
// windows begin.
func (b *body) serveBehind(l *line, now Time, wakes *Wakes) {
	switch {
	case b.opts.Window <= 0:
	case l.c != nil:
		b.serve(l.c, now, wakes)
	default:
		b.serveGroup(l.g, now, wakes)
		// Those on single partitions that waited behind it have a window running.
		var behind []*cursor
		for _, it := range b.windows.items {
			b.visits++
			if x := it.x; x.g == l.g && x.c != nil {
				behind = append(behind, x.c)
			}
		}
		for _, c := range behind {
			b.stopWindow(&c.line)
			b.serve(c, now, wakes)
		}
	}
}

// reachable is how many messages are deliverable to the first of a line.
func (b *body) reachable(l *line) int {
	if l.c != nil {
		return l.c.deliverable()
	}
	return l.g.windowCount(0)
}
