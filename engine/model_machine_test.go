package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// choice is where the machine takes its decisions from: a seed, or the bytes of a fuzzer.
type choice struct {
	rng  *rand.Rand
	data []byte
}

func (c *choice) n(k int) int {
	if c.rng != nil {
		return c.rng.IntN(k)
	}
	if len(c.data) == 0 {
		return 0
	}
	b := c.data[0]
	c.data = c.data[1:]
	return int(b) % k
}

func (c *choice) one(in int) bool { return c.n(in) == 0 }

func (c *choice) over() bool { return c.rng == nil && len(c.data) == 0 }

// machine drives an engine and the model with the same operations and compares them.
type machine struct {
	c     *choice
	e     *Engine
	m     *model
	now   Time
	next  Time // when the engine wants its next Tick
	wakes Wakes
	base  Stats

	made    int // messages
	issued  []issued
	spare   []*Waiter
	held    []heldDelivery
	history []string
}

// issued is a delivery whose id somebody may ack.
type issued struct {
	tenant, queue, group string
	id                   ID
}

// heldDelivery is a delivery that may be given back.
type heldDelivery struct {
	tenant, queue, group string
	d                    *Delivery
}

// broken ends a run: the engine and the model disagree.
type broken struct{ text string }

func (x *machine) fail(format string, args ...any) {
	panic(broken{fmt.Sprintf(format, args...)})
}

func (x *machine) note(format string, args ...any) {
	x.history = append(x.history, fmt.Sprintf("%12.6f ", float64(x.now)/1e9)+fmt.Sprintf(format, args...))
}

var (
	modelTenants    = []string{"t1", "t2"}
	modelQueues     = []string{"a", "b", "c"}
	modelPartitions = []string{"Default", "p:1", "p.2", "p3"}
	modelGroups     = []string{"", "g1", "g2", "g3"}
)

func newMachine(c *choice) *machine {
	x := &machine{c: c, now: Time(time.Hour), next: math.MaxInt64}
	incs := uint64(0)
	cfg := Config{
		Slots: 5,
		SlotOf: func(tenant, queue, partition string) int {
			n := 0
			for _, b := range []byte(tenant + queue + partition) {
				n += int(b)
			}
			return n % 5
		},
		MaxBytes:       1 << 30,
		QueueMaxBytes:  64,
		QueueMaxLength: 8,
		Lease:          time.Duration(1+c.n(3)) * 700 * time.Millisecond,
		RetryLimit:     c.n(4),
		ImplicitIdle:   10 * time.Minute,
		GroupIdle:      40 * time.Minute,
		MaxGroups:      4 - c.n(2),
		MaxPartitions:  4 - c.n(2),
		Incarnation:    func() uint64 { incs++; return incs * 0x9e3779b97f4a7c15 },
		Alarm:          func(due Time) { x.next = min(x.next, due) },
	}
	e, err := New(cfg)
	if err != nil {
		x.fail("New: %v", err)
	}
	x.e, x.m, x.base = e, newModel(cfg), e.Stats()
	if c.one(3) {
		x.m.maxQueues["t1"] = 2
		e.SetLimits("t1", &Limits{MaxQueues: 2})
	}
	return x
}

// run makes the steps and returns what broke, or "".
func (x *machine) run(steps int) (text string) {
	step := 0
	defer func() {
		if r := recover(); r != nil {
			b, ok := r.(broken)
			if !ok {
				b.text = fmt.Sprintf("panic: %v", r)
				if len(x.history) > 0 {
					fmt.Println(strings.Join(x.history[max(0, len(x.history)-30):], "\n"))
				}
				panic(r)
			}
			text = fmt.Sprintf("step %d: %s\n%s", step, b.text,
				strings.Join(x.history[max(0, len(x.history)-30):], "\n"))
		}
	}()
	for ; step < steps && !x.c.over(); step++ {
		x.step()
		if x.c.one(8) {
			x.gauges()
		}
	}
	x.end()
	return ""
}

func (x *machine) step() {
	switch n := x.c.n(200); {
	case n < 40:
		x.push()
	case n < 80:
		x.pop()
	case n < 100:
		x.park()
	case n < 150:
		x.ack()
	case n < 160:
		x.giveBack()
	case n < 170:
		x.withdraw(x.c.one(2))
	case n < 174:
		x.peek()
	case n < 179:
		x.declare()
	case n < 181:
		x.remove()
	case n < 183:
		x.reset()
	case n < 185:
		x.closeSlot()
	case n < 194:
		x.openSlot()
	case n == 194 && x.c.one(3):
		x.idle(x.c.one(2))
	default:
		x.pass()
	}
	if x.c.one(3) {
		x.pass()
	}
}

