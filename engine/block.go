package engine

import (
	"math/bits"
	"sync"
)

// block holds one group's leases over one range of a ring's messages, and those that wait there to be delivered to
// the group again. It exists while there is one of either.
type block struct {
	c     *cursor
	seg   *segment
	first uint64 // the sequence number of bit 0

	leased  uint16 // bit i: first+i is leased until deadline[i]
	waiting uint16 // bit i: first+i waits for its next delivery
	late    uint16 // of waiting: the lease ran out, an ack of the last delivery still counts (contract D6)
	extra   bool   // charged to the leases' own budget

	attempts [rangeSize]uint16 // deliveries so far
	deadline [rangeSize]Time
	due      Time // not after the earliest deadline

	duePos, waitPos, tablePos int32
	sibling                   *block // of another group over the same range
}

func (k *block) key() uint64   { return k.first }
func (k *block) place() *int32 { return &k.tablePos }

// byDue places blocks by when a lease of theirs may run out.
type byDue struct{}

func (byDue) at(x *block) *int32 { return &x.duePos }

// byFirst places a cursor's blocks as the ring does.
type byFirst struct{}

func (byFirst) at(x *block) *int32 { return &x.waitPos }

var blockPool = sync.Pool{New: func() any { return new(block) }}

// block returns the cursor's block over seq's range, making it when there is none. It returns nil when the memory for
// the leases of further groups is used up.
func (c *cursor) block(seg *segment, seq uint64) *block {
	first := seq &^ (rangeSize - 1)
	if k := c.last; k != nil && k.first == first {
		return k
	}
	if k, ok := c.blocks.get(first); ok {
		c.last = k
		return k
	}
	head := &seg.blocks[seg.rangeOf(seq)]
	extra := *head != nil
	b := c.r.b
	if extra && !b.e.takeLease() {
		return nil
	}
	k := b.spare
	if b.spare = nil; k == nil {
		k = blockPool.Get().(*block)
	}
	k.extra = extra
	k.c, k.seg, k.first = c, seg, first
	k.duePos, k.waitPos = -1, -1
	k.sibling, *head = *head, k
	c.blocks.add(k)
	c.last = k
	return k
}

// find returns the cursor's block over seq's range, or nil.
func (c *cursor) find(seq uint64) *block {
	first := seq &^ (rangeSize - 1)
	if k := c.last; k != nil && k.first == first {
		return k
	}
	k, ok := c.blocks.get(first)
	if !ok {
		return nil
	}
	c.last = k
	return k
}

// lease records that the message at i is out until deadline. The counts are the caller's.
func (k *block) lease(i int, deadline Time) {
	b := k.c.r.b
	k.leased |= 1 << i
	k.deadline[i] = deadline
	if k.duePos < 0 {
		k.due = deadline
		b.leases.push(k, deadline)
		b.arm(deadline)
	} else if deadline < k.due {
		k.due = deadline
		b.leases.fix(k, deadline)
		b.arm(deadline)
	}
}

// unlease forgets the lease at i. Its deadline may stay the block's due: the timer finds out.
func (k *block) unlease(i int) {
	k.leased &^= 1 << i
	k.c.leased--
	k.c.g.leased--
	if k.leased == 0 {
		k.c.r.b.leases.remove(k)
	}
}

// wait makes the message at i, which is not leased, deliverable to the group again.
func (k *block) wait(i int, late bool) {
	c := k.c
	k.waiting |= 1 << i
	if late {
		k.late |= 1 << i
	}
	c.waitingN++
	if k.waitPos < 0 {
		c.waiting.push(k, Time(k.first))
	}
	c.g.counts(1)
}

func (k *block) unwait(i int) {
	c := k.c
	k.waiting &^= 1 << i
	k.late &^= 1 << i
	c.waitingN--
	if k.waiting == 0 {
		c.waiting.remove(k)
	}
	c.g.counts(-1)
}

// done lets the block go if nothing is leased or waiting in it.
func (k *block) done() {
	if k.leased|k.waiting != 0 {
		return
	}
	c := k.c
	c.blocks.remove(k)
	if c.last == k {
		c.last = nil
	}
	for p := &k.seg.blocks[k.seg.rangeOf(k.first)]; ; p = &(*p).sibling {
		if *p == k {
			*p = k.sibling
			break
		}
	}
	k.recycle(c.r.b)
}

// recycle returns the block's memory. Nothing may refer to it any more.
func (k *block) recycle(b *body) {
	if k.extra {
		b.e.leases.Add(-blockCost)
	}
	k.c, k.seg, k.sibling = nil, nil, nil
	k.leased, k.waiting, k.late, k.extra = 0, 0, 0, false
	if b.spare == nil {
		b.spare = k // a queue with one message at a time uses it again at once
		return
	}
	blockPool.Put(k)
}

// expire ends the leases of the block that ran out and returns how many did.
func (k *block) expire(now Time) (n int) {
	c := k.c
	b := c.r.b
	next := Time(never)
	limit := b.retryLimit()
	for set := k.leased; set != 0; set &= set - 1 {
		i := bits.TrailingZeros16(set)
		if k.deadline[i] > now {
			next = min(next, k.deadline[i])
			continue
		}
		n++
		k.unlease(i)
		seq := k.first + uint64(i)
		if int(k.attempts[i]) >= limit {
			b.dropped.Retry++
			b.e.drops.retry.Add(1)
			c.r.unpin(k.seg, seq, now)
			continue
		}
		k.wait(i, true)
	}
	if k.leased != 0 {
		k.due = next
		b.leases.fix(k, next)
	}
	b.touch(c)
	k.done()
	return n
}

// void forgets what the group has at seq, whose message is being dropped. It does not unpin.
func (k *block) void(seq uint64) {
	i := int(seq - k.first)
	switch bit := uint16(1) << i; {
	case k.leased&bit != 0:
		k.unlease(i)
	case k.waiting&bit != 0:
		k.unwait(i)
	default:
		return
	}
	k.done()
}
