package engine

const (
	never  = 1<<63 - 1
	second = Time(1e9)
	// stepLimit is how many things are done under one hold of a queue's lock before it is given up (contract R5).
	stepLimit = 1000
)

// body is what a queue has while it is in use: its rings, groups, leases and parked pops. A queue that holds nothing
// and that nobody waits for gives it up and keeps a few bytes instead (see rest.go). All of it is guarded by the
// queue's lock.
type body struct {
	e    *Engine
	q    *queue
	opts *Options

	rings  table[string, *ring]
	last   *ring // the ring used last
	groups table[string, *group]
	whole  int                   // groups known in the whole queue, with those being forgotten
	recent list[group, inRecent] // groups, least recently used first

	held         int // messages held, with those that linger
	bytes        int64
	settledN     int // of held: settled by every group
	settledBytes int64
	drops        uint64 // messages dropped by bounds or ttl
	dropped      Drops

	clock    Time   // the arrival of the last push; every push has its own
	arrivals uint64 // of waiters
	parked   int

	heads     heap[*ring, byHead] // rings that hold something, by their oldest message
	roster    roster
	leases    heap[*block, byDue]
	windows   heap[*line, byWindow]
	lines     []*group // groups with pops parked on the whole queue
	counted   []*group // of those: with a window
	idleRings list[ring, inIdle]

	// Settled messages of generation gen-1 and before are reclaimed when lingerDue comes, which begins the next one:
	// each lingers between one and two seconds. lingering lists the rings that have some, of this and the last one.
	gen       uint32
	lingerDue Time
	lingering [2][]*ring
	epoch     uint64 // grows when a group joins the whole queue

	forgets []forget
	sweeps  []*ring                 // rings whose sweep was left unfinished
	trash   []table[uint64, *block] // lease blocks of rings that were emptied
	spare   *block                  // for the next lease block
	touched []*cursor               // cursors that got something deliverable and were not served yet

	due       Time // when the timer must look
	delta     int64
	settled   links[body] // in shard.settled; guarded by the shard's lock
	isSettled bool        // was put there

	visits int // items looked at, for the tests of contract R5
}

func newBody(e *Engine, q *queue) *body {
	return &body{e: e, q: q, opts: q.options(), due: never, lingerDue: never}
}

// ring returns the ring of a partition, or nil.
func (b *body) ring(name string) *ring {
	if r := b.last; r != nil && r.name == name {
		return r
	}
	r, ok := b.rings.get(name)
	if !ok {
		return nil
	}
	b.last = r
	return r
}

// charge adds to the footprint. flush carries it to the budgets when the queue is unlocked.
func (b *body) charge(n int64) { b.delta += n }

func (b *body) retryLimit() int { return max(b.opts.RetryLimit, 1) }

// arm makes the timer look at the queue at due, or before.
func (b *body) arm(due Time) {
	if due < b.due {
		b.due = due
	}
}

func (b *body) armTTL() {
	if b.opts.TTL > 0 && b.heads.len() > 0 {
		b.arm(b.heads.min().headAt + Time(b.opts.TTL))
	}
}

// lingers notes that r has messages that are settled.
func (b *body) lingers(r *ring, now Time) {
	if r.listed != b.gen+1 {
		r.listed = b.gen + 1
		b.lingering[1] = append(b.lingering[1], r)
	}
	if b.lingerDue == never {
		b.lingerDue = now + second
	}
	b.arm(b.lingerDue)
}

// touch notes that c may have something deliverable. serveTouched hands it on.
func (b *body) touch(c *cursor) {
	if !c.touched {
		c.touched = true
		b.touched = append(b.touched, c)
	}
}

func (b *body) serveTouched(now Time, wakes *Wakes) {
	// All of it is deliverable before the first waiter is served: one answer takes what came from several rings.
	for _, c := range b.touched {
		c.touched = false
		if c.tablePos >= 0 { // else its ring or group is gone
			c.turns()
		}
	}
	for i, c := range b.touched {
		b.touched[i] = nil
		if c.tablePos >= 0 {
			b.serve(c, now, wakes)
		}
	}
	b.touched = b.touched[:0]
}

// unswept notes that a ring's sweep is to go on.
func (b *body) unswept(r *ring) {
	b.sweeps = append(b.sweeps, r)
	b.arm(b.clock)
}

// ringIdle puts a ring that became empty among the idle ones.
func (b *body) ringIdle(r *ring) {
	r.idleAt = b.q.seen
	if b.idleRings.has(r) {
		b.idleRings.moveToBack(r)
	} else {
		b.idleRings.pushBack(r)
	}
	b.arm(r.idleAt + Time(b.e.cfg.ImplicitIdle))
}

// run does what is due, up to stepLimit things, and says whether it is all done. An operation runs it first: what was
// due before it has happened before it.
func (b *body) run(now Time, wakes *Wakes) bool {
	left := b.step(now, stepLimit)
	b.serveTouched(now, wakes)
	if left > 0 {
		left = b.runWindows(now, left, wakes)
	}
	if left <= 0 {
		b.due = min(b.due, now)
		return false
	}
	b.due = b.nextDue()
	return true
}

