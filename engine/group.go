package engine

// group is a consumer group of one queue: who shares its cursors.
type group struct {
	b    *body
	name string
	// whole: known in every partition, present and later, because it popped without naming one (contract R3).
	whole bool

	used    Time
	recent  links[group] // in body.recent, least recently used first
	cursors []*cursor
	leased  int
	parked  int

	// A whole group's rotation over the rings. A ring that holds something for the group is in ready, or its stamp is
	// above scanned.
	ready   list[cursor, inTurn]
	scanned uint64

	// skipped counts what was dropped before the group saw it, as far as its cursors have caught up (contract B5).
	// Rings without a cursor count through the body's drops since the group came to be known everywhere (from), less
	// what those drops were in rings that had a cursor (covered). See body.skipped.
	skipped       int64
	from, covered uint64

	line line // pops parked without a partition
	// While such a pop waits for its window, count is what is deliverable to the group.
	counted   bool
	count     int
	capped    bool // count is not all
	countPos  int32
	linePos   int32
	tablePos  int32
	forgotten bool
}

func (g *group) key() string   { return g.name }
func (g *group) place() *int32 { return &g.tablePos }

type inRecent struct{}

func (inRecent) links(x *group) *links[group] { return &x.recent }

func (g *group) counts(n int) {
	if g.counted {
		g.count += n
	}
}

// touchGroup notes that the group is in use.
func (b *body) touchGroup(g *group, now Time) {
	if g.forgotten {
		return
	}
	g.used = max(g.used, now)
	b.recent.moveToBack(g)
}

// addGroup makes a group known. What it costs beyond the first was reserved by the caller.
func (b *body) addGroup(name string, now Time) *group {
	g := &group{b: b, name: name, used: now, countPos: -1, linePos: -1}
	g.line = line{g: g, windowPos: -1}
	if b.groups.len() > 0 {
		b.charge(groupCost)
	}
	b.charge(nameCost(name))
	b.groups.add(g)
	b.recent.pushBack(g)
	if b.e.cfg.GroupIdle > 0 {
		b.arm(now + Time(b.e.cfg.GroupIdle))
	}
	return g
}

// makeWhole makes the group known in every partition. It visits the partitions that the group has named before, each
// of which was a pop's work; for a new group there is none.
func (g *group) makeWhole() {
	b := g.b
	g.whole = true
	g.from = b.drops
	for _, c := range g.cursors {
		b.visits++
		c.from = c.r.drops
		c.r.partial--
	}
	b.whole++
	// The group has seen nothing of the other rings: what lingers there is held again.
	b.epoch++
	b.settledN, b.settledBytes = 0, 0
	b.gen++
	b.lingering[0], b.lingering[1] = nil, nil
	for _, c := range g.cursors {
		c.turns()
		c.r.fresh()
		b.unswept(c.r)
	}
}

// addCursor gives the group a place in a ring. It stands at the base.
func (b *body) addCursor(g *group, r *ring) *cursor {
	c := &cursor{
		r: r, g: g, mark: r.drops, from: r.drops,
		heapPos: -1, caughtPos: -1, linePos: -1, groupPos: int32(len(g.cursors)),
	}
	c.line = line{g: g, c: c, windowPos: -1}
	if r.readers.len() > 0 {
		b.charge(cursorCost)
	}
	r.readers.add(c)
	g.cursors = append(g.cursors, c)
	if !g.whole {
		r.partial++
		r.joined()
	}
	return c
}

// removeCursor takes the group's place in a ring away, with its leases. The caller sweeps the ring.
func (b *body) removeCursor(c *cursor, now Time) {
	r, g := c.r, c.g
	g.skipped += b.cursorSkipped(c)
	if g.whole {
		g.covered += r.drops - c.from
	} else {
		r.partial--
	}
	if !c.atBase() {
		r.places.remove(c)
	}
	if g.ready.has(c) {
		g.ready.remove(c)
	}
	c.uncatch()
	for len(c.blocks.items) > 0 {
		k := c.blocks.items[len(c.blocks.items)-1]
		for i := 0; i < rangeSize; i++ {
			bit := uint16(1) << i
			if (k.leased|k.waiting)&bit == 0 {
				continue
			}
			b.visits++
			seq := k.first + uint64(i)
			seg := k.seg
			last := k.leased|k.waiting == bit
			k.void(seq)
			r.unpin(seg, seq, now)
			if last {
				break
			}
		}
	}
	r.readers.remove(c)
	l := len(g.cursors) - 1
	g.cursors[c.groupPos] = g.cursors[l]
	g.cursors[c.groupPos].groupPos = c.groupPos
	g.cursors[l] = nil
	g.cursors = g.cursors[:l]
	if r.readers.len() > 0 {
		b.charge(-cursorCost)
	}
}

// cursorSkipped is what the cursor skipped and has not yet added to its group.
func (b *body) cursorSkipped(c *cursor) int64 {
	if c.atBase() {
		return int64(c.r.drops - c.mark)
	}
	return 0
}

// forget is a group being forgotten (contract E6): first its cursors go, then what only it still held is settled ring
// by ring. Both are done in steps, because there may be many of either.
type forget struct {
	g     *group
	rings int // rings not yet swept, from the last; -1 while cursors are left
}

// beginForget takes the group out of the queue's sight. forgetStep does the rest.
func (b *body) beginForget(g *group, now Time) {
	g.forgotten = true
	b.groups.remove(g)
	b.recent.remove(g)
	if b.groups.len() > 0 {
		b.charge(-groupCost)
	}
	b.charge(-nameCost(g.name))
	b.e.groupsForgotten.Add(1)
	b.forgets = append(b.forgets, forget{g: g, rings: -1})
	b.arm(now)
}

// forgetStep does up to limit visits of the work on groups being forgotten and returns what is left of limit.
func (b *body) forgetStep(now Time, limit int) int {
	for len(b.forgets) > 0 && limit > 0 {
		f := &b.forgets[0]
		if f.rings < 0 {
			for len(f.g.cursors) > 0 && limit > 0 {
				c := f.g.cursors[len(f.g.cursors)-1]
				limit -= 1 + c.leased + c.waitingN
				r := c.r
				b.removeCursor(c, now)
				if !f.g.whole {
					b.sweepForgotten(r, now)
				}
			}
			if len(f.g.cursors) > 0 {
				return 0
			}
			if !f.g.whole {
				b.dropForget()
				continue
			}
			b.whole--
			f.rings = b.rings.len()
		}
		f.rings = min(f.rings, b.rings.len())
		for f.rings > 0 && limit > 0 {
			f.rings--
			limit--
			b.visits++
			b.sweepForgotten(b.rings.items[f.rings], now)
		}
		if f.rings > 0 {
			return 0
		}
		b.dropForget()
	}
	return limit
}

func (b *body) dropForget() {
	b.forgets[0] = forget{}
	b.forgets = b.forgets[1:]
	if len(b.forgets) == 0 {
		b.forgets = nil
	}
}

// sweepForgotten settles what only a forgotten group still held. With the last group gone that is all there is.
func (b *body) sweepForgotten(r *ring, now Time) {
	if r.known() > 0 {
		r.sweep(now, sweepLimit)
		return
	}
	r.fresh()
	r.closing = r.tail
	r.sweepTo(r.closing, now, sweepLimit)
}
