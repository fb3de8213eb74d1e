package engine

// sweepLimit is how many messages or whole segments one call settles or reclaims before it leaves the rest to the
// timer.
const sweepLimit = 1000

// run is a stretch of one segment's messages that were settled one behind the other.
type run struct {
	seg  *segment
	gen  uint32
	a, b uint16 // entries[a:b]
}

// ring is the sequence of one partition's messages. All of it is guarded by the queue's lock.
type ring struct {
	b           *body
	name        string
	incarnation uint64
	slot        int

	first, last *segment
	base        uint64 // the oldest held message, or tail
	tail        uint64 // the next message
	heldN       int    // messages held, with those that linger
	bytes       int64
	hint        int // size of the next payload chunk

	// low is where everything below is settled unless it is pinned. It follows the lowest cursor, and is the base
	// while a group that is known here has seen nothing.
	low     uint64
	lowSeg  *segment
	closing uint64 // the tail when the last group was forgotten: with no group, what is below is settled
	// What is settled lingers until it is reclaimed (contract R2). log is in order of settling, from logHead.
	// epoch tells whether any of it is still true: it is not after a group has joined the whole queue.
	settledN     int
	settledBytes int64
	log          []run
	logHead      int
	epoch        uint64
	listed       uint32 // the generation in which the ring was last put on the body's list

	drops uint64 // messages dropped by bounds or ttl

	readers table[*group, *cursor]
	places  heap[*cursor, byPos] // the cursors that have seen something held, or all of it
	partial int                  // readers of groups that are not known in the whole queue
	caught  []*cursor            // cursors of whole groups with nothing deliverable here
	lines   []*cursor            // cursors with parked pops

	refill  bool   // being emptied to be filled again at once
	roster  int    // index in the body's roster, -1: empty
	stamp   uint64 // its stamp there
	headAt  Time
	headPos int32 // in body.heads

	tablePos int32
	idle     links[ring]
	idleAt   Time
}

func (r *ring) key() string   { return r.name }
func (r *ring) place() *int32 { return &r.tablePos }

// byHead places rings by the arrival of their oldest message.
type byHead struct{}

func (byHead) at(x *ring) *int32 { return &x.headPos }

type inIdle struct{}

func (inIdle) links(x *ring) *links[ring] { return &x.idle }

// known is how many groups the ring holds messages for.
func (r *ring) known() int { return r.b.whole + r.partial }

// fresh forgets what was settled before a group joined the whole queue: the group has not seen it.
func (r *ring) fresh() {
	if r.epoch != r.b.epoch {
		r.epoch = r.b.epoch
		r.unsettle()
	}
}

// unsettle makes all that lingers held again. The body's sums are the caller's.
func (r *ring) unsettle() {
	r.settledN, r.settledBytes = 0, 0
	r.log, r.logHead = nil, 0
	r.low, r.lowSeg = r.base, r.first
}

// joined makes room for a group that becomes known in this ring alone.
func (r *ring) joined() {
	r.fresh()
	r.b.settledN -= r.settledN
	r.b.settledBytes -= r.settledBytes
	r.unsettle()
}

// locate follows a remembered segment to one that still lives. All that is held is in it or behind it.
func (r *ring) locate(s *segment) *segment {
	for s != nil && s.entries == nil {
		s = s.next
	}
	if s == nil {
		return r.first
	}
	return s
}

// append adds messages to the tail.
func (r *ring) append(at Time, messages []Message) {
	b := r.b
	empty := r.heldN == 0
	var bytes int64
	for i := range messages {
		m := &messages[i]
		s := r.last
		if s == nil || s.full() {
			s = r.extend()
		}
		cost := s.grow()
		if r.tail%rangeSize == 0 || len(s.entries) == 0 {
			cost += blockCost
		}
		chunks := len(s.chunks)
		cost += s.add(at, m, r.hint)
		if len(s.chunks) > chunks {
			r.hint = min(r.hint*4, chunkSize)
		}
		if cost != 0 {
			s.cost += cost
			b.charge(cost)
		}
		r.tail++
		bytes += int64(len(m.Payload))
	}
	r.heldN += len(messages)
	r.bytes += bytes
	b.held += len(messages)
	b.bytes += bytes
	switch {
	case !empty:
	case r.roster < 0:
		r.filled(at)
	default: // it was emptied just now
		r.rebase()
	}
}