var modelSteps = []time.Duration{
	0, 1, time.Millisecond, 5 * time.Millisecond, 40 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond,
	700 * time.Millisecond, 999 * time.Millisecond, 1500 * time.Millisecond, 2500 * time.Millisecond,
}

// pass lets time pass: step by step as the engine asks for it, or in one late leap when nobody waits.
func (x *machine) pass() {
	d := modelSteps[x.c.n(len(modelSteps))] + time.Duration(x.c.n(250))*977
	if x.c.one(6) && x.mayLeap() {
		x.now += Time(d)
		x.note("late leap")
		for _, q := range x.m.queues { // a late shell reclaims late
			for _, r := range q.rings {
				for _, msg := range r.msgs {
					if msg.settledAt != modelNever {
						msg.settledAt, msg.maybe = x.now, true
					}
				}
			}
		}
		x.m.allDue(x.now)
		return
	}
	x.advance(d)
}

// mayLeap: when leases and ttls are late together, the contract does not say which counts.
func (x *machine) mayLeap() bool {
	if x.next <= x.now {
		return false // the engine is late already
	}
	for _, q := range x.m.queues {
		if len(q.waiters) > 0 {
			return false
		}
		if q.opts.TTL > 0 {
			return false
		}
	}
	return true
}

func (x *machine) advance(d time.Duration) {
	to := x.now + Time(d)
	for turns := 0; ; turns++ {
		if due := x.m.nextDue(); due <= to && x.next > due+Time(instant) {
			x.fail("something is due at %d, and the engine wants to be called at %d", due, x.next)
		}
		if x.next > to {
			break
		}
		if turns > 2000 {
			x.fail("Tick never ends: next %d, now %d", x.next, x.now)
		}
		x.now = max(x.now, x.next)
		x.tick()
	}
	x.now = to
	x.m.allDue(to)
}

func (x *machine) tick() {
	x.next = math.MaxInt64
	next := x.e.Tick(x.now, &x.wakes)
	x.next = min(x.next, next)
	x.m.allDue(x.now)
	x.woken()
	if x.next > x.now {
		x.quiet()
	}
}

// woken follows the answers to parked waiters.
func (x *machine) woken() {
	for _, wake := range x.wakes {
		w := wake.Waiter
		if !w.Woken() {
			x.fail("a woken waiter says that it is not")
		}
		mw := x.waiter(w)
		if mw == nil {
			x.fail("a waiter was woken that is not parked")
		}
		req := mw.req
		x.note("    wakes %s/%s partition %q group %q batch %d: %s", req.Tenant, req.Queue, req.Partition, req.Group,
			req.Batch, describe(w.Delivery.Messages))
		if err := x.m.wake(w, x.now); err != nil {
			x.fail("%v", err)
		}
		x.got(&req, &w.Delivery)
		if len(w.Delivery.Messages) == 0 {
			x.spare = append(x.spare, w)
		}
	}
	x.wakes = x.wakes[:0]
}

func (x *machine) waiter(w *Waiter) *modelWaiter {
	for _, q := range x.m.queues {
		for _, mw := range q.waiters {
			if mw.w == w {
				return mw
			}
		}
	}
	return nil
}

func (x *machine) quiet() {
	if err := x.m.quiet(x.now); err != nil {
		x.fail("%v", err)
	}
}

func (x *machine) after() {
	x.woken()
	x.quiet()
}

func describe(messages []Delivered) string {
	var b strings.Builder
	for i := range messages {
		d := &messages[i]
		fmt.Fprintf(&b, " %s@%s#%d.%d", strings.TrimRight(string(d.Payload), "."), d.Partition, d.Seq, d.Attempts)
	}
	return "[" + strings.TrimSpace(b.String()) + "]"
}

// got remembers the ids of a delivery.
func (x *machine) got(req *PopRequest, d *Delivery) {
	for i := range d.Messages {
		m := &d.Messages[i]
		x.issued = append(x.issued, issued{req.Tenant, req.Queue, req.Group, ID{m.Incarnation, strings.Clone(m.Partition), m.Seq, m.Attempts}})
	}
	if len(d.Messages) > 0 && !req.AutoAck {
		x.held = append(x.held, heldDelivery{req.Tenant, req.Queue, req.Group, d})
	}
}

func (x *machine) name() (tenant, queue string) {
	return modelTenants[x.c.n(2)], modelQueues[x.c.n(3)]
}

