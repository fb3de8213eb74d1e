package engine

import (
	"math"
	"slices"
	"time"
)

func (x *machine) declare() {
	tenant, queue := x.name()
	o := Options{
		MaxBytes:    []int64{64, 64, 30, 8}[x.c.n(4)],
		MaxLength:   []int64{8, 8, 5, 3, 1}[x.c.n(5)],
		Policy:      []Policy{Reject, DropOldest, DropOldest}[x.c.n(3)],
		TTL:         []time.Duration{0, 0, 1300*time.Millisecond + 1, 3*time.Second + 1}[x.c.n(4)],
		Lease:       []time.Duration{500 * time.Millisecond, 900 * time.Millisecond, 2 * time.Second}[x.c.n(3)],
		RetryLimit:  []int{0, 1, 2, 3, 100}[x.c.n(5)],
		Window:      []time.Duration{0, 0, 400*time.Millisecond + 2}[x.c.n(3)],
		WindowCount: x.c.n(4),
	}
	q := x.m.queue(tenant, queue)
	if q != nil && len(q.waiters) > 0 {
		o.Window, o.WindowCount = q.opts.Window, q.opts.WindowCount
	}
	allowed := x.m.mayCreate(tenant, queue, "", "")
	err := x.e.Declare(x.now, tenant, queue, o, &x.wakes)
	x.note("declare %s/%s %+v = %v", tenant, queue, o, err)
	if !isOneOf(err, allowed) {
		x.fail("declare answers %v, want %v", err, allowed)
	}
	if err == nil {
		q = x.m.make(tenant, queue)
		q.opts, q.declared = o, true
		x.m.due(q, x.now)
	}
	x.after()
}

func (x *machine) remove() {
	tenant, queue := x.name()
	x.removeOne(tenant, queue, false)
}

// removeOne deletes a queue. unsure: the model does not say whether it is there.
func (x *machine) removeOne(tenant, queue string, unsure bool) {
	q := x.m.queue(tenant, queue)
	existed := x.e.Delete(x.now, tenant, queue, &x.wakes)
	x.note("delete %s/%s = %v", tenant, queue, existed)
	if existed != (q != nil) && !unsure {
		x.fail("delete answers %v for a queue that was there: %v", existed, q != nil)
	}
	if q != nil {
		x.m.delete(q, x.now)
	}
	x.after()
}

func (x *machine) reset() {
	tenant, queue := x.name()
	want := x.m.reset(x.m.queue(tenant, queue))
	dropped := x.e.Reset(x.now, tenant, queue, &x.wakes)
	x.note("reset %s/%s = %d", tenant, queue, dropped)
	if dropped != int64(want) {
		x.fail("reset dropped %d, want %d", dropped, want)
	}
	x.after()
}

// sync deletes the queues of which the contract leaves open what a group still knows.
func (x *machine) sync(vague []*modelQueue) {
	for _, tenant := range modelTenants {
		for _, queue := range modelQueues {
			if slices.Contains(vague, x.m.queue(tenant, queue)) && x.m.queue(tenant, queue) != nil {
				x.removeOne(tenant, queue, true)
			}
		}
	}
}

func (x *machine) closeSlot() {
	slot := x.c.n(x.m.cfg.Slots)
	if x.m.closed[slot] {
		return
	}
	x.advance(0) // what is due has happened, however late the shell is
	before := x.e.Stats()
	held := 0
	for _, q := range x.m.queues {
		for p, r := range q.rings {
			if x.m.cfg.SlotOf(q.tenant, q.name, p) == slot {
				for _, msg := range r.msgs {
					if msg.settledAt == modelNever {
						held++
					}
				}
			}
		}
	}
	x.e.CloseSlots(x.now, []int{slot}, &x.wakes)
	x.note("close slot %d", slot)
	lost, moved, vague := x.m.close(slot)
	after := x.e.Stats()
	if n := after.Wipes - before.Wipes; n > int64(lost) || (held > 0 && n == 0) {
		x.fail("%d rings wiped, want %d", n, lost)
	}
	if n := after.Moved - before.Moved; n < int64(held) || n > int64(moved) {
		x.fail("%d messages moved, want %d to %d", n, held, moved)
	}
	x.woken()
	for _, q := range x.m.queues {
		for _, w := range q.waiters {
			if w.req.Partition != "" && x.m.isClosed(q.tenant, q.name, w.req.Partition) {
				x.fail("%s/%s partition %s: a waiter was not told to move", q.tenant, q.name, w.req.Partition)
			}
		}
	}
	x.quiet()
	x.sync(vague)
}

