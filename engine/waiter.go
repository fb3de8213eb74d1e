package engine

// Waiter is a pop that is parked: a record in the engine, without a goroutine. The caller makes it, hands it to Park
// and may use it again after it was withdrawn or answered.
type Waiter struct {
	// Owner is the caller's: how to reach who waits.
	Owner any
	// Watch asks only to be told that something is deliverable. Nothing is claimed for it.
	Watch bool
	// Delivery is the answer. It belongs to the waiter's owner once the waiter was answered.
	Delivery Delivery
	// Moved is set when the waiter was answered without a delivery because its partition is not served here any more.
	Moved bool
	// Err is set when the waiter was answered with a refusal, ErrLeases, instead of a delivery.
	Err error

	q        *queue // set by Park alone
	line     *line  // guarded by the queue's lock; nil: not parked
	link     links[Waiter]
	arrival  uint64
	batch    int
	maxBytes int
	room     Room
	autoAck  bool
	woken    bool
}

// Woken says that a call has put the waiter among its Wakes: its owner is signalled once. It may be asked after
// Withdraw has returned false.
func (w *Waiter) Woken() bool { return w.woken }

type inLine struct{}

func (inLine) links(x *Waiter) *links[Waiter] { return &x.link }

// line is the pops parked by one group on one partition (c is set) or on the whole queue, longest waiting first.
type line struct {
	g       *group
	c       *cursor
	waiters list[Waiter, inLine]
	// windowEnd is when the first waiter's window is over. It runs while windowPos is not negative.
	windowEnd Time
	windowPos int32
}

// byWindow places lines by when their window is over.
type byWindow struct{}

func (byWindow) at(x *line) *int32 { return &x.windowPos }

// park puts w at the end of its line.
func (b *body) park(w *Waiter, l *line, req *PopRequest, batch int) {
	w.q, w.line = b.q, l
	w.batch, w.maxBytes, w.autoAck, w.room = batch, req.MaxBytes, req.AutoAck, req.Room
	w.Moved, w.Err, w.woken = false, nil, false
	b.arrivals++
	w.arrival = b.arrivals
	l.waiters.pushBack(w)
	if l.waiters.n == 1 {
		b.opened(l)
	}
	l.g.parked++
	b.parked++
	b.e.waiters.Add(1)
	b.charge(waiterCost)
}

// opened and closed keep the lists of who has parked pops, which is all that a push looks at.
func (b *body) opened(l *line) {
	if c := l.c; c != nil {
		c.linePos = int32(len(c.r.lines))
		c.r.lines = append(c.r.lines, c)
		return
	}
	g := l.g
	g.linePos = int32(len(b.lines))
	b.lines = append(b.lines, g)
	if b.opts.Window > 0 {
		b.startCount(g)
	}
}

func (b *body) closed(l *line) {
	b.stopWindow(l)
	if c := l.c; c != nil {
		last := len(c.r.lines) - 1
		c.r.lines[c.linePos] = c.r.lines[last]
		c.r.lines[c.linePos].linePos = c.linePos
		c.r.lines[last] = nil
		c.r.lines = c.r.lines[:last]
		c.linePos = -1
		return
	}
	g := l.g
	last := len(b.lines) - 1
	b.lines[g.linePos] = b.lines[last]
	b.lines[g.linePos].linePos = g.linePos
	b.lines[last] = nil
	b.lines = b.lines[:last]
	g.linePos = -1
	b.stopCount(g)
}

// leave takes w out of its line.
func (b *body) leave(w *Waiter, now Time) {
	l := w.line
	l.waiters.remove(w)
	w.line = nil
	l.g.parked--
	b.parked--
	b.touchGroup(l.g, now)
	b.e.waiters.Add(-1)
	b.charge(-waiterCost)
	if l.waiters.n == 0 {
		b.closed(l)
	}
}

// wake leaves w answered.
func (b *body) wake(w *Waiter, now Time, wakes *Wakes) {
	b.leave(w, now)
	w.woken = true
	*wakes = append(*wakes, Wake{w})
}

// countLimit is how many messages a count looks for: no batch is larger.
const countLimit = 10_000

// startCount and stopCount keep the number of messages deliverable to a group whose partition-less pops wait for a
// window. Counting ends at countLimit messages, and begins anew when so many were not enough.
func (b *body) startCount(g *group) {
	if g.counted {
		return
	}
	g.counted, g.count = true, 0
	g.countPos = int32(len(b.counted))
	b.counted = append(b.counted, g)
	b.recount(g)
}

func (b *body) recount(g *group) {
	g.count, g.capped = 0, false
	for c := g.ready.head; c != nil; c = c.turn.next {
		b.visits++
		g.count += c.deliverable()
		if g.count >= countLimit {
			g.capped = true
			return
		}
	}
	for r := b.roster.next(g.scanned); r != nil; r = b.roster.next(r.stamp) {
		b.visits++
		c, ok := r.readers.get(g)
		switch {
		case !ok:
			g.count += r.heldN
		case !g.ready.has(c):
			g.count += c.deliverable()
		}
		if g.count >= countLimit {
			g.capped = true
			return
		}
	}
}

