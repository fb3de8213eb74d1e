package engine

import (
	"math/bits"
	"slices"
)

// cursor is one group's place in one ring. A group that is known in a ring and has no cursor there has seen nothing
// of it: it is as if its cursor stood at the base.
type cursor struct {
	r *ring
	g *group

	// pos is the next message the group has not seen. It counts while the cursor is in the ring's heap; a cursor that
	// is not has seen nothing of what is held: it stands at the base.
	pos   uint64
	seg   *segment // where pos is, or a released segment before it
	holes uint64   // messages at or behind pos that are gone: settled by all before this group came

	mark uint64 // the ring's drops when the cursor last came to stand at the base
	from uint64 // the ring's drops when the cursor was made

	blocks   table[uint64, *block]
	last     *block // the block used last
	waiting  heap[*block, byFirst]
	waitingN int
	leased   int

	line line // pops parked on this partition

	heapPos, tablePos, groupPos, caughtPos, linePos int32

	turn    links[cursor] // in group.ready
	since   uint64        // the roster's stamp when it came to its place there
	touched bool          // in body.touched
}

func (c *cursor) key() *group   { return c.g }
func (c *cursor) place() *int32 { return &c.tablePos }

// byPos places cursors by how far they are.
type byPos struct{}

func (byPos) at(x *cursor) *int32 { return &x.heapPos }

type inTurn struct{}

func (inTurn) links(x *cursor) *links[cursor] { return &x.turn }

func (c *cursor) atBase() bool { return c.heapPos < 0 }

// unseen is how many held messages the group has not seen.
func (c *cursor) unseen() int {
	if c.atBase() {
		return c.r.heldN
	}
	return int(c.r.tail - c.pos - c.holes)
}

// deliverable is how many messages a pop of the group could get here.
func (c *cursor) deliverable() int { return c.waitingN + c.unseen() }

// claim is a pop at work: what it may still take and where it puts it.
type claim struct {
	d        *Delivery
	left     int // messages
	room     Room
	granted  int // payload bytes that there is room for
	maxBytes int // payload bytes in all; 0: no bound
	deadline Time
	now      Time
	autoAck  bool
	stopped  bool  // the answer is full
	err      error // why it had to stop early
}

// fits says whether a payload of n bytes goes into the answer. The first one always does.
func (k *claim) fits(n int) bool {
	if k.maxBytes > 0 && len(k.d.Messages) > 0 && len(k.d.buf)+n > k.maxBytes {
		k.stopped = true
		return false
	}
	if need := len(k.d.buf) + n - k.granted; need > 0 && k.room != nil && !k.grow(need) {
		return false
	}
	return true
}

// roomStep is what an answer takes of its room at a time, and what it may take without asking.
const roomStep = 64 << 10

// grow asks for room for need more payload bytes, which will be there twice: here and in the answer's text.
func (k *claim) grow(need int) bool {
	need = (need + roomStep - 1) / roomStep * roomStep
	if !k.room.Take(2 * int64(need)) {
		k.stopped = true
		if len(k.d.Messages) == 0 {
			k.err = ErrRoom
		}
		return false
	}
	k.granted += need
	k.d.Taken += 2 * int64(need)
	return true
}

// expect makes the delivery's memory ready for what will likely be handed out, so that it is not copied as it grows.
func (k *claim) expect(r *ring, n int) {
	n = min(n, k.left)
	if n < 2 || cap(k.d.Messages)-len(k.d.Messages) >= n && len(k.d.buf) > 0 {
		return
	}
	k.d.Messages = slices.Grow(k.d.Messages, n)
	bytes := int64(n) * (r.bytes / int64(r.heldN))
	if k.maxBytes > 0 {
		bytes = min(bytes, int64(k.maxBytes))
	}
	if k.room != nil {
		bytes = min(bytes, int64(k.granted))
	}
	k.d.buf = slices.Grow(k.d.buf, int(bytes))
}

func (k *claim) add(c *cursor, seq uint64, attempts int, s *segment, e *entry) {
	d := k.d
	n := len(d.Messages)
	if n < cap(d.Messages) {
		d.Messages = d.Messages[:n+1]
	} else {
		d.Messages = append(d.Messages, Delivered{})
	}
	m := &d.Messages[n]
	m.Partition, m.Incarnation = c.r.name, c.r.incarnation
	m.Seq, m.Attempts = seq, attempts
	m.Flags, m.Raw = e.flags, e.bits&entryRaw != 0
	m.off = len(d.buf)
	d.buf = append(d.buf, s.payload(e)...)
	k.left--
}