func (x *machine) openSlot() {
	slot := x.c.n(x.m.cfg.Slots)
	for range x.m.cfg.Slots {
		if x.m.closed[slot] {
			break
		}
		slot = (slot + 1) % x.m.cfg.Slots
	}
	if !x.m.closed[slot] {
		return
	}
	x.e.OpenSlots([]int{slot})
	x.note("open slot %d", slot)
	delete(x.m.closed, slot)
	x.after()
}

// idle lets everybody be away: long enough for queues to be collected, or long enough for groups to be forgotten too.
func (x *machine) idle(forget bool) {
	x.withdrawAll()
	d := 25 * time.Minute
	if forget {
		d = 100 * time.Minute
	}
	x.note("idle for %v", d)
	x.advance(d)
	vague := x.m.idle(x.now, forget)
	x.sync(vague)
	x.gauges()
}

func (x *machine) withdrawAll() {
	for _, tenant := range modelTenants {
		for _, queue := range modelQueues {
			for q := x.m.queue(tenant, queue); q != nil && len(q.waiters) > 0; {
				x.withdrawOne(q.waiters[0], true)
			}
		}
	}
}

// end empties the engine: nothing may be left in its accounts.
func (x *machine) end() {
	x.gauges()
	x.withdrawAll()
	for _, tenant := range modelTenants {
		for _, queue := range modelQueues {
			x.removeOne(tenant, queue, false)
		}
	}
	x.advance(3 * time.Second)
	s := x.e.Stats()
	if s.Queues != 0 || s.Waiters != 0 || s.Bytes != x.base.Bytes || s.LeaseBytes != 0 {
		x.fail("after everything was deleted: %+v, at the start: %+v", s, x.base)
	}
	for _, tenant := range modelTenants {
		if n := x.e.Usage(tenant); n != 0 {
			x.fail("after everything was deleted tenant %s uses %d bytes", tenant, n)
		}
	}
}

// gauges compares everything that can be read.
func (x *machine) gauges() {
	if x.next <= x.now {
		x.advance(0)
	}
	x.quiet()
	waiters, size := 0, 0
	for _, tenant := range modelTenants {
		page := x.e.Queues(x.now, tenant, "", "", 100)
		listed := map[string]QueueInfo{}
		for _, info := range page.Queues {
			listed[info.Queue] = info
		}
		if page.More || page.Count != len(page.Queues) {
			x.fail("queues of %s: %+v", tenant, page)
		}
		for _, queue := range modelQueues {
			q := x.m.queue(tenant, queue)
			info, ok := listed[queue]
			delete(listed, queue)
			d, exists := x.e.Depth(x.now, tenant, queue, "", "", 100, &x.wakes)
			if ok != (q != nil) || exists != ok {
				x.fail("%s/%s is listed: %v, has a depth: %v, is there: %v", tenant, queue, ok, exists, q != nil)
			}
			if q != nil {
				waiters += len(q.waiters)
				_, n := q.held()
				size += n
				x.info(q, &info)
				x.depth(q, &d, "")
				x.depthOf(q)
			}
		}
		if len(listed) > 0 {
			x.fail("queues of %s that nobody made: %v", tenant, listed)
		}
	}
	s := x.e.Stats()
	if s.Queues != int64(len(x.m.queues)) || s.Waiters != int64(waiters) || s.Bytes < int64(size) {
		x.fail("stats %+v; %d queues, %d waiters, %d bytes", s, len(x.m.queues), waiters, size)
	}
	if s.Pushed != x.m.pushed || s.Popped != x.m.popped || s.Drops != x.m.drops {
		x.fail("stats %+v; pushed %d, popped %d, drops %+v", s, x.m.pushed, x.m.popped, x.m.drops)
	}
}

func (x *machine) info(q *modelQueue, info *QueueInfo) {
	n, size := q.held()
	ln, lsize := q.lingering()
	if info.Depth < int64(n) || info.Depth > int64(n+ln) || info.Bytes < int64(size) || info.Bytes > int64(size+lsize) {
		x.fail("%s/%s: depth %d bytes %d, want %d and %d, lingering %d and %d\n%s",
			q.tenant, q.name, info.Depth, info.Bytes, n, size, ln, lsize, q.dump())
	}
	if info.Declared != q.declared || info.Drops != q.drops || info.Options != q.opts ||
		info.Groups != len(q.groups) || info.Partitions != len(q.rings) {
		x.fail("%s/%s: %+v, want declared %v drops %+v groups %d partitions %d options %+v",
			q.tenant, q.name, *info, q.declared, q.drops, len(q.groups), len(q.rings), q.opts)
	}
}

