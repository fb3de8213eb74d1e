package engine

import "math/bits"

// Peek shows what a Pop would hand out first, and claims and creates nothing: at most one message. d must be empty.
func (e *Engine) Peek(now Time, req *PopRequest, d *Delivery, wakes *Wakes) error {
	slot := 0
	if req.Partition != "" {
		slot = e.cfg.SlotOf(req.Tenant, req.Queue, req.Partition)
		if e.closed[slot].Load() {
			return ErrClosed
		}
	}
	q := e.enter(req.Tenant, req.Queue, now, wakes)
	if q == nil {
		return nil
	}
	defer q.unlock()
	now = q.at(now)
	b := q.body
	if b == nil {
		return nil
	}
	name := req.Group
	if name == "" {
		name = QueueMode
	}
	g, _ := b.groups.get(name)
	var r *ring
	if req.Partition != "" {
		if e.closed[slot].Load() {
			return ErrClosed
		}
		r, _ = b.rings.get(req.Partition)
	} else {
		r = b.firstReady(g)
	}
	if r == nil || r.heldN == 0 {
		return nil
	}
	k := b.newClaim(d, name, 1, 0, nil, true, now)
	var c *cursor
	if g != nil {
		c, _ = r.readers.get(g)
	}
	switch {
	case c == nil || c.waitingN == 0 && c.atBase():
		k.add(&cursor{r: r}, r.base, 1, r.first, &r.first.entries[r.base-r.first.first])
	case c.waitingN > 0:
		w := c.waiting.min()
		i := bits.TrailingZeros16(w.waiting)
		seq := w.first + uint64(i)
		k.add(c, seq, int(w.attempts[i])+1, w.seg, &w.seg.entries[seq-w.seg.first])
	case c.unseen() > 0:
		s := r.locate(c.seg)
		i := -1
		for ; s != nil; s = s.next {
			if c.pos >= s.end() {
				continue
			}
			if i = s.nextHeld(int(max(c.pos, s.first) - s.first)); i >= 0 {
				break
			}
		}
		if s != nil {
			k.add(c, s.first+uint64(i), 1, s, &s.entries[i])
		}
	}
	d.Messages = d.Messages[:len(d.Messages):len(d.Messages)]
	for i := range d.Messages {
		d.Messages[i].Payload = d.buf[d.Messages[i].off:]
	}
	return nil
}

// firstReady is the ring that a partition-less pop of the group would look at first, or nil. The group may be unknown.
func (b *body) firstReady(g *group) *ring {
	var after uint64
	if g != nil && g.whole {
		g.prune()
		if g.ready.head != nil {
			return g.ready.head.r
		}
		after = g.scanned
	}
	for {
		r := b.roster.next(after)
		if r == nil {
			return nil
		}
		if g == nil {
			return r
		}
		if c, ok := r.readers.get(g); !ok || c.deliverable() > 0 {
			return r
		}
		after = r.stamp
	}
}