// take hands messages of the ring to the group: redeliveries first, in ring order, then what it has not seen
// (contract D4). It returns how many.
func (c *cursor) take(k *claim) int {
	n := k.left
	if c.waitingN > 0 {
		c.takeWaiting(k)
	}
	if k.left > 0 && !k.stopped && k.err == nil {
		c.takeUnseen(k)
	}
	return n - k.left
}

func (c *cursor) takeWaiting(k *claim) {
	for c.waitingN > 0 && k.left > 0 {
		bl := c.waiting.min()
		i := bits.TrailingZeros16(bl.waiting)
		seq := bl.first + uint64(i)
		e := &bl.seg.entries[seq-bl.seg.first]
		if !k.fits(int(e.size)) {
			return
		}
		bl.unwait(i)
		bl.attempts[i]++
		k.add(c, seq, int(bl.attempts[i]), bl.seg, e)
		if k.autoAck {
			c.r.unpin(bl.seg, seq, k.now)
		} else {
			bl.lease(i, k.deadline)
			c.leased++
			c.g.leased++
		}
		bl.done()
	}
}

func (c *cursor) takeUnseen(k *claim) {
	r := c.r
	if c.unseen() == 0 {
		return
	}
	r.fresh()
	pos, seg, holes := c.pos, c.seg, c.holes
	if c.atBase() {
		pos, seg, holes = r.base, r.first, r.tail-r.base-uint64(r.heldN)
	}
	seg = r.locate(seg)
	k.expect(r, c.unseen())
	start := k.left
	var bl *block
	for k.left > 0 && pos < r.tail {
		i := 0
		if pos > seg.first {
			i = int(pos - seg.first)
		}
		if i < len(seg.entries) {
			i = seg.nextHeld(i)
		} else {
			i = -1
		}
		if i < 0 {
			if seg.next == nil {
				break
			}
			seg = seg.next
			continue
		}
		seq := seg.first + uint64(i)
		e := &seg.entries[i]
		if !k.fits(int(e.size)) {
			break
		}
		if !k.autoAck {
			if bl == nil || seq-bl.first >= rangeSize {
				if bl = c.block(seg, seq); bl == nil {
					k.err = ErrLeases
					break
				}
			}
			j := int(seq - bl.first)
			bl.attempts[j] = 1
			bl.lease(j, k.deadline)
			if e.pins == 0 {
				seg.pinned++
			}
			e.pins++
		}
		holes -= seq - pos
		pos = seq + 1
		k.add(c, seq, 1, seg, e)
	}
	if k.left == start {
		return
	}
	c.g.counts(k.left - start)
	if !k.autoAck {
		c.leased += start - k.left
		c.g.leased += start - k.left
	}
	c.moveTo(pos, seg, holes, k.now)
}

// moveTo sets the cursor behind what it was handed and settles what every group has now passed.
func (c *cursor) moveTo(pos uint64, seg *segment, holes uint64, now Time) {
	r := c.r
	wasBase := c.atBase()
	c.pos, c.seg, c.holes = pos, seg, holes
	if wasBase {
		c.g.skipped += int64(r.drops - c.mark)
		r.places.push(c, Time(pos))
	} else {
		r.places.fix(c, Time(pos))
	}
	r.sweep(now, sweepLimit)
}

// toBase makes the cursor stand at the base: what it had seen of the ring is gone.
func (c *cursor) toBase() {
	c.r.places.remove(c)
	c.mark = c.r.drops
	c.seg = nil
}

// turns keeps the invariant of a group that is known in the whole queue: a cursor with something deliverable is in
// the group's rotation, one without is told by the ring's next push.
func (c *cursor) turns() {
	if !c.g.whole {
		return
	}
	if c.deliverable() > 0 {
		c.uncatch()
		if !c.g.ready.has(c) {
			c.enqueue()
		}
		return
	}
	if c.g.ready.has(c) {
		c.g.ready.remove(c)
	}
	if c.caughtPos < 0 {
		c.caughtPos = int32(len(c.r.caught))
		c.r.caught = append(c.r.caught, c)
	}
}

// enqueue puts the cursor at the end of its group's rotation.
func (c *cursor) enqueue() {
	c.since = c.r.b.roster.stamp
	c.g.ready.pushBack(c)
}

// uncatch takes the cursor off the list of those that the ring's next push tells.
func (c *cursor) uncatch() {
	if c.caughtPos < 0 {
		return
	}
	l := c.r.caught
	last := len(l) - 1
	l[c.caughtPos] = l[last]
	l[c.caughtPos].caughtPos = c.caughtPos
	l[last] = nil
	c.r.caught = l[:last]
	c.caughtPos = -1
}