func (x *machine) partition() string {
	if x.c.one(3) {
		return ""
	}
	return modelPartitions[x.c.n(len(modelPartitions))]
}

func isOneOf(err error, allowed []error) bool {
	if len(allowed) == 0 {
		return err == nil
	}
	return slices.ContainsFunc(allowed, func(a error) bool { return errors.Is(err, a) })
}

func (x *machine) push() {
	tenant, queue := x.name()
	req := PushRequest{Tenant: tenant, Queue: queue, Partition: x.partition()}
	n := 1 + x.c.n(3)
	if x.c.one(15) {
		n = 12 * x.c.n(2)
	}
	for range n {
		x.made++
		p := fmt.Appendf(nil, "%d", x.made)
		size := x.c.n(12)
		if x.c.one(100) {
			size = 70
		}
		for len(p) < size {
			p = append(p, '.')
		}
		req.Messages = append(req.Messages, Message{Payload: p, Flags: uint32(x.made), Raw: x.made%3 == 0})
	}
	asked := req
	asked.Partition = strings.Clone(req.Partition)
	if req.Partition == "" {
		asked.Partition = DefaultPartition
	}
	allowed := x.m.refusals(&asked)
	inc, err := x.e.Push(x.now, &req, &x.wakes)
	x.note("push %s/%s partition %q: %d messages up to %d = %v", tenant, queue, req.Partition, n, x.made, err)
	if n == 0 {
		if err != nil || inc != 0 {
			x.fail("an empty push answers %x, %v", inc, err)
		}
		return
	}
	if !isOneOf(err, allowed) {
		x.fail("push answers %v, want %v", err, allowed)
	}
	if err != nil {
		if q := x.m.queue(tenant, queue); q != nil && len(x.wakes) == 0 {
			q.refused()
		}
		x.after()
		return
	}
	// The engine must have copied the payloads (R4).
	kept := asked
	kept.Messages = slices.Clone(asked.Messages)
	for i := range kept.Messages {
		kept.Messages[i].Payload = bytes.Clone(asked.Messages[i].Payload)
		clear(asked.Messages[i].Payload)
	}
	if err := x.m.push(&kept, inc, x.now); err != nil {
		x.fail("%v", err)
	}
	x.after()
	q := x.m.queue(tenant, queue)
	page := x.e.Queues(x.now, tenant, queue, "", 1)
	if len(page.Queues) != 1 || page.Queues[0].Depth > q.opts.MaxLength || page.Queues[0].Bytes > q.opts.MaxBytes {
		x.fail("after the push %+v exceeds its bounds", page.Queues)
	}
}

func (x *machine) popRequest() PopRequest {
	tenant, queue := x.name()
	return PopRequest{
		Tenant: tenant, Queue: queue, Partition: x.partition(), Group: modelGroups[x.c.n(len(modelGroups))],
		Batch: []int{0, 1, 2, 3, 20}[x.c.n(5)], MaxBytes: []int{0, 0, 0, 1, 15}[x.c.n(5)], AutoAck: x.c.one(4),
	}
}

// prepare waits until the answer to a group that comes now is clear, and tells what may refuse it.
func (x *machine) prepare(req *PopRequest) []error {
	for {
		q := x.m.queue(req.Tenant, req.Queue)
		if q == nil || !q.unclear(req.Partition, groupName(req.Group), x.now) {
			break
		}
		x.note("wait for lingering messages to go")
		x.advance(2*time.Second + 1)
	}
	if req.Partition != "" && x.m.isClosed(req.Tenant, req.Queue, req.Partition) {
		return []error{ErrClosed}
	}
	return x.m.mayCreate(req.Tenant, req.Queue, req.Partition, groupName(req.Group))
}

// entered makes what the pop created, and checks the incarnation it told.
func (x *machine) entered(req *PopRequest, one uint64, d *Delivery) *modelQueue {
	q := x.m.make(req.Tenant, req.Queue)
	q.meet(req.Partition, groupName(req.Group), x.now)
	want := uint64(0)
	if req.Partition != "" {
		if err := x.m.learn(q.rings[req.Partition], one); err != nil {
			x.fail("%v", err)
		}
		return q
	}
	for i := range d.Messages {
		if inc := d.Messages[i].Incarnation; i == 0 {
			want = inc
		} else if inc != want {
			want = 0
			break
		}
	}
	if one != want {
		x.fail("one ring answered: %x, want %x", one, want)
	}
	return q
}

