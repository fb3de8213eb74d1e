package engine

// A queue that holds nothing and that nobody waits for is brought to rest after a second: its body is replaced by a
// few bytes that say which rings and groups it had. So a million idle inboxes cost little (contract B6), and
// everything else can be written for queues that have a body.

// restLimit is how many rings, and how many groups, a queue at rest can have. One with more keeps its body.
const restLimit = 8

// rest is what a queue at rest keeps of its body.
type rest struct {
	rings  []coldRing
	groups []coldGroup
	drops  *Drops // nil: none
	due    Time
}

// coldRing is an empty ring.
type coldRing struct {
	name        string
	incarnation uint64
	tail        uint64
	idleAt      Time
}

// coldGroup is a group that has seen everything and holds nothing.
type coldGroup struct {
	name    string
	used    Time
	skipped int64
	whole   bool
	rings   uint8 // bit i: known in rings[i]
}

// resting says whether the queue can be brought to rest.
func (b *body) resting() bool {
	return b.held == 0 && b.parked == 0 && b.leases.len() == 0 &&
		b.rings.len() <= restLimit && b.groups.len() <= restLimit &&
		len(b.forgets)+len(b.sweeps)+len(b.trash)+len(b.touched) == 0
}

// settle brings the queue to rest.
func (q *queue) settle() {
	b := q.body
	c := &rest{due: never}
	cost := queueCost + nameCost(q.name)
	idle := Time(q.e.cfg.ImplicitIdle)
	if n := b.rings.len(); n > 0 {
		c.rings = make([]coldRing, 0, n)
		// All are empty and so in the list, longest idle first, as they will be listed again.
		for r := b.idleRings.head; r != nil; r = r.idle.next {
			c.rings = append(c.rings, coldRing{r.name, r.incarnation, r.tail, r.idleAt})
			cost += coldRingCost
			if r.name != DefaultPartition {
				cost += nameCost(r.name)
			}
			if q.declared != nil || q.used > r.idleAt+second {
				c.due = min(c.due, r.idleAt+idle)
			}
		}
	}
	if n := b.groups.len(); n > 0 {
		c.groups = make([]coldGroup, n)
		// Least recently used first, as they will be listed again.
		i := 0
		for g := b.recent.head; g != nil; g = g.recent.next {
			k := coldGroup{name: g.name, used: g.used, skipped: b.skipped(g), whole: g.whole}
			for _, x := range g.cursors {
				k.rings |= 1 << c.place(x.r.name)
			}
			c.groups[i] = k
			i++
			cost += coldGroupCost
			if g.name != QueueMode {
				cost += nameCost(g.name)
			}
			if d := Time(q.e.cfg.GroupIdle); d > 0 && (q.declared != nil || d < idle) {
				c.due = min(c.due, g.used+d)
			}
		}
	}
	if b.dropped != (Drops{}) {
		c.drops = &Drops{b.dropped.Bounds, b.dropped.TTL, b.dropped.Retry}
	}
	if b.isSettled {
		s := q.e.shardOf(q.hash)
		s.mu.Lock()
		if s.settled.has(b) {
			s.settled.remove(b)
		}
		s.mu.Unlock()
	}
	q.body, q.rest = nil, c
	b.delta = 0
	q.charge(cost - q.charged)
}

// place is the ring's index in rings.
func (c *rest) place(ring string) int {
	for i := range c.rings {
		if c.rings[i].name == ring {
			return i
		}
	}
	panic("engine: a cursor in a ring that is not there")
}

// rouse gives the queue a body again.
func (q *queue) rouse() {
	b := newBody(q.e, q)
	q.body = b
	b.clock = q.seen
	b.delta = queueCost + nameCost(q.name) + bodyCost - q.charged
	c := q.rest
	q.rest = nil
	if c == nil {
		return
	}
	if c.drops != nil {
		b.dropped = *c.drops
	}
	for _, k := range c.rings {
		r := b.makeRing(k.name, q.e.cfg.SlotOf(q.tenant.name, q.name, k.name), k.incarnation)
		r.tail, r.base, r.low = k.tail, k.tail, k.tail
		r.idleAt = k.idleAt
	}
	for _, k := range c.groups {
		g := b.addGroup(k.name, k.used)
		g.skipped = k.skipped
		g.whole = k.whole
		if k.whole {
			b.whole++
		}
		for i, r := range b.rings.items {
			if k.rings&(1<<i) != 0 {
				b.addCursor(g, r)
			}
		}
	}
}

func (q *queue) restDue() Time {
	if q.rest == nil {
		return never
	}
	return q.rest.due
}

// makeRing adds an empty ring.
func (b *body) makeRing(name string, slot int, incarnation uint64) *ring {
	r := &ring{
		b: b, name: name, slot: slot, incarnation: incarnation,
		hint: firstChunkSize, epoch: b.epoch, roster: -1, headPos: -1,
	}
	b.charge(ringCost + nameCost(name))
	b.rings.add(r)
	b.ringIdle(r)
	return r
}
