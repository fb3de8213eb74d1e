package engine

// Push appends messages to a ring, all or none (contract B1), and hands them to who waits for them. It creates the
// queue and the partition when there is none (E1). It returns the ring's incarnation. Without messages it does
// nothing and returns 0.
func (e *Engine) Push(now Time, req *PushRequest, wakes *Wakes) (incarnation uint64, err error) {
	if len(req.Messages) == 0 {
		return 0, nil
	}
	p := push{e: e, now: now, req: req, partition: req.Partition}
	if p.partition == "" {
		p.partition = DefaultPartition
	}
	p.slot = e.cfg.SlotOf(req.Tenant, req.Queue, p.partition)
	for i := range req.Messages {
		n := int64(len(req.Messages[i].Payload))
		p.bytes += n
		p.largest = max(p.largest, n)
	}
	incarnation, err = p.do(wakes)
	if err == ErrBudget {
		e.relieve(now, p.need)
		incarnation, err = p.do(wakes)
	}
	if err == nil {
		e.pushed.Add(int64(len(req.Messages)))
	}
	return incarnation, err
}

// push is a push at work.
type push struct {
	e         *Engine
	now       Time
	req       *PushRequest
	partition string
	slot      int
	bytes     int64 // payload bytes of the batch
	largest   int64 // of its largest message
	need      int64 // footprint asked for
}

func (p *push) do(wakes *Wakes) (uint64, error) {
	e := p.e
	if e.closed[p.slot].Load() {
		return 0, ErrClosed
	}
	q, created, err := e.enterOrCreate(p.req.Tenant, p.req.Queue, p.now, wakes)
	if err != nil {
		return 0, err
	}
	p.now = q.at(p.now)
	slept := q.body == nil
	b := q.open()
	r, reserved, err := p.admit(b, created || slept)
	if err != nil {
		q.abandon(created, slept)
		return 0, err
	}
	q.used = max(q.used, p.now)
	incarnation := p.put(b, r, wakes)
	q.reserved = reserved
	q.unlock()
	return incarnation, nil
}

// abandon undoes what a refused call had to make to know that it is refused, and gives the lock up.
func (q *queue) abandon(created, slept bool) {
	switch {
	case created:
		q.e.remove(q)
	case slept && q.body.resting():
		q.settle()
	}
	q.unlock()
}

// admit decides whether the batch may go in (contract B1 to B4) and returns its ring, nil when it has to be made, and
// the footprint that was reserved for it.
func (p *push) admit(b *body, asleep bool) (r *ring, reserved int64, err error) {
	e, o := p.e, b.opts
	if e.closed[p.slot].Load() {
		return nil, 0, ErrClosed
	}
	n := len(p.req.Messages)
	if p.largest > o.MaxBytes {
		return nil, 0, ErrNeverFits
	}
	r = b.ring(p.partition)
	if r == nil && b.rings.len() >= e.cfg.MaxPartitions {
		return nil, 0, ErrPartitions
	}
	if o.Policy == Reject {
		if int64(n) > o.MaxLength || p.bytes > o.MaxBytes {
			return nil, 0, ErrNeverFits
		}
		// What is settled makes room at once (B2).
		if int64(b.held-b.settledN+n) > o.MaxLength || b.bytes-b.settledBytes+p.bytes > o.MaxBytes {
			return nil, 0, ErrFull
		}
	}
	p.need = p.cost(r)
	if r == nil {
		p.need += ringCost + nameCost(p.partition)
	}
	if asleep {
		p.need += max(b.delta, 0)
	}
	if p.need == 0 {
		return r, 0, nil
	}
	err = e.reserve(b.q.tenant, p.need)
	if err != nil && o.Policy == DropOldest {
		// The outer budgets are asked for the net growth (B3).
		net := p.bytes + int64(n)*messageCost - b.droppable(n, p.bytes)
		if r == nil {
			net += ringCost + nameCost(p.partition)
		}
		if r == nil || r.last == nil || r.last.full() {
			net += segmentCost + firstEntries*entryCost + blockCost + firstChunkSize + chunkCost
		}
		if net <= 0 {
			return r, 0, nil
		} else if e.reserve(b.q.tenant, net) == nil {
			return r, net, nil
		}
	}
	if err != nil {
		return nil, 0, err
	}
	return r, p.need, nil
}

// cost is the footprint that the batch adds to the ring, before anything is dropped or reclaimed for it.
func (p *push) cost(r *ring) (cost int64) {
	var tail uint64
	hint, room, entries, capacity, left := firstChunkSize, 0, 0, 0, 0
	if r != nil {
		tail, hint = r.tail, r.hint
		if s := r.last; s != nil {
			entries, capacity, room = len(s.entries), cap(s.entries), s.room()
			if c := len(s.chunks); c > 0 {
				left = cap(s.chunks[c-1].buf) - len(s.chunks[c-1].buf)
			}
		}
	}
	for i := range p.req.Messages {
		n := len(p.req.Messages[i].Payload)
		if entries == room {
			cost += segmentCost
			entries, capacity, left = 0, 0, 0
			room = segmentSize - int(tail%segmentSize)
		}
		if entries == capacity {
			next := grownEntries(capacity, room)
			cost += int64(next-capacity) * entryCost
			capacity = next
		}
		if tail%rangeSize == 0 || entries == 0 {
			cost += blockCost
		}
		switch {
		case n >= bigPayload:
			cost += bigCost(n)
		case left < n:
			size := chunkFor(n, hint)
			hint = min(hint*4, chunkSize)
			cost += int64(size) + chunkCost
			left = size - n
		default:
			left -= n
		}
		entries++
		tail++
	}
	return cost
}