func (x *machine) pop() {
	req := x.popRequest()
	allowed := x.prepare(&req)
	d := &Delivery{}
	one, err := x.e.Pop(x.now, &req, d, &x.wakes)
	x.note("pop %s/%s partition %q group %q batch %d bytes %d auto %v = %s %v", req.Tenant, req.Queue, req.Partition,
		req.Group, req.Batch, req.MaxBytes, req.AutoAck, describe(d.Messages), err)
	if !isOneOf(err, allowed) {
		x.fail("pop answers %v, want %v", err, allowed)
	}
	if err == nil {
		q := x.entered(&req, one, d)
		if err := x.m.claim(q, &req, d.Messages, x.now); err != nil {
			x.fail("%v", err)
		}
		x.got(&req, d)
	}
	x.after()
}

func (x *machine) park() {
	req := x.popRequest()
	group := groupName(req.Group)
	if q := x.m.queue(req.Tenant, req.Queue); q != nil {
		same := slices.ContainsFunc(q.waiters, func(w *modelWaiter) bool { return groupName(w.req.Group) == group })
		if (same && q.opts.Window > 0) || len(q.waiters) > 5 {
			return
		}
	}
	allowed := x.prepare(&req)
	w := &Waiter{}
	if n := len(x.spare); n > 0 {
		w, x.spare = x.spare[n-1], x.spare[:n-1]
		w.Delivery.Reset()
		w.Moved = false
	}
	parked, one, err := x.e.Park(x.now, &req, w, &x.wakes)
	x.note("park %s/%s partition %q group %q batch %d bytes %d auto %v = parked %v %s %v", req.Tenant, req.Queue,
		req.Partition, req.Group, req.Batch, req.MaxBytes, req.AutoAck, parked, describe(w.Delivery.Messages), err)
	if !isOneOf(err, allowed) {
		x.fail("park answers %v, want %v", err, allowed)
	}
	if err != nil {
		x.spare = append(x.spare, w)
		x.after()
		return
	}
	q := x.entered(&req, one, &w.Delivery)
	mw := &modelWaiter{w: w, req: req, q: q, early: modelNever, late: modelNever}
	n := q.count(req.Partition, group)
	if want := n == 0 || (q.opts.Window > 0 && n < mw.target()); parked != want {
		x.fail("parked %v with %d deliverable\n%s", parked, n, q.dump())
	}
	if parked && w.Woken() {
		x.fail("a waiter says that it was woken, before it was")
	}
	if parked {
		q.waiters = append(q.waiters, mw)
	} else {
		if err := x.m.claim(q, &req, w.Delivery.Messages, x.now); err != nil {
			x.fail("%v", err)
		}
		x.got(&req, &w.Delivery)
	}
	x.after()
}

func (x *machine) withdraw(gone bool) {
	var all []*modelWaiter
	for _, tenant := range modelTenants {
		for _, queue := range modelQueues {
			if q := x.m.queue(tenant, queue); q != nil {
				all = append(all, q.waiters...)
			}
		}
	}
	if len(all) == 0 {
		return
	}
	x.withdrawOne(all[x.c.n(len(all))], gone)
}

func (x *machine) withdrawOne(mw *modelWaiter, gone bool) {
	q, w := mw.q, mw.w
	n := q.count(mw.req.Partition, groupName(mw.req.Group))
	withdrawn := x.e.Withdraw(x.now, w, gone, &x.wakes)
	x.note("withdraw %s/%s partition %q group %q gone %v = %v %s", mw.req.Tenant, mw.req.Queue, mw.req.Partition,
		mw.req.Group, gone, withdrawn, describe(w.Delivery.Messages))
	if want := gone || n == 0; withdrawn != want || w.Woken() {
		x.fail("withdrawn %v woken %v with %d deliverable", withdrawn, w.Woken(), n)
	}
	q.remove(mw)
	if withdrawn {
		if len(w.Delivery.Messages) > 0 {
			x.fail("withdrawn with messages")
		}
		x.spare = append(x.spare, w)
	} else {
		if err := x.m.claim(q, &mw.req, w.Delivery.Messages, x.now); err != nil {
			x.fail("%v", err)
		}
		x.got(&mw.req, &w.Delivery)
	}
	if g := q.groups[groupName(mw.req.Group)]; g != nil {
		g.lastUse = x.now
	}
	x.after()
}