// extend links a new segment at the tail.
func (r *ring) extend() *segment {
	s := &segment{first: r.tail, prev: r.last}
	s.cost = segmentCost
	r.b.charge(segmentCost)
	old := r.last
	if old == nil {
		r.first = s
	} else {
		old.next = s
	}
	r.last = s
	if old != nil && old.heldN == 0 {
		r.unlink(old)
	}
	return s
}

// unlink lets a segment go of which nothing is held. Its next stays, for who remembers it.
func (r *ring) unlink(s *segment) {
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		r.first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	} else {
		r.last = s.prev
	}
	s.prev = nil
	r.b.charge(-s.release())
}

// filled and emptied keep the indexes of rings that hold something.
func (r *ring) filled(at Time) {
	b := r.b
	if b.idleRings.has(r) {
		b.idleRings.remove(r)
	}
	r.headAt = at
	b.heads.push(r, at)
	b.roster.add(r)
	b.armTTL()
}

func (r *ring) emptied() {
	b := r.b
	r.base = r.tail
	r.low = r.tail
	if r.refill {
		return
	}
	b.heads.remove(r)
	b.roster.remove(r)
	if s := r.last; s != nil && s.full() {
		r.unlink(s)
	}
	b.ringIdle(r)
}

// pinned and settled states of a message.

func (r *ring) isSettled(seq uint64, e *entry) bool { return e.pins == 0 && seq < r.low }

// unpin says that one group has settled seq or lost it.
func (r *ring) unpin(s *segment, seq uint64, now Time) {
	r.fresh()
	i := int(seq - s.first)
	e := &s.entries[i]
	e.pins--
	if e.pins > 0 {
		return
	}
	s.pinned--
	if seq < r.low {
		r.settle(s, i, i+1, 1, int64(e.size), now)
	}
}

// settle records that entries[a:b] of s, n held messages, are settled by all.
func (r *ring) settle(s *segment, a, b, n int, bytes int64, now Time) {
	y := r.b
	r.settledN += n
	r.settledBytes += bytes
	y.settledN += n
	y.settledBytes += bytes
	if l := len(r.log); l > r.logHead && r.log[l-1].seg == s && int(r.log[l-1].b) == a && r.log[l-1].gen == y.gen {
		r.log[l-1].b = uint16(b)
	} else {
		r.log = append(r.log, run{s, y.gen, uint16(a), uint16(b)})
	}
	y.lingers(r, now)
}

// sweep settles what every group has passed and none has pinned, and says whether it came to the end.
func (r *ring) sweep(now Time, limit int) bool {
	r.fresh()
	target := r.base
	switch known := r.known(); {
	case known == 0:
		target = r.closing // what came later is for whoever comes first
	case r.places.len() == known:
		target = uint64(r.places.minKey())
	}
	return r.sweepTo(target, now, limit)
}

func (r *ring) sweepTo(target uint64, now Time, limit int) bool {
	if r.low < r.base {
		r.low, r.lowSeg = r.base, r.first
	}
	if r.low >= target {
		return true
	}
	if r.heldN == 0 {
		r.low = target
		return true
	}
	s := r.locate(r.lowSeg)
	for r.low < target {
		if limit <= 0 {
			r.lowSeg = s
			r.b.unswept(r)
			return false
		}
		limit--
		r.b.visits++
		if r.low < s.first {
			r.low = s.first
			continue
		}
		if r.low >= s.end() {
			if s.next == nil {
				r.low = target
				break
			}
			s = s.next
			continue
		}
		a := int(r.low - s.first)
		end := int(min(target, s.end()) - s.first)
		if a == 0 && end == len(s.entries) && s.pinned == 0 && s.heldN > 0 {
			r.settle(s, 0, end, s.heldN, s.heldBytes, now)
			r.low = s.end()
			continue
		}
		i := s.nextHeld(a)
		if i < 0 || i >= end {
			r.low = s.first + uint64(end)
			continue
		}
		r.low = s.first + uint64(i) + 1
		if s.entries[i].pins == 0 {
			r.settle(s, i, i+1, 1, int64(s.entries[i].size), now)
		}
	}
	r.lowSeg = s
	return true
}

