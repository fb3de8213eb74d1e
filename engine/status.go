package engine

// Drops counts the messages a queue dropped, by cause.
type Drops struct {
	// Bounds: to make room under dropOldest. TTL: too old. Retry: attempts used up, per group.
	Bounds, TTL, Retry int64
}

// QueueInfo are the gauges of one queue on this broker.
type QueueInfo struct {
	Queue    string
	Declared bool
	// Depth is how many messages are held, leased and lingering ones included; Bytes are their payloads.
	Depth, Bytes       int64
	Partitions, Groups int
	Drops              Drops
	Options            Options
}

// QueuePage is a part of a tenant's queues, sorted by name.
type QueuePage struct {
	Queues []QueueInfo
	// Count is how many queues have the prefix, on every page.
	Count int
	// More says that the list goes on after the last of Queues.
	More bool
}

// GroupDepth are the gauges of one group of a queue.
type GroupDepth struct {
	Group string
	// Pending is what is deliverable to the group; Leased what it holds; Skipped what was dropped before it saw it.
	Pending, Leased, Skipped int64
}

// PartitionDepth are the gauges of one partition.
type PartitionDepth struct {
	Partition      string
	Pending, Bytes int64
}

// Depth is the answer to the depth read.
type Depth struct {
	Declared bool
	// Pending is the backlog of the group asked for; see Engine.Depth.
	Pending int64
	// PartitionsPending is how many partitions have a backlog, on all pages.
	PartitionsPending int
	Bytes             int64
	// OldestAge is the age of the oldest message held that is not settled, in nanoseconds.
	OldestAge  Time
	Partitions []PartitionDepth
	// More says that the partitions go on after the last of Partitions.
	More   bool
	Groups []GroupDepth
}

// Stats are the engine's gauges and counters.
type Stats struct {
	// Bytes is the footprint that is measured against the budget; LeaseBytes the leases of further groups, which have
	// a budget of their own.
	Bytes, LeaseBytes, MaxBytes int64
	Queues, Waiters             int64
	Pushed, Popped, Acked       int64
	Drops                       Drops
	GroupsForgotten             int64
	// Wipes counts rings that were emptied because their slot was closed while they held messages; Moved those
	// messages.
	Wipes, Moved int64
}

// Limits are a tenant's allowances on this broker. 0 is no limit.
type Limits struct {
	// MaxBytes is a footprint.
	MaxBytes  int64
	MaxQueues int64
}

// Wake tells the shell that a parked waiter has its answer.
type Wake struct {
	Waiter *Waiter
}

// Wakes collects the waiters that calls have answered. The shell signals each of them once.
type Wakes []Wake

// Queues lists a tenant's queues whose names begin with prefix and come behind after, at most limit of them, sorted.
// It looks at one queue at a time: the page is not of one instant.
func (e *Engine) Queues(now Time, tenant, prefix, after string, limit int) QueuePage {
	var page QueuePage
	t := e.tenants.peek(tenant)
	if t == nil {
		return page
	}
	var found []*queue
	from := &queue{name: max(prefix, after)}
	t.mu.RLock()
	if prefix == "" {
		page.Count = t.byName.Len()
	} else {
		t.byName.AscendGreaterOrEqual(&queue{name: prefix}, func(q *queue) bool {
			if !hasPrefix(q.name, prefix) {
				return false
			}
			page.Count++
			return true
		})
	}
	t.byName.AscendGreaterOrEqual(from, func(q *queue) bool {
		if !hasPrefix(q.name, prefix) {
			return false
		}
		if after != "" && q.name <= after {
			return true
		}
		if len(found) == limit {
			page.More = true
			return false
		}
		found = append(found, q)
		return true
	})
	t.mu.RUnlock()
	page.Queues = make([]QueueInfo, 0, len(found))
	for _, q := range found {
		if info, ok := q.info(); ok {
			page.Queues = append(page.Queues, info)
		}
	}
	return page
}

func hasPrefix(s, prefix string) bool { return len(s) >= len(prefix) && s[:len(prefix)] == prefix }

func (q *queue) info() (info QueueInfo, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dead {
		return info, false
	}
	info = QueueInfo{Queue: q.name, Declared: q.declared != nil, Options: *q.options()}
	if b := q.body; b != nil {
		info.Depth, info.Bytes = int64(b.held), b.bytes
		info.Partitions, info.Groups = b.rings.len(), b.groups.len()
		info.Drops = b.dropped
		return info, true
	}
	if q.rest != nil {
		if q.rest.drops != nil {
			info.Drops = *q.rest.drops
		}
		info.Partitions, info.Groups = len(q.rest.rings), len(q.rest.groups)
	}
	return info, true
}

// skipped is how many messages were dropped before the group saw them (contract B5).
func (b *body) skipped(g *group) int64 {
	n := g.skipped
	if g.whole {
		n += int64(b.drops - g.from - g.covered)
	}
	for _, c := range g.cursors {
		n += b.cursorSkipped(c)
		if g.whole {
			n -= int64(c.r.drops - c.from)
		}
	}
	return n
}
