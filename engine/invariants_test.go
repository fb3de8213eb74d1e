package engine

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"
)

// checkInvariants looks at every queue and compares what the engine keeps in sums and indexes with what it holds.
func checkInvariants(e *Engine) error {
	var total, leases, queues int64
	tenants := map[string]int64{}
	for i := range e.shards {
		s := &e.shards[i]
		n := 0
		for _, q := range s.queues {
			for ; q != nil; q = q.chain {
				n++
				q.mu.Lock()
				extra, err := checkQueue(q)
				total += q.charged
				tenants[q.tenant.name] += q.charged
				leases += extra
				q.mu.Unlock()
				if err != nil {
					return fmt.Errorf("queue %s: %w", q.name, err)
				}
			}
		}
		if n != s.n {
			return fmt.Errorf("shard says %d queues, has %d", s.n, n)
		}
		queues += int64(n)
		for k, it := range s.timers.items {
			if it.x.timerPos != int32(k) || it.x.armed != it.key {
				return fmt.Errorf("timer of %s: pos %d armed %d, in heap %d at %d", it.x.name, it.x.timerPos, it.x.armed, k, it.key)
			}
		}
	}
	if queues != e.queues.Load() {
		return fmt.Errorf("%d queues, counted %d", queues, e.queues.Load())
	}
	if total != e.bytes.used.Load() {
		return fmt.Errorf("footprint %d, sum of the queues %d", e.bytes.used.Load(), total)
	}
	for name, n := range tenants {
		if e.Usage(name) != n {
			return fmt.Errorf("tenant %s: footprint %d, sum %d", name, e.Usage(name), n)
		}
	}
	if leases != e.leases.Load() {
		return fmt.Errorf("extra leases %d, sum %d", e.leases.Load(), leases)
	}
	return nil
}

func checkQueue(q *queue) (extra int64, err error) {
	b := q.body
	if b == nil {
		return 0, nil
	}
	if b.delta != 0 {
		return 0, fmt.Errorf("delta %d left", b.delta)
	}
	var held, settled, parked, blocks int
	var bytes, settledBytes int64
	cost := queueCost + nameCost(q.name) + bodyCost
	for _, g := range b.groups.items {
		cost += nameCost(g.name)
		leased := 0
		for i, c := range g.cursors {
			if c.groupPos != int32(i) || c.g != g {
				return 0, fmt.Errorf("group %s: cursor %d is lost", g.name, i)
			}
			leased += c.leased
			parked += c.line.waiters.n
		}
		parked += g.line.waiters.n
		if leased != g.leased {
			return 0, fmt.Errorf("group %s: leased %d, cursors say %d", g.name, g.leased, leased)
		}
		if g.counted {
			n := 0
			for _, r := range b.rings.items {
				if c, ok := r.readers.get(g); ok {
					n += c.deliverable()
				} else {
					n += r.heldN
				}
			}
			if n != g.count && (!g.capped || n < g.count) {
				return 0, fmt.Errorf("group %s: counts %d deliverable, there are %d", g.name, g.count, n)
			}
		}
		if g.whole {
			for _, r := range b.rings.items {
				c, ok := r.readers.get(g)
				n := r.heldN
				if ok {
					n = c.deliverable()
				}
				found := ok && g.ready.has(c) || r.roster >= 0 && r.stamp > g.scanned
				if n > 0 && !found {
					return 0, fmt.Errorf("group %s: %d deliverable in %s that nobody would find", g.name, n, r.name)
				}
			}
		}
	}
	cost += int64(max(b.groups.len()-1, 0)) * groupCost
	for _, r := range b.rings.items {
		if err := checkRing(b, r); err != nil {
			return 0, fmt.Errorf("ring %s: %w", r.name, err)
		}
		held += r.heldN
		bytes += r.bytes
		if r.epoch == b.epoch {
			settled += r.settledN
			settledBytes += r.settledBytes
		}
		cost += ringCost + nameCost(r.name) + int64(max(r.readers.len()-1, 0))*cursorCost
		for s := r.first; s != nil; s = s.next {
			cost += s.cost
		}
		for _, c := range r.readers.items {
			for _, k := range c.blocks.items {
				blocks++
				if k.extra {
					extra += blockCost
				}
			}
		}
	}
	cost += int64(b.parked) * waiterCost
	for i := range b.trash {
		for _, k := range b.trash[i].items {
			if k.extra {
				extra += blockCost
			}
		}
	}
	switch {
	case held != b.held || bytes != b.bytes:
		return 0, fmt.Errorf("holds %d messages of %d bytes, rings say %d, %d", b.held, b.bytes, held, bytes)
	case settled != b.settledN || settledBytes != b.settledBytes:
		return 0, fmt.Errorf("settled %d of %d bytes, rings say %d, %d", b.settledN, b.settledBytes, settled, settledBytes)
	case parked != b.parked:
		return 0, fmt.Errorf("parked %d, lines say %d", b.parked, parked)
	case len(b.forgets) == 0 && cost != q.charged:
		return 0, fmt.Errorf("is charged %d, costs %d", q.charged, cost)
	}
	leasing := 0
	for i, it := range b.leases.items {
		if it.x.duePos != int32(i) || it.x.due != it.key {
			return 0, fmt.Errorf("lease block at %d has position %d, key %d for %d", i, it.x.duePos, it.key, it.x.due)
		}
		leasing++
	}
	for i, it := range b.heads.items {
		if it.x.headPos != int32(i) || it.x.headAt != it.key {
			return 0, fmt.Errorf("head of %s: position %d for %d, key %d for %d", it.x.name, it.x.headPos, i, it.key, it.x.headAt)
		}
	}
	return extra, nil
}