func (b *body) stopCount(g *group) {
	if !g.counted {
		return
	}
	last := len(b.counted) - 1
	b.counted[g.countPos] = b.counted[last]
	b.counted[g.countPos].countPos = g.countPos
	b.counted[last] = nil
	b.counted = b.counted[:last]
	g.counted, g.count, g.countPos = false, 0, -1
}

func (b *body) stopWindow(l *line) {
	if l.windowPos >= 0 {
		b.windows.remove(l)
	}
}

// ripe says whether the first waiter of l may claim now, and otherwise starts its window (contract P5). n is how many
// messages are deliverable to it.
func (b *body) ripe(l *line, n int, now Time) bool {
	w := l.waiters.head
	if b.opts.Window <= 0 || w.Watch {
		return true
	}
	want := b.opts.WindowCount
	if want <= 0 || want > w.batch {
		want = w.batch
	}
	if n >= want || l.windowPos >= 0 && l.windowEnd <= now {
		return true
	}
	if l.windowPos < 0 {
		l.windowEnd = now + Time(b.opts.Window)
		b.windows.push(l, l.windowEnd)
		b.arm(l.windowEnd)
	}
	return false
}

// restartWindows begins the windows of a group's lines anew after someone else took messages.
func (b *body) restartWindows(g *group, c *cursor, now Time) {
	if b.opts.Window <= 0 {
		return
	}
	for _, l := range [...]*line{&g.line, &c.line} {
		b.stopWindow(l)
		if l.waiters.n == 0 {
			continue
		}
		n := c.deliverable()
		if l.c == nil {
			n = g.count
		}
		if n > 0 {
			b.ripe(l, n, now)
		}
	}
}

// restartTaken does it for every ring that a delivery came from.
func (b *body) restartTaken(g *group, d *Delivery, now Time) {
	var last uint64
	for i := range d.Messages {
		m := &d.Messages[i]
		if i > 0 && m.Incarnation == last {
			continue
		}
		last = m.Incarnation
		if r, ok := b.rings.get(m.Partition); ok {
			if c, ok := r.readers.get(g); ok {
				b.restartWindows(g, c, now)
			}
		}
	}
}

// lapseTaken is lapse for the rings that w's delivery came from.
func (b *body) lapseTaken(w *Waiter) {
	for i := range w.Delivery.Messages {
		if r, ok := b.rings.get(w.Delivery.Messages[i].Partition); ok && (i == 0 || w.Delivery.Messages[i-1].Incarnation != r.incarnation) {
			b.lapse(r)
		}
	}
}

// lapse ends the windows of those who now wait for nothing in the ring: what began them was dropped.
func (b *body) lapse(r *ring) {
	if b.windows.len() == 0 {
		return
	}
	for _, c := range r.lines {
		if c.deliverable() == 0 {
			b.stopWindow(&c.line)
		}
	}
	for _, g := range b.counted {
		if g.count <= 0 {
			b.stopWindow(&g.line)
		}
	}
}

// serve hands what is deliverable to g in c's ring to those who wait for it, longest waiting first (contract P2).
func (b *body) serve(c *cursor, now Time, wakes *Wakes) {
	if b.e.paused.Load() {
		return
	}
	g := c.g
	for {
		n := c.deliverable()
		if n == 0 {
			return
		}
		named, whole := c.line.waiters.head, g.line.waiters.head
		if !g.whole {
			whole = nil
		}
		switch {
		case named == nil && whole == nil:
			return
		case whole == nil || named != nil && named.arrival < whole.arrival:
			if !b.ripe(&c.line, n, now) {
				b.waitBehind(&g.line, &c.line, g.windowCount(n), now)
				return
			}
			b.answer(named, c, now, wakes)
		default:
			if !b.ripe(&g.line, g.windowCount(n), now) {
				b.waitBehind(&c.line, &g.line, n, now)
				return
			}
			b.answer(whole, nil, now, wakes)
		}
	}
}

// waitBehind has a line whose first waiter stands behind ahead's wait too: for its own window, or, when it could claim
// if only it were first, as long as the one ahead.
func (b *body) waitBehind(l, ahead *line, n int, now Time) {
	if l.waiters.n == 0 || n <= 0 || !b.ripe(l, n, now) || l.windowPos >= 0 {
		return
	}
	l.windowEnd = ahead.windowEnd
	b.windows.push(l, l.windowEnd)
	b.arm(l.windowEnd)
}

func (g *group) windowCount(n int) int {
	if !g.counted {
		return n
	}
	if g.capped && g.count < countLimit {
		g.b.recount(g)
	}
	return g.count
}

// answer claims for the first waiter of a line and wakes it. c is nil for a waiter on the whole queue.
func (b *body) answer(w *Waiter, c *cursor, now Time, wakes *Wakes) {
	l := w.line
	if !w.Watch {
		w.Err = b.claimFor(w, c, now)
	}
	b.stopWindow(l)
	if b.windows.len() > 0 {
		b.lapseTaken(w)
	}
	b.wake(w, now, wakes)
}

func (b *body) claimFor(w *Waiter, c *cursor, now Time) error {
	g := w.line.g
	k := b.newClaim(&w.Delivery, g.name, w.batch, w.maxBytes, w.room, w.autoAck, now)
	if c != nil {
		b.takeOne(c, &k)
	} else {
		b.takeAny(g, &k)
	}
	return b.finish(&k)
}