func (b *body) step(now Time, left int) int {
	// What an emptied ring left behind goes first: its lease blocks mean nothing any more.
	for left > 0 && len(b.trash) > 0 {
		left = b.burn(left)
	}
	// Then ttl: a message whose time is over is not delivered again.
	if ttl := Time(b.opts.TTL); ttl > 0 {
		for left > 0 && b.heads.len() > 0 && b.heads.minKey()+ttl <= now {
			left--
			if b.heads.min().dropHead() {
				b.dropped.TTL++
				b.e.drops.ttl.Add(1)
			}
		}
	}
	for left > 0 && b.leases.len() > 0 && b.leases.minKey() <= now {
		left -= 1 + b.leases.min().expire(now)
	}
	for left > 0 && len(b.sweeps) > 0 {
		last := len(b.sweeps) - 1
		r := b.sweeps[last]
		b.sweeps[last] = nil
		b.sweeps = b.sweeps[:last]
		left--
		if r.tablePos >= 0 && !r.sweep(now, left) {
			return 0
		}
	}
	if left > 0 && len(b.forgets) > 0 {
		left = b.forgetStep(now, left)
	}
	for left > 0 && b.lingerDue <= now {
		left = b.nextGeneration(now, left)
	}
	if idle := Time(b.e.cfg.GroupIdle); idle > 0 {
		for left > 0 && b.recent.head != nil && b.recent.head.used+idle <= now {
			g := b.recent.head
			left--
			if g.parked > 0 || g.leased > 0 {
				g.used = now
				b.recent.moveToBack(g)
				continue
			}
			b.beginForget(g, now)
			left = b.forgetStep(now, left)
		}
	}
	for left > 0 && b.idleRings.head != nil && b.idleRings.head.idleAt+Time(b.e.cfg.ImplicitIdle) <= now {
		r := b.idleRings.head
		left -= 1 + r.readers.len()
		if len(r.lines) > 0 {
			r.idleAt = now
			b.idleRings.moveToBack(r)
			continue
		}
		b.removeRing(r, now)
	}
	return left
}

// nextGeneration reclaims what was settled before the last generation began, and begins a new one.
func (b *body) nextGeneration(now Time, left int) int {
	old := b.lingering[0]
	for len(old) > 0 && left > 0 {
		r := old[len(old)-1]
		left--
		if r.tablePos >= 0 && r.epoch == b.epoch {
			left = r.reclaim(b.gen-1, left)
			if left <= 0 {
				b.lingering[0] = old
				return 0
			}
		}
		old[len(old)-1] = nil
		old = old[:len(old)-1]
	}
	if left <= 0 {
		b.lingering[0] = old
		return 0
	}
	b.lingering[0], b.lingering[1] = b.lingering[1], old
	b.gen++
	b.lingerDue = never
	if len(b.lingering[0]) > 0 {
		b.lingerDue = now + second
	}
	return left
}

func (b *body) runWindows(now Time, left int, wakes *Wakes) int {
	for left > 0 && b.windows.len() > 0 && b.windows.minKey() <= now {
		left--
		l := b.windows.min()
		if b.e.paused.Load() {
			b.stopWindow(l)
			continue
		}
		if c := l.c; c != nil {
			if c.deliverable() == 0 {
				b.stopWindow(l)
				continue
			}
			b.answer(l.waiters.head, c, now, wakes)
			b.serve(c, now, wakes)
			continue
		}
		if l.g.windowCount(0) <= 0 {
			b.stopWindow(l)
			continue
		}
		b.answer(l.waiters.head, nil, now, wakes)
		b.serveGroup(l.g, now, wakes)
	}
	return left
}

// serveGroup serves the pops that a group has parked on the whole queue, from the rings in turn.
func (b *body) serveGroup(g *group, now Time, wakes *Wakes) {
	for n := -1; g.line.waiters.n > 0 && b.parked != n; {
		n = b.parked
		err := b.scan(g)
		if c := g.ready.head; c != nil {
			b.serve(c, now, wakes)
		} else if err != nil {
			b.refuse(&g.line, err, now, wakes)
		}
	}
}

// refuse answers all of a line: nobody is left waiting for something that is there and that he can't have.
func (b *body) refuse(l *line, err error, now Time, wakes *Wakes) {
	for l.waiters.head != nil {
		w := l.waiters.head
		w.Err = err
		b.wake(w, now, wakes)
	}
}

// nextDue is when the timer must look next.
func (b *body) nextDue() Time {
	due := Time(never)
	if len(b.trash) > 0 || len(b.sweeps) > 0 || len(b.forgets) > 0 {
		return b.clock
	}
	if b.opts.TTL > 0 && b.heads.len() > 0 {
		due = min(due, b.heads.minKey()+Time(b.opts.TTL))
	}
	if b.leases.len() > 0 {
		due = min(due, b.leases.minKey())
	}
	if b.windows.len() > 0 {
		due = min(due, b.windows.minKey())
	}
	if b.lingerDue < due {
		due = b.lingerDue
	}
	if g := b.recent.head; g != nil && b.e.cfg.GroupIdle > 0 {
		due = min(due, g.used+Time(b.e.cfg.GroupIdle))
	}
	if r := b.idleRings.head; r != nil {
		due = min(due, r.idleAt+Time(b.e.cfg.ImplicitIdle))
	}
	if b.resting() {
		due = min(due, b.q.used+second)
	}
	return due
}

// burn frees lease blocks of emptied rings, up to limit.
func (b *body) burn(limit int) int {
	last := len(b.trash) - 1
	t := &b.trash[last]
	for len(t.items) > 0 && limit > 0 {
		k := t.items[len(t.items)-1]
		t.items[len(t.items)-1] = nil
		t.items = t.items[:len(t.items)-1]
		limit--
		if k.duePos >= 0 {
			b.leases.remove(k)
		}
		k.recycle(b)
	}
	if len(t.items) == 0 {
		b.trash[last] = table[uint64, *block]{}
		b.trash = b.trash[:last]
		if last == 0 {
			b.trash = nil
		}
	}
	return limit
}