func checkRing(b *body, r *ring) error {
	var n, settled int
	var bytes int64
	base := r.tail
	pins := map[uint64]int{}
	for _, c := range r.readers.items {
		leased, waiting := 0, 0
		for _, k := range c.blocks.items {
			leased += bits.OnesCount16(k.leased)
			waiting += bits.OnesCount16(k.waiting)
			if k.leased&k.waiting != 0 || k.late&^k.waiting != 0 || k.leased|k.waiting == 0 {
				return fmt.Errorf("block at %d: leased %b waiting %b late %b", k.first, k.leased, k.waiting, k.late)
			}
			for i := 0; i < rangeSize; i++ {
				if (k.leased|k.waiting)&(1<<i) != 0 {
					pins[k.first+uint64(i)]++
				}
			}
			if (k.duePos >= 0) != (k.leased != 0) || (k.waitPos >= 0) != (k.waiting != 0) {
				return fmt.Errorf("block at %d is in the wrong heaps", k.first)
			}
		}
		if leased != c.leased || waiting != c.waitingN {
			return fmt.Errorf("group %s: leased %d waiting %d, blocks say %d, %d", c.g.name, c.leased, c.waitingN, leased, waiting)
		}
		unseen := 0
		for s := r.first; s != nil; s = s.next {
			for i := range s.entries {
				if s.isHeld(i) && (c.atBase() || s.first+uint64(i) >= c.pos) {
					unseen++
				}
			}
		}
		if unseen != c.unseen() {
			return fmt.Errorf("group %s: unseen %d, counted %d (pos %d, holes %d, base %d, tail %d)", c.g.name, unseen, c.unseen(), c.pos, c.holes, r.base, r.tail)
		}
	}
	fresh := r.epoch == b.epoch
	for s := r.first; s != nil; s = s.next {
		h, pinned := 0, 0
		if s.next == nil && s != r.last || s.next != nil && s.next.prev != s {
			return fmt.Errorf("segments are not linked")
		}
		for i := range s.entries {
			if !s.isHeld(i) {
				continue
			}
			e := &s.entries[i]
			seq := s.first + uint64(i)
			h++
			n++
			bytes += int64(e.size)
			base = min(base, seq)
			if int(e.pins) != pins[seq] {
				return fmt.Errorf("message %d has %d pins, blocks say %d", seq, e.pins, pins[seq])
			}
			if e.pins > 0 {
				pinned++
			}
			if fresh && r.isSettled(seq, e) {
				settled++
			}
			delete(pins, seq)
		}
		if h != s.heldN || pinned != s.pinned {
			return fmt.Errorf("segment %d holds %d, %d pinned; counted %d, %d", s.first, s.heldN, s.pinned, h, pinned)
		}
		if h == 0 && s != r.last {
			return fmt.Errorf("segment %d is empty and still linked", s.first)
		}
	}
	switch {
	case len(pins) > 0:
		return fmt.Errorf("leases on messages that are gone: %v", pins)
	case n != r.heldN || bytes != r.bytes:
		return fmt.Errorf("holds %d of %d bytes, counted %d, %d", r.heldN, r.bytes, n, bytes)
	case base != r.base:
		return fmt.Errorf("base is %d, should be %d", r.base, base)
	case fresh && settled != r.settledN:
		return fmt.Errorf("settled %d, counted %d (low %d)", r.settledN, settled, r.low)
	case (r.roster >= 0) != (r.heldN > 0) || (r.headPos >= 0) != (r.heldN > 0):
		return fmt.Errorf("holds %d, roster %d, head %d", r.heldN, r.roster, r.headPos)
	}
	// What every group has passed and none has pinned is settled, unless a sweep is still to come.
	if fresh && len(b.sweeps) == 0 && len(b.forgets) == 0 && r.known() > 0 && r.places.len() == r.known() && r.low < uint64(r.places.minKey()) {
		return fmt.Errorf("low is %d, the lowest cursor %d", r.low, r.places.minKey())
	}
	return nil
}