// reclaim frees settled messages, those of generations up to gen, and returns how much of limit is left. A segment
// that goes as a whole counts as one.
func (r *ring) reclaim(gen uint32, limit int) int {
	r.fresh()
	moved := false // the base may have
	for r.logHead < len(r.log) && limit > 0 {
		u := &r.log[r.logHead]
		if int32(u.gen-gen) > 0 {
			break
		}
		s := u.seg
		if s.entries != nil && s != r.last && s.pinned == 0 && s.nextHeld(0) >= int(u.a) && s.nextHeld(int(u.b)) < 0 {
			moved = moved || s == r.first
			r.freeSegment(s)
			limit--
			u.a = u.b
		}
		if n := min(int(u.b-u.a), limit); n > 0 {
			moved = r.freeRun(s, int(u.a), int(u.a)+n) || moved
			u.a += uint16(n)
			limit -= n
		}
		if u.a == u.b {
			u.seg = nil
			r.logHead++
		}
	}
	if moved && r.heldN > 0 {
		r.rebase()
	}
	if r.logHead == len(r.log) {
		r.log, r.logHead = r.log[:0], 0
		if cap(r.log) > 1024 {
			r.log = nil
		}
	}
	return limit
}

// settledGone takes settled messages out of the sums.
func (r *ring) settledGone(n int, bytes int64) {
	r.settledN -= n
	r.settledBytes -= bytes
	r.b.settledN -= n
	r.b.settledBytes -= bytes
}

// freeSegment frees a segment, not the last one, whose messages are all settled.
func (r *ring) freeSegment(s *segment) {
	r.b.visits++
	n, bytes := s.heldN, s.heldBytes
	r.settledGone(n, bytes)
	r.heldN -= n
	r.bytes -= bytes
	r.b.held -= n
	r.b.bytes -= bytes
	r.unlink(s)
	if r.heldN == 0 {
		r.emptied()
	}
}

// freeRun lets go of what is settled of entries[a:z], and says whether the base was among it: the caller finds the new
// one. What is not held any more was dropped meanwhile.
func (r *ring) freeRun(s *segment, a, z int) (moved bool) {
	r.b.visits += z - a
	if s.entries == nil {
		return false
	}
	n := 0
	var bytes, back int64
	for i := a; i < z; i++ {
		if s.isHeld(i) {
			n++
			bytes += int64(s.entries[i].size)
			back += s.free(i)
		}
	}
	if n == 0 {
		return false
	}
	r.settledGone(n, bytes)
	return r.gone(s, a, z, n, bytes, back)
}

// free lets go of one held message.
func (r *ring) free(s *segment, i int) {
	size := int64(s.entries[i].size)
	back := s.free(i)
	if r.gone(s, i, i+1, 1, size, back) && r.heldN > 0 {
		r.rebase()
	}
}

// gone takes n messages among entries[a:z] out of the sums, and says whether the base was among them.
func (r *ring) gone(s *segment, a, z, n int, bytes, back int64) bool {
	s.cost -= back
	r.b.charge(-back)
	r.heldN -= n
	r.bytes -= bytes
	r.b.held -= n
	r.b.bytes -= bytes
	moved := r.base >= s.first+uint64(a) && r.base < s.first+uint64(z)
	if s.heldN == 0 && s != r.last {
		r.unlink(s)
	}
	if r.heldN == 0 {
		r.emptied()
	}
	return moved
}

// rebase finds the new oldest message. The first segment of a ring that holds something holds some of it.
func (r *ring) rebase() {
	s := r.first
	i := s.nextHeld(0)
	r.base = s.first + uint64(i)
	r.headAt = s.entries[i].at
	r.b.heads.fix(r, r.headAt)
}

// dropHead drops the oldest message. It says whether that is a loss: what every group has settled is not.
func (r *ring) dropHead() bool {
	b := r.b
	b.visits++
	r.fresh()
	s := r.first
	i := int(r.base - s.first)
	e := &s.entries[i]
	seq := r.base
	if r.isSettled(seq, e) {
		r.settledGone(1, int64(e.size))
		r.free(s, i)
		return false
	}
	r.pass(seq)
	if e.pins > 0 {
		for k := s.blocks[s.rangeOf(seq)]; k != nil; {
			next := k.sibling
			b.visits++
			c := k.c
			k.void(seq)
			c.turns()
			k = next
		}
		e.pins = 0
		s.pinned--
	}
	r.drops++
	b.drops++
	r.free(s, i)
	b.lapse(r)
	return true
}

// pass makes the cursors that have not seen seq stand at the base: it is about to be dropped and they skip it.
func (r *ring) pass(seq uint64) {
	for r.places.len() > 0 && r.places.minKey() <= Time(seq) {
		r.places.min().toBase()
	}
	for _, g := range r.b.counted {
		if c, ok := r.readers.get(g); !ok || c.atBase() {
			g.counts(-1)
		}
	}
}
