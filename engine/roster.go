package engine

import "sort"

// roster lists a queue's rings that hold something, in the order in which they came to. A group walks it once, from
// stamp to stamp; a ring that was empty in between has a new stamp. Places of rings that left are skipped through
// links that shorten as they are followed, and are removed when they are more than half.
type roster struct {
	items []rosterItem
	live  int
	stamp uint64
}

type rosterItem struct {
	stamp uint64
	r     *ring
	skip  int // r is nil: how many places further on to look
}

func (l *roster) add(r *ring) {
	l.stamp++
	r.stamp = l.stamp
	r.roster = len(l.items)
	l.items = append(l.items, rosterItem{stamp: l.stamp, r: r})
	l.live++
}

func (l *roster) remove(r *ring) {
	l.items[r.roster] = rosterItem{stamp: r.stamp, skip: 1}
	r.roster = -1
	l.live--
	if len(l.items) < 2*l.live+8 {
		return
	}
	kept := l.items[:0]
	if cap(l.items) > 4*l.live+64 {
		kept = make([]rosterItem, 0, 2*l.live)
	}
	for _, it := range l.items {
		if it.r != nil {
			it.r.roster = len(kept)
			kept = append(kept, it)
		}
	}
	clear(l.items[len(kept):])
	l.items = kept
}

// next returns the first ring with a stamp above after, or nil.
func (l *roster) next(after uint64) *ring {
	if after >= l.stamp || l.live == 0 {
		return nil
	}
	i := 0
	if l.items[0].stamp <= after {
		i = sort.Search(len(l.items), func(i int) bool { return l.items[i].stamp > after })
	}
	start := i
	for i < len(l.items) && l.items[i].r == nil {
		i += l.items[i].skip
	}
	for start < i { // whoever comes here again goes straight to i
		skip := l.items[start].skip
		l.items[start].skip = i - start
		start += skip
	}
	if i >= len(l.items) {
		return nil
	}
	return l.items[i].r
}