// TestInvariants drives the engine at random, without a model, and checks its sums after each step.
func TestInvariants(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 10
	}
	for seed := 0; seed < seeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			driveAtRandom(t, uint64(seed), 1500)
		})
	}
}

func driveAtRandom(t *testing.T, seed uint64, steps int) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	e, err := New(Config{
		Slots: 7, SlotOf: func(_, q, p string) int { return (len(q) + int(p[len(p)-1])) % 7 },
		MaxBytes: 1 << 20, QueueMaxBytes: 100_000, QueueMaxLength: 700, Lease: 3 * time.Second, RetryLimit: 3,
		ImplicitIdle: 60 * time.Second, GroupIdle: 40 * time.Second, MaxGroups: 6, MaxPartitions: 6,
	})
	if err != nil {
		t.Fatal(err)
	}
	pick := func(s ...string) string { return s[rnd.IntN(len(s))] }
	var wakes Wakes
	var deliveries []Delivery
	var waiters []*Waiter
	now := Time(0)
	took := func(d Delivery) {
		if len(d.Messages) > 0 && !d.AutoAck {
			deliveries = append(deliveries, d)
		}
	}
	for i := 0; i < steps; i++ {
		if rnd.IntN(3) == 0 {
			now += Time(rnd.Int64N(int64(second) / 2))
		}
		if rnd.IntN(60) == 0 {
			now += Time(rnd.Int64N(60)) * second
		}
		tenant, queue := pick("t", "t", "u"), pick("a", "b", "ccc")
		group := pick("", "", "g1", "g2", "g3")
		partition := pick("", "", "p1", "p2", "p3")
		what := ""
		switch x := rnd.IntN(100); {
		case x < 30:
			n := 1 + rnd.IntN(4)
			if rnd.IntN(10) == 0 {
				n = 1 + rnd.IntN(800)
			}
			m := make([]Message, n)
			for j := range m {
				size := rnd.IntN(40)
				if rnd.IntN(50) == 0 {
					size = rnd.IntN(5000)
				}
				m[j] = Message{Payload: make([]byte, size)}
			}
			what = fmt.Sprint("push ", tenant, queue, partition, n)
			_, _ = e.Push(now, &PushRequest{tenant, queue, partition, m}, &wakes)
		case x < 55:
			var d Delivery
			batch := 1 + rnd.IntN(5)
			if rnd.IntN(5) == 0 {
				batch = 1000
			}
			what = fmt.Sprint("pop ", tenant, queue, partition, group, batch)
			_, _ = e.Pop(now, &PopRequest{Tenant: tenant, Queue: queue, Partition: partition, Group: group, Batch: batch, AutoAck: rnd.IntN(3) == 0}, &d, &wakes)
			took(d)
		case x < 65:
			w := &Waiter{}
			what = fmt.Sprint("park ", tenant, queue, partition, group)
			parked, _, err := e.Park(now, &PopRequest{Tenant: tenant, Queue: queue, Partition: partition, Group: group, Batch: 1 + rnd.IntN(5), AutoAck: rnd.IntN(3) == 0}, w, &wakes)
			if parked {
				waiters = append(waiters, w)
			} else if err == nil {
				took(w.Delivery)
			}
		case x < 70 && len(waiters) > 0:
			j := rnd.IntN(len(waiters))
			w := waiters[j]
			waiters = append(waiters[:j], waiters[j+1:]...)
			what = "withdraw"
			if !e.Withdraw(now, w, rnd.IntN(2) == 0, &wakes) && !w.Woken() {
				took(w.Delivery)
			}
		case x < 88 && len(deliveries) > 0:
			j := rnd.IntN(len(deliveries))
			d := deliveries[j]
			if rnd.IntN(4) > 0 {
				deliveries = append(deliveries[:j], deliveries[j+1:]...)
			}
			what = "ack"
			if rnd.IntN(6) == 0 {
				e.GiveBack(now, &d, rnd.IntN(2) == 0, &wakes)
				break
			}
			req := AckRequest{Tenant: d.tenant, Queue: d.queue, Group: d.group}
			for _, m := range d.Messages {
				verb := Complete
				if rnd.IntN(3) == 0 {
					verb = Nack
				}
				req.Acks = append(req.Acks, Ack{ID: ID{m.Incarnation, m.Partition, m.Seq, m.Attempts}, Verb: verb})
			}
			e.Ack(now, &req, nil, &wakes)
		case x < 91:
			o := e.InForce(Settings{})
			o.MaxLength = int64(5 + rnd.IntN(600))
			o.Policy = Policy(rnd.IntN(2))
			o.TTL = time.Duration(rnd.IntN(3)*4) * time.Second
			if rnd.IntN(2) == 0 {
				o.Window, o.WindowCount = time.Duration(rnd.IntN(3))*time.Second, rnd.IntN(6)
			}
			what = fmt.Sprintf("declare %s%s %+v", tenant, queue, o)
			_ = e.Declare(now, tenant, queue, o, &wakes)
		case x < 92:
			what = "reset " + tenant + queue
			e.Reset(now, tenant, queue, &wakes)
		case x < 93:
			what = "delete " + tenant + queue
			e.Delete(now, tenant, queue, &wakes)
		case x < 94:
			slots := []int{rnd.IntN(7)}
			what = fmt.Sprint("close ", slots)
			e.CloseSlots(now, slots, &wakes)
			if rnd.IntN(2) == 0 {
				e.OpenSlots([]int{0, 1, 2, 3, 4, 5, 6})
			}
		case x < 95:
			what = "pause"
			e.SetPaused(now, rnd.IntN(3) == 0, &wakes)
		default:
			what = "tick"
			for next := e.Tick(now, &wakes); next <= now; next = e.Tick(now, &wakes) {
			}
		}
		for _, w := range wakes {
			if w.Waiter.line != nil {
				t.Fatalf("seed %d step %d %s: a waiter was woken and is still parked", seed, i, what)
			}
			took(w.Waiter.Delivery)
			for j := range waiters {
				if waiters[j] == w.Waiter {
					waiters = append(waiters[:j], waiters[j+1:]...)
					break
				}
			}
		}
		wakes = wakes[:0]
		if err := checkInvariants(e); err != nil {
			t.Fatalf("seed %d step %d %s: %v", seed, i, what, err)
		}
		if i%7 == 0 {
			e.Depth(now, tenant, queue, group, "", 100, &wakes)
			e.Queues(now, tenant, "", "", 100)
		}
	}
	// Everything goes, and nothing is left of it.
	e.SetPaused(now, false, &wakes)
	for _, w := range waiters {
		e.Withdraw(now, w, true, &wakes)
	}
	for _, tenant := range []string{"t", "u"} {
		for _, q := range []string{"a", "b", "ccc"} {
			e.Delete(now, tenant, q, &wakes)
		}
	}
	if s := e.Stats(); s.Bytes != 0 || s.Queues != 0 || s.Waiters != 0 || s.LeaseBytes != 0 {
		t.Fatalf("seed %d: left behind %+v", seed, s)
	}
	if len(e.tenants.byName) != 0 {
		t.Fatalf("seed %d: %d tenants left behind", seed, len(e.tenants.byName))
	}
}
