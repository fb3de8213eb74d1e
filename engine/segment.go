package engine

import (
	"math/bits"
	"sync"
)

const (
	// segmentSize is how many sequence numbers a segment spans: segments end at its multiples.
	segmentSize = 256
	// rangeSize is how many of them one lease block covers.
	rangeSize = 16
	// chunkSize is the full size of a payload chunk. A ring's first chunks are smaller.
	chunkSize      = 16 << 10
	firstChunkSize = 256
	// bigPayload is the size from which a payload is an allocation of its own, freed on its own.
	bigPayload = 2 << 10
	// firstEntries is the capacity of a ring's first segment.
	firstEntries = 4
)

// entry is one message of a segment.
type entry struct {
	at    Time   // when it was pushed; all messages of a push share it, no other message of the queue has it
	off   uint32 // where its payload starts in its chunk, or its index in bigs
	size  uint32
	flags uint32
	pins  uint16 // how many groups have it leased or waiting for redelivery
	chunk uint8
	bits  uint8
}

const (
	entryRaw = 1 << iota
	entryBig
)

// chunk is a slab that payloads are copied into, one behind the other.
type chunk struct {
	buf  []byte
	live int32 // payloads in it that are held
}

// segment holds up to segmentSize consecutive messages of a ring and their payloads. It is unlinked when none of them
// is held any more.
type segment struct {
	first      uint64
	entries    []entry
	held       [segmentSize / 64]uint64 // bit i: entries[i] is held
	heldN      int
	heldBytes  int64
	pinned     int // entries with pins
	chunks     []chunk
	bigs       [][]byte
	blocks     [segmentSize / rangeSize]*block // the lease blocks over each range, of all groups
	prev, next *segment
	cost       int64    // what it was charged
	few        [4]chunk // where chunks begins: a segment of small messages needs no more
}

// room is how many entries the segment can ever have.
func (s *segment) room() int { return segmentSize - int(s.first%segmentSize) }

func (s *segment) end() uint64 { return s.first + uint64(len(s.entries)) }

func (s *segment) full() bool { return len(s.entries) == s.room() }

func (s *segment) isHeld(i int) bool { return s.held[i>>6]&(1<<(i&63)) != 0 }

// nextHeld is the index of the first held entry at or behind i, or -1.
func (s *segment) nextHeld(i int) int {
	for w := i >> 6; w < len(s.held); w++ {
		x := s.held[w]
		if w == i>>6 {
			x &= ^uint64(0) << (i & 63)
		}
		if x != 0 {
			return w<<6 + bits.TrailingZeros64(x)
		}
	}
	return -1
}

// rangeOf is the index in blocks of the range that holds seq.
func (s *segment) rangeOf(seq uint64) int { return int(seq%segmentSize) / rangeSize }

func (s *segment) payload(e *entry) []byte {
	if e.bits&entryBig != 0 {
		return s.bigs[e.off]
	}
	return s.chunks[e.chunk].buf[e.off : e.off+e.size]
}

// The pools keep the parts that a busy ring uses up and frees all the time. What lies in them is garbage to the
// collector after a while, so it is not charged.
var (
	entryPool = sync.Pool{New: func() any { return new([segmentSize]entry) }}
	chunkPool = sync.Pool{New: func() any { return new([chunkSize]byte) }}
)

// grow makes room for one more entry and returns what it cost.
func (s *segment) grow() int64 {
	if len(s.entries) < cap(s.entries) {
		return 0
	}
	old := cap(s.entries)
	n := grownEntries(old, s.room())
	var next []entry
	if n == segmentSize {
		next = entryPool.Get().(*[segmentSize]entry)[:0]
	} else {
		next = make([]entry, 0, n)
	}
	s.entries = append(next, s.entries...)
	return int64(n-old) * entryCost
}

// grownEntries is the capacity that grow gives a segment that has room for so many entries in all.
func grownEntries(old, room int) int {
	n := min(max(old*4, firstEntries), room)
	if n > segmentSize/4 {
		return segmentSize
	}
	return n
}

// add appends a message, whose entry there must be room for, and returns what its payload's memory cost.
func (s *segment) add(at Time, m *Message, hint int) (cost int64) {
	i := len(s.entries)
	s.entries = s.entries[:i+1]
	e := &s.entries[i]
	*e = entry{at: at, size: uint32(len(m.Payload)), flags: m.Flags}
	if m.Raw {
		e.bits |= entryRaw
	}
	if len(m.Payload) >= bigPayload {
		e.bits |= entryBig
		e.off = uint32(len(s.bigs))
		s.bigs = append(s.bigs, append(make([]byte, 0, len(m.Payload)), m.Payload...))
		cost += bigCost(len(m.Payload))
	} else {
		last := len(s.chunks) - 1
		if last < 0 || cap(s.chunks[last].buf)-len(s.chunks[last].buf) < len(m.Payload) {
			if last >= 0 && s.chunks[last].live == 0 {
				cost -= s.dropChunk(last)
			}
			size := chunkFor(len(m.Payload), hint)
			if s.chunks == nil {
				s.chunks = s.few[:0]
			}
			s.chunks = append(s.chunks, chunk{buf: newChunk(size)})
			cost += int64(size) + chunkCost
			last++
		}
		c := &s.chunks[last]
		e.chunk, e.off = uint8(last), uint32(len(c.buf))
		c.buf = append(c.buf, m.Payload...)
		c.live++
	}
	s.held[i>>6] |= 1 << (i & 63)
	s.heldN++
	s.heldBytes += int64(e.size)
	return cost
}

// chunkFor is the size of a new chunk for a payload of n bytes.
func chunkFor(n, hint int) int {
	size := hint
	for size < n {
		size *= 4
	}
	return min(size, chunkSize)
}

func newChunk(size int) []byte {
	if size == chunkSize {
		return chunkPool.Get().(*[chunkSize]byte)[:0]
	}
	return make([]byte, 0, size)
}

// dropChunk lets a chunk's memory go and returns what it had cost.
func (s *segment) dropChunk(i int) int64 {
	c := &s.chunks[i]
	if c.buf == nil {
		return 0
	}
	size := cap(c.buf)
	if size == chunkSize {
		chunkPool.Put((*[chunkSize]byte)(c.buf[:chunkSize]))
	}
	c.buf = nil
	return int64(size) + chunkCost
}

// free lets go of the entry at i, which must be held, and returns what that gave back.
func (s *segment) free(i int) (back int64) {
	e := &s.entries[i]
	s.held[i>>6] &^= 1 << (i & 63)
	s.heldN--
	s.heldBytes -= int64(e.size)
	if e.bits&entryBig != 0 {
		s.bigs[e.off] = nil
		return bigCost(int(e.size))
	}
	c := &s.chunks[e.chunk]
	c.live--
	if c.live > 0 {
		return 0
	}
	if int(e.chunk) == len(s.chunks)-1 {
		c.buf = c.buf[:0] // the next payload goes here again
		return 0
	}
	return s.dropChunk(int(e.chunk))
}

// release gives the segment's parts to the pools and returns all that it had cost and that was not given back yet.
func (s *segment) release() int64 {
	back := s.cost
	for i := range s.chunks {
		s.dropChunk(i)
	}
	if cap(s.entries) == segmentSize {
		entryPool.Put((*[segmentSize]entry)(s.entries[:segmentSize]))
	}
	s.entries, s.chunks, s.bigs, s.cost = nil, nil, nil, 0
	s.few = [4]chunk{}
	return back
}