// pending is the group's backlog; unknown groups see everything that is not settled.
func (q *modelQueue) pending(r *modelRing, group string) int {
	if q.groups[group] == nil {
		n := 0
		for _, msg := range r.msgs {
			if msg.settledAt == modelNever {
				n++
			}
		}
		return n
	}
	if !q.knows(r, group) {
		return 0
	}
	return len(q.deliverable(r, group))
}

func (q *modelQueue) backlog(group string) int {
	n := 0
	for _, r := range q.rings {
		n += q.pending(r, group)
	}
	return n
}

// depthOf asks for the backlog of one group, known or not.
func (x *machine) depthOf(q *modelQueue) {
	group := []string{QueueMode, "g1", "g2", "nobody"}[x.c.n(4)]
	d, _ := x.e.Depth(x.now, q.tenant, q.name, group, "", 100, &x.wakes)
	x.depth(q, &d, group)
}

func (x *machine) depth(q *modelQueue, d *Depth, group string) {
	by := []string{group} // the groups by which the partitions may be counted
	if group == "" {
		by = nil
		worst := -1
		for g := range q.groups {
			if g == QueueMode {
				continue
			}
			if n := q.backlog(g); n > worst {
				worst, by = n, []string{g}
			} else if n == worst {
				by = append(by, g)
			}
		}
		if by == nil {
			by = []string{QueueMode}
		}
	}
	if want := q.backlog(by[0]); d.Pending != int64(want) || d.Declared != q.declared {
		x.fail("%s/%s group %q: pending %d declared %v, want %d %v", q.tenant, q.name, group, d.Pending, d.Declared, want, q.declared)
	}
	if !slices.ContainsFunc(by, func(g string) bool { return x.partitionsBy(q, d, g) }) {
		x.fail("%s/%s group %q: partitions %+v, %d with a backlog, are those of none of %v",
			q.tenant, q.name, group, d.Partitions, d.PartitionsPending, by)
	}
	_, size := q.held()
	_, lsize := q.lingering()
	if d.Bytes < int64(size) || d.Bytes > int64(size+lsize) {
		x.fail("%s/%s: bytes %d, want %d, lingering %d", q.tenant, q.name, d.Bytes, size, lsize)
	}
	oldest, any := Time(math.MaxInt64), false
	for _, r := range q.rings {
		for _, msg := range r.msgs {
			if msg.settledAt == modelNever {
				oldest, any = min(oldest, msg.pushed), true
			}
		}
	}
	want := Time(0)
	if any {
		want = x.now - oldest
	}
	if d.OldestAge > want || d.OldestAge < want-Time(instant) {
		x.fail("%s/%s: oldest age %d, want %d", q.tenant, q.name, d.OldestAge, want)
	}
	x.groupsOf(q, d)
}

func (x *machine) partitionsBy(q *modelQueue, d *Depth, group string) bool {
	if len(d.Partitions) != len(q.rings) || d.More {
		return false
	}
	backlogs := 0
	for i, p := range d.Partitions {
		r := q.rings[p.Partition]
		if r == nil || (i > 0 && d.Partitions[i-1].Partition >= p.Partition) {
			return false
		}
		n := q.pending(r, group)
		if p.Pending != int64(n) {
			return false
		}
		if n > 0 {
			backlogs++
		}
	}
	return d.PartitionsPending == backlogs
}

func (x *machine) groupsOf(q *modelQueue, d *Depth) {
	if len(d.Groups) != len(q.groups) {
		x.fail("%s/%s: groups %+v, want %d", q.tenant, q.name, d.Groups, len(q.groups))
	}
	for i, g := range d.Groups {
		if q.groups[g.Group] == nil || (i > 0 && d.Groups[i-1].Group >= g.Group) {
			x.fail("%s/%s: groups %+v", q.tenant, q.name, d.Groups)
		}
		leased, skipped, unsure := 0, 0, 0
		for _, r := range q.rings {
			for _, msg := range r.msgs {
				if s := msg.states[g.Group]; s != nil && s.kind == modelLeased {
					leased++
				}
			}
			skipped += r.skipped[g.Group]
			unsure += r.unsure[g.Group]
		}
		if g.Pending != int64(q.backlog(g.Group)) || g.Leased != int64(leased) ||
			g.Skipped < int64(skipped) || g.Skipped > int64(skipped+unsure) {
			x.fail("%s/%s: %+v, want pending %d leased %d skipped %d to %d", q.tenant, q.name, g,
				q.backlog(g.Group), leased, skipped, skipped+unsure)
		}
	}
}