// droppable is what dropOldest will give back of the footprint for n messages of so many bytes, counted per message.
func (b *body) droppable(n int, bytes int64) (back int64) {
	overN := int64(b.held+n) - b.opts.MaxLength
	overBytes := b.bytes + bytes - b.opts.MaxBytes
	b.oldest(func(e *entry) bool {
		if overN <= 0 && overBytes <= 0 {
			return false
		}
		overN--
		overBytes -= int64(e.size)
		back += int64(e.size) + messageCost
		return true
	})
	return back
}

// oldest visits the held messages by order of arrival, whichever ring holds them, until visit says no.
func (b *body) oldest(visit func(*entry) bool) {
	type place struct {
		r   *ring
		s   *segment
		i   int
		pos int // of r in b.heads while its first message is meant, else -1
	}
	if b.heads.len() == 0 {
		return
	}
	at := func(p place) Time { return p.s.entries[p.i].at }
	first := func(pos int) place {
		r := b.heads.items[pos].x
		return place{r, r.first, int(r.base - r.first.first), pos}
	}
	// A small heap of candidates: a ring's next message, and the children of a ring in heads once it was visited.
	todo := []place{first(0)}
	add := func(p place) {
		todo = append(todo, p)
		for i := len(todo) - 1; i > 0 && at(todo[i]) < at(todo[(i-1)/2]); i = (i - 1) / 2 {
			todo[i], todo[(i-1)/2] = todo[(i-1)/2], todo[i]
		}
	}
	for len(todo) > 0 {
		p := todo[0]
		last := len(todo) - 1
		todo[0] = todo[last]
		todo = todo[:last]
		for i := 0; ; {
			c := 2*i + 1
			if c >= last {
				break
			}
			if c+1 < last && at(todo[c+1]) < at(todo[c]) {
				c++
			}
			if at(todo[i]) <= at(todo[c]) {
				break
			}
			todo[i], todo[c] = todo[c], todo[i]
			i = c
		}
		b.visits++
		if !visit(&p.s.entries[p.i]) {
			return
		}
		if p.pos >= 0 {
			for c := 2*p.pos + 1; c <= 2*p.pos+2 && c < b.heads.len(); c++ {
				add(first(c))
			}
		}
		next := place{r: p.r, s: p.s, i: p.s.nextHeld(p.i + 1), pos: -1}
		for next.i < 0 && next.s.next != nil {
			next.s = next.s.next
			next.i = next.s.nextHeld(0)
		}
		if next.i >= 0 {
			add(next)
		}
	}
}

// put does what was admitted.
func (p *push) put(b *body, r *ring, wakes *Wakes) uint64 {
	now := p.now
	if r == nil {
		r = b.makeRing(p.partition, p.slot, p.e.cfg.Incarnation())
	}
	o := b.opts
	messages := p.req.Messages
	// The next push to a partition reclaims what lingers there (R2), another one only what it needs.
	if r.epoch == b.epoch && r.settledN > 0 {
		r.refill = true // it will not stay empty
		r.reclaim(b.gen, stepLimit)
		r.refill = false
	}
	bytes := p.bytes
	skip := 0 // messages of the batch that newer ones of it push out
	for int64(len(messages)-skip) > o.MaxLength || bytes > o.MaxBytes {
		bytes -= int64(len(messages[skip].Payload))
		skip++
	}
	over := func() bool {
		return int64(b.held+len(messages)-skip) > o.MaxLength || b.bytes+bytes > o.MaxBytes
	}
	if r.heldN == 0 && r.roster >= 0 && (over() || skip > 0) {
		r.emptied()
	}
	for over() && b.settledN > 0 {
		before := b.settledN
		b.makeRoom(len(messages)-skip, stepLimit)
		if b.settledN == before {
			break
		}
	}
	dropped := 0
	for b.held > 0 && (over() || skip > 0) {
		if b.heads.min().dropHead() {
			dropped++
		}
	}
	if skip > 0 {
		r.skip(skip)
		dropped += skip
		messages = messages[skip:]
	}
	if dropped > 0 {
		b.dropped.Bounds += int64(dropped)
		p.e.drops.bounds.Add(int64(dropped))
	}
	b.clock = max(now, b.clock+1)
	for _, g := range b.counted {
		g.counts(len(messages))
	}
	r.append(b.clock, messages)
	for _, c := range r.caught {
		c.caughtPos = -1
		b.visits++
		c.enqueue()
	}
	clear(r.caught)
	r.caught = r.caught[:0]
	b.serveRing(r, now, wakes)
	b.serveTouched(now, wakes)
	return r.incarnation
}

// skip passes n messages that were pushed and dropped at once: the ring is empty.
func (r *ring) skip(n int) {
	if s := r.last; s != nil {
		r.unlink(s)
	}
	for r.places.len() > 0 {
		r.places.min().toBase()
	}
	r.tail += uint64(n)
	r.base, r.low = r.tail, r.tail
	r.drops += uint64(n)
	r.b.drops += uint64(n)
}

// serveRing serves everybody who waits for messages of the ring: one waiter at a time per group.
func (b *body) serveRing(r *ring, now Time, wakes *Wakes) {
	if b.parked == 0 {
		return
	}
	for i := len(r.lines) - 1; i >= 0; i-- {
		if i < len(r.lines) {
			b.serve(r.lines[i], now, wakes)
		}
	}
	for i := len(b.lines) - 1; i >= 0; i-- {
		g := b.lines[i]
		c, err := b.cursor(g, r)
		if err != nil {
			b.refuse(&g.line, err, now, wakes)
			continue
		}
		c.turns()
		b.serve(c, now, wakes)
	}
}