func (x *machine) ack() {
	if len(x.issued) == 0 {
		return
	}
	recent := x.issued[max(0, len(x.issued)-40):]
	first := recent[x.c.n(len(recent))]
	req := AckRequest{Tenant: first.tenant, Queue: first.queue, Group: first.group}
	verb := []Verb{Complete, Complete, Complete, Nack}[x.c.n(4)]
	req.Acks = append(req.Acks, Ack{ID: first.id, Verb: verb})
	q := x.m.queue(req.Tenant, req.Queue)
	parked := q != nil && len(q.waiters) > 0
	for i := x.c.n(4); i > 0 && !parked; i-- {
		other := recent[x.c.n(len(recent))]
		if other.tenant == req.Tenant && other.queue == req.Queue {
			a := Ack{ID: other.id, Verb: []Verb{Complete, Nack}[x.c.n(2)]}
			switch x.c.n(12) {
			case 0:
				a.ID.Attempt++
			case 1:
				a.ID.Seq += uint64(x.c.n(50))
			case 2:
				a.ID.Incarnation ^= 1
			case 3:
				a = Ack{Invalid: true}
			case 4:
				a.ID.Partition = "made up"
			}
			req.Acks = append(req.Acks, a)
		}
	}
	if x.c.one(12) {
		req.Group = modelGroups[x.c.n(len(modelGroups))]
	}
	outcomes, _ := x.e.Ack(x.now, &req, []Outcome{OutcomeUnavailable}, &x.wakes)
	var text []byte
	for i, a := range req.Acks {
		text = a.ID.Append(append(text, ' '))
		if i+1 < len(outcomes) {
			text = fmt.Appendf(text, " verb %d = %v", a.Verb, outcomes[i+1])
		}
	}
	x.note("ack %s/%s group %q%s", req.Tenant, req.Queue, req.Group, text)
	if len(outcomes) != len(req.Acks)+1 || outcomes[0] != OutcomeUnavailable {
		x.fail("%d acks made of one outcome %d", len(req.Acks), len(outcomes))
	}
	for i, a := range req.Acks {
		allowed, apply := x.m.ack(&req, a, x.now)
		if !slices.Contains(allowed, outcomes[i+1]) {
			x.fail("ack %d is answered %v, want %v", i, outcomes[i+1], allowed)
		}
		apply(outcomes[i+1])
	}
	x.after()
}

func (x *machine) giveBack() {
	if len(x.held) == 0 {
		return
	}
	i := max(0, len(x.held)-1-x.c.n(3))
	h := x.held[i]
	x.held = append(slices.Clone(x.held[:i]), x.held[i+1:]...)
	if len(x.held) > 20 {
		x.held = x.held[10:]
	}
	traced := x.c.one(2)
	q, group := x.m.queue(h.tenant, h.queue), groupName(h.group)
	for j := range h.d.Messages {
		d := &h.d.Messages[j]
		if q == nil || q.rings[d.Partition] == nil || q.rings[d.Partition].inc != d.Incarnation {
			continue
		}
		for _, msg := range q.rings[d.Partition].msgs {
			if msg.seqKnown && msg.seq == d.Seq && msg.state(group).kind == modelWaiting {
				return // its lease ran out before: whether the attempt still counts is open
			}
		}
	}
	x.e.GiveBack(x.now, h.d, traced, &x.wakes)
	x.note("give back to %s/%s group %q traced %v %s", h.tenant, h.queue, h.group, traced, describe(h.d.Messages))
	x.m.giveBack(q, group, h.d.Messages, traced)
	x.after()
}

func (x *machine) peek() {
	req := x.popRequest()
	q := x.m.queue(req.Tenant, req.Queue)
	if req.Partition == "" || q == nil || q.rings[req.Partition] == nil {
		return
	}
	r := q.rings[req.Partition]
	if !q.knows(r, groupName(req.Group)) {
		return
	}
	d := &Delivery{}
	err := x.e.Peek(x.now, &req, d, &x.wakes)
	x.note("peek %s/%s partition %q group %q = %s %v", req.Tenant, req.Queue, req.Partition, req.Group, describe(d.Messages), err)
	if err != nil || len(x.wakes) > 0 {
		x.fail("peek answers %v and wakes %d", err, len(x.wakes))
	}
	want := q.deliverable(r, groupName(req.Group))
	if len(d.Messages) > len(want) || (len(d.Messages) == 0 && len(want) > 0) || len(d.Messages) > max(1, req.Batch) {
		x.fail("peek sees %d of %d", len(d.Messages), len(want))
	}
	for i := range d.Messages {
		if !bytes.Equal(d.Messages[i].Payload, want[i].payload) {
			x.fail("peek sees %q, want %q", d.Messages[i].Payload, want[i].payload)
		}
	}
}
