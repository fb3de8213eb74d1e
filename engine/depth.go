package engine

import (
	"math/bits"
	"sort"
)

// Depth reads the gauges of a queue, and says whether there is one. group chooses whose backlog Pending and the
// partitions' Pending are: that group's, or all that is held and not settled when the group is unknown. Without one it
// is the named group with the largest backlog, else QueueMode, else all that is held. The partitions behind after are
// listed, at most limit, sorted. The lock is given up now and then while a large queue is read.
func (e *Engine) Depth(now Time, tenant, name, group, after string, limit int, wakes *Wakes) (d Depth, ok bool) {
	q := e.enter(tenant, name, now, wakes)
	if q == nil {
		return d, false
	}
	slept := q.body == nil
	q.open()
	read := depthRead{now: q.at(now)}
	for i := 0; ; {
		b := q.body
		if b == nil {
			break
		}
		for left := stepLimit; i < b.rings.len() && left > 0; i++ {
			left -= 1 + b.rings.items[i].readers.len()
			read.ring(b.rings.items[i])
		}
		if i >= b.rings.len() {
			d.Declared = q.declared != nil
			d.Bytes = b.bytes
			read.finish(b)
			if slept && b.resting() {
				q.settle()
			}
			break
		}
		q.unlock()
		if q = e.enter(tenant, name, now, wakes); q == nil {
			return d, false
		}
	}
	q.unlock()
	read.answer(&d, group, after, limit)
	return d, true
}

// depthRead gathers what a depth read sees ring by ring.
type depthRead struct {
	now    Time
	held   int64 // in all rings, not settled
	oldest Time  // arrival
	any    bool
	rings  []ringDepth
	groups []groupDepth
	sums   map[*group]*groupDepth
}

type ringDepth struct {
	name        string
	held, bytes int64
	whole       int64 // what a group without a cursor here has pending
	readers     []readerDepth
}

type readerDepth struct {
	g       *group
	pending int64
}

type groupDepth struct {
	GroupDepth
	whole bool
	g     *group
}

func (x *depthRead) ring(r *ring) {
	r.fresh()
	d := ringDepth{name: r.name, held: int64(r.heldN - r.settledN), bytes: r.bytes}
	x.held += d.held
	for _, c := range r.readers.items {
		r.b.visits++
		d.readers = append(d.readers, readerDepth{c.g, int64(c.deliverable())})
	}
	if d.held > 0 {
		if at := r.oldestAt(); !x.any || at < x.oldest {
			x.oldest, x.any = at, true
		}
	}
	d.whole = int64(r.heldN)
	x.rings = append(x.rings, d)
}

// oldestAt is when the oldest message that is not settled was pushed. It looks at the segments where that can be: the
// first with a pinned message, and the one that low is in.
func (r *ring) oldestAt() Time {
	for s := r.first; s != nil; s = s.next {
		if s.pinned == 0 && s.end() <= r.low {
			continue
		}
		for w, set := range s.held {
			for ; set != 0; set &= set - 1 {
				i := w<<6 + bits.TrailingZeros64(set)
				if e := &s.entries[i]; !r.isSettled(s.first+uint64(i), e) {
					return e.at
				}
			}
		}
	}
	return r.headAt
}

func (x *depthRead) finish(b *body) {
	for _, g := range b.groups.items {
		x.groups = append(x.groups, groupDepth{
			GroupDepth: GroupDepth{Group: g.name, Leased: int64(g.leased), Skipped: b.skipped(g)},
			whole:      g.whole,
			g:          g,
		})
	}
	sort.Slice(x.groups, func(i, j int) bool { return x.groups[i].Group < x.groups[j].Group })
	x.sums = make(map[*group]*groupDepth, len(x.groups))
	var whole int64
	for i := range x.rings {
		whole += x.rings[i].whole
	}
	for i := range x.groups {
		g := &x.groups[i]
		x.sums[g.g] = g
		if g.whole {
			g.Pending = whole
		}
	}
	for i := range x.rings {
		r := &x.rings[i]
		for _, c := range r.readers {
			if g := x.sums[c.g]; g != nil {
				g.Pending += c.pending
				if g.whole {
					g.Pending -= r.whole
				}
			}
		}
	}
}

func (x *depthRead) answer(d *Depth, group, after string, limit int) {
	chosen := x.choose(group)
	if chosen != nil {
		d.Pending = chosen.Pending
	} else {
		d.Pending = x.held
	}
	if x.any {
		d.OldestAge = max(x.now-x.oldest, 0)
	}
	d.Groups = make([]GroupDepth, 0, len(x.groups))
	for i := range x.groups {
		d.Groups = append(d.Groups, x.groups[i].GroupDepth)
	}
	sort.Slice(x.rings, func(i, j int) bool { return x.rings[i].name < x.rings[j].name })
	d.Partitions = make([]PartitionDepth, 0, min(limit, len(x.rings)))
	for i := range x.rings {
		r := &x.rings[i]
		pending := r.held
		if chosen != nil {
			pending = r.pending(chosen)
		}
		if pending > 0 {
			d.PartitionsPending++
		}
		if after != "" && r.name <= after {
			continue
		}
		if len(d.Partitions) == limit {
			d.More = true
			continue
		}
		d.Partitions = append(d.Partitions, PartitionDepth{r.name, pending, r.bytes})
	}
}

func (r *ringDepth) pending(g *groupDepth) int64 {
	for _, c := range r.readers {
		if c.g == g.g {
			return c.pending
		}
	}
	if g.whole {
		return r.whole
	}
	return 0
}

// choose picks the group whose backlog is shown, or nil for all that is held.
func (x *depthRead) choose(name string) *groupDepth {
	var worst, mode *groupDepth
	for i := range x.groups {
		g := &x.groups[i]
		switch {
		case name != "":
			if g.Group == name {
				return g
			}
		case g.Group == QueueMode:
			mode = g
		case worst == nil || g.Pending > worst.Pending:
			worst = g
		}
	}
	if worst != nil {
		return worst
	}
	return mode
}
