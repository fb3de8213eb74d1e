package engine

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"time"
)

// The model is the contract written as an obvious, slow broker: plain slices and maps, scanned everywhere, one
// thread. It does not choose what the contract leaves open (which partition a pop without one turns to, the exact
// end of a lingering message): it checks that the engine's choice is allowed, and follows it.

const modelNever = Time(-1)

type modelKind uint8

const (
	modelUnseen modelKind = iota
	modelLeased
	modelWaiting
	modelSettled
)

// modelState is what one message is to one group.
type modelState struct {
	kind     modelKind
	attempts int
	deadline Time
	// expired: waiting because the lease ran out, so that its ack still counts (contract D6).
	expired bool
	// traced: given back with a trace; the contract leaves open whether its ack counts.
	traced bool
	// unread: given back without a trace, so the group has not seen it.
	unread bool
}

type modelMsg struct {
	payload  []byte
	flags    uint32
	raw      bool
	pushed   Time
	arrival  int
	seq      uint64
	seqKnown bool
	states   map[string]*modelState
	// settledAt is when the last group settled it, or never.
	settledAt Time
	// maybe: settled, and a push that needed room may have taken it.
	maybe bool
}

func (m *modelMsg) state(group string) *modelState {
	s := m.states[group]
	if s == nil {
		s = &modelState{}
		m.states[group] = s
	}
	return s
}

type modelRing struct {
	partition string
	inc       uint64
	msgs      []*modelMsg
	here      map[string]bool // groups that popped this partition by name
	skipped   map[string]int
	unsure    map[string]int // drops that may or may not count as skipped
}

type modelGroup struct {
	whole   bool
	lastUse Time
}

type modelQueue struct {
	tenant, name string
	declared     bool
	opts         Options
	rings        map[string]*modelRing
	groups       map[string]*modelGroup
	waiters      []*modelWaiter // in order of arrival
	drops        Drops
	removed      bool // something left the deliverable since the windows were last looked at
}

type modelWaiter struct {
	w   *Waiter
	req PopRequest
	q   *modelQueue
	// The window runs from the first deliverable message; what was taken meanwhile may have started it again, so it
	// began somewhere between early and late.
	early, late Time
}

type model struct {
	defaults  Options
	cfg       Config
	maxQueues map[string]int
	queues    map[[2]string]*modelQueue
	closed    map[int]bool
	incs      map[uint64]bool
	arrivals  int
	drops     Drops
	pushed    int64
	popped    int64
}

func newModel(cfg Config) *model {
	return &model{
		defaults:  cfg.InForce(Settings{}),
		cfg:       cfg,
		maxQueues: map[string]int{},
		queues:    map[[2]string]*modelQueue{},
		closed:    map[int]bool{},
		incs:      map[uint64]bool{},
	}
}

func groupName(g string) string {
	if g == "" {
		return QueueMode
	}
	return g
}

func (m *model) queue(tenant, name string) *modelQueue { return m.queues[[2]string{tenant, name}] }

func (m *model) isClosed(tenant, queue, partition string) bool {
	return m.closed[m.cfg.SlotOf(tenant, queue, partition)]
}

func (m *model) fresh(tenant, name string) *modelQueue {
	return &modelQueue{
		tenant: tenant, name: name, opts: m.defaults,
		rings: map[string]*modelRing{}, groups: map[string]*modelGroup{},
	}
}

func (m *model) make(tenant, name string) *modelQueue {
	q := m.queue(tenant, name)
	if q == nil {
		q = m.fresh(tenant, name)
		m.queues[[2]string{tenant, name}] = q
	}
	return q
}

// mayCreate is the refusals of a call that names this queue, this partition and this group; "" is none of it.
func (m *model) mayCreate(tenant, queue, partition, group string) []error {
	var refusals []error
	q := m.queue(tenant, queue)
	if q == nil {
		n := 0
		for k := range m.queues {
			if k[0] == tenant {
				n++
			}
		}
		if limit := m.maxQueues[tenant]; limit > 0 && n >= limit {
			refusals = append(refusals, ErrTenantQueues)
		}
		return refusals
	}
	if partition != "" && q.rings[partition] == nil && len(q.rings) >= m.cfg.MaxPartitions {
		refusals = append(refusals, ErrPartitions)
	}
	if group != "" && q.groups[group] == nil && len(q.groups) >= m.cfg.MaxGroups {
		refusals = append(refusals, ErrGroups)
	}
	return refusals
}

func (q *modelQueue) ring(partition string) *modelRing {
	r := q.rings[partition]
	if r == nil {
		r = &modelRing{
			partition: partition, here: map[string]bool{}, skipped: map[string]int{}, unsure: map[string]int{},
		}
		q.rings[partition] = r
	}
	return r
}

// learn notes the ring's incarnation: always the same for one ring, and never one that was used before (E4).
func (m *model) learn(r *modelRing, inc uint64) error {
	switch {
	case inc == 0:
		return fmt.Errorf("no incarnation told for partition %s", r.partition)
	case r.inc == inc:
		return nil
	case r.inc != 0:
		return fmt.Errorf("incarnation of %s changed from %x to %x", r.partition, r.inc, inc)
	case m.incs[inc]:
		return fmt.Errorf("a new ring of %s has an old incarnation %x", r.partition, inc)
	}
	r.inc = inc
	m.incs[inc] = true
	return nil
}

func (q *modelQueue) knows(r *modelRing, group string) bool {
	g := q.groups[group]
	return g != nil && (g.whole || r.here[group])
}

// meet makes the group known: in the whole queue, or in one partition (R3).
func (q *modelQueue) meet(partition, group string, now Time) {
	g := q.groups[group]
	if g == nil {
		g = &modelGroup{}
		q.groups[group] = g
	}
	g.lastUse = now
	if partition == "" {
		if !g.whole { // a group that comes to every partition may make what is settled linger anew
			for _, r := range q.rings {
				for _, msg := range r.msgs {
					if msg.settledAt != modelNever {
						msg.settledAt, msg.maybe = now, true
					}
				}
			}
		}
		g.whole = true
		return
	}
	q.ring(partition).here[group] = true
}

func (q *modelQueue) settled(r *modelRing, msg *modelMsg) bool {
	any := false
	for g := range q.groups {
		if q.knows(r, g) {
			any = true
			if msg.state(g).kind != modelSettled {
				return false
			}
		}
	}
	return any
}

// refresh notes what became settled, and forgets what has lingered for two seconds (R2).
func (q *modelQueue) refresh(now Time) {
	for _, r := range q.rings {
		r.msgs = slices.DeleteFunc(r.msgs, func(msg *modelMsg) bool {
			if !q.settled(r, msg) {
				msg.settledAt, msg.maybe = modelNever, false
				return false
			}
			if msg.settledAt == modelNever {
				msg.settledAt = now
			}
			return now-msg.settledAt >= Time(2*time.Second)
		})
	}
}

// unclear reports whether a group that comes now may or may not receive some settled message.
func (q *modelQueue) unclear(partition, group string, now Time) bool {
	for p, r := range q.rings {
		if (partition != "" && p != partition) || q.knows(r, group) {
			continue
		}
		for _, msg := range r.msgs {
			if msg.settledAt != modelNever && (msg.maybe || now-msg.settledAt >= Time(time.Second)) {
				return true
			}
		}
	}
	return false
}

// drop drops a message for everybody and counts it, unless every group had settled it (R2, B5, T1).
func (m *model) drop(q *modelQueue, r *modelRing, msg *modelMsg, cause, total *int64) {
	q.removed = true
	r.msgs = slices.DeleteFunc(r.msgs, func(x *modelMsg) bool { return x == msg })
	if q.settled(r, msg) {
		return
	}
	*cause++
	*total++
	for g := range q.groups {
		if !q.knows(r, g) {
			continue
		}
		switch s := msg.state(g); {
		case s.kind == modelUnseen:
			r.skipped[g]++
		case s.kind == modelWaiting && s.unread:
			r.unsure[g]++
		}
	}
}

// retire ends a delivery without success: the message goes out again or, its attempts used up, is dropped for the
// group (D4, D5).
func (m *model) retire(q *modelQueue, s *modelState) (dropped bool) {
	if s.attempts >= max(1, q.opts.RetryLimit) {
		*s = modelState{kind: modelSettled, attempts: s.attempts}
		q.drops.Retry++
		m.drops.Retry++
		return true
	}
	*s = modelState{kind: modelWaiting, attempts: s.attempts}
	return false
}

// due lets happen what is due: first what is too old (no pop returns it), then the leases that ran out.
func (m *model) due(q *modelQueue, now Time) {
	for _, r := range q.rings {
		for _, msg := range slices.Clone(r.msgs) {
			if q.opts.TTL > 0 && now-msg.pushed >= Time(q.opts.TTL) {
				m.drop(q, r, msg, &q.drops.TTL, &m.drops.TTL)
			}
		}
		for _, msg := range r.msgs {
			for _, s := range msg.states {
				if s.kind == modelLeased && s.deadline <= now {
					if !m.retire(q, s) {
						s.expired = true
					}
				}
			}
		}
	}
	q.refresh(now)
}

func (m *model) allDue(now Time) {
	for _, q := range m.queues {
		m.due(q, now)
	}
}

// nextDue is when the next thing happens by itself.
func (m *model) nextDue() Time {
	next := Time(math.MaxInt64)
	for _, q := range m.queues {
		for _, r := range q.rings {
			for _, msg := range r.msgs {
				if q.opts.TTL > 0 && msg.settledAt == modelNever {
					next = min(next, msg.pushed+Time(q.opts.TTL))
				}
				for _, s := range msg.states {
					if s.kind == modelLeased {
						next = min(next, s.deadline)
					}
				}
			}
		}
		for _, w := range q.waiters {
			if q.opts.Window > 0 && w.late != modelNever {
				next = min(next, w.late+Time(q.opts.Window))
			}
		}
	}
	return next
}

// deliverable is what the group may get from the ring, in the order in which it gets it (R1, D4).
func (q *modelQueue) deliverable(r *modelRing, group string) []*modelMsg {
	var again, first []*modelMsg
	for _, msg := range r.msgs {
		s := msg.states[group]
		switch {
		case s == nil || s.kind == modelUnseen:
			first = append(first, msg)
		case s.kind == modelWaiting:
			again = append(again, msg)
		}
	}
	return append(again, first...)
}

func (q *modelQueue) count(partition, group string) int {
	n := 0
	for p, r := range q.rings {
		if partition == "" || p == partition {
			n += len(q.deliverable(r, group))
		}
	}
	return n
}

// same checks one delivered message, and what its id says.
func (m *model) same(r *modelRing, got *Delivered, want *modelMsg, group string) error {
	if !bytes.Equal(got.Payload, want.payload) || got.Flags != want.flags || got.Raw != want.raw {
		return fmt.Errorf("got %q flags %d raw %v, want %q flags %d raw %v",
			got.Payload, got.Flags, got.Raw, want.payload, want.flags, want.raw)
	}
	if attempts := want.state(group).attempts + 1; got.Attempts != attempts {
		return fmt.Errorf("%q: attempts %d, want %d", got.Payload, got.Attempts, attempts)
	}
	if got.Incarnation != r.inc {
		return fmt.Errorf("%q: incarnation %x, want %x", got.Payload, got.Incarnation, r.inc)
	}
	if want.seqKnown && want.seq != got.Seq {
		return fmt.Errorf("%q: seq changed from %d to %d", got.Payload, want.seq, got.Seq)
	}
	want.seq, want.seqKnown = got.Seq, true
	last := modelNever
	for _, msg := range r.msgs {
		if msg.seqKnown {
			if Time(msg.seq) <= last {
				return fmt.Errorf("%q: seq %d after seq %d", msg.payload, msg.seq, last)
			}
			last = Time(msg.seq)
		}
	}
	return nil
}

// claim checks what a pop got and hands it out in the model. A pop without a partition empties one partition before
// it turns to the next (P6), and no answer is shorter than it has to be.
func (m *model) claim(q *modelQueue, req *PopRequest, got []Delivered, now Time) error {
	group, batch := groupName(req.Group), max(1, req.Batch)
	if len(got) > batch {
		return fmt.Errorf("%d messages for a batch of %d", len(got), batch)
	}
	size, used := 0, map[string]bool{}
	fits := func(msg *modelMsg) bool {
		return req.MaxBytes == 0 || size == 0 || size+len(msg.payload) <= req.MaxBytes
	}
	for i := 0; i < len(got); {
		p := got[i].Partition
		r := q.rings[p]
		if r == nil || (req.Partition != "" && req.Partition != p) || used[p] {
			return fmt.Errorf("%q comes from partition %q", got[i].Payload, p)
		}
		used[p] = true
		want := q.deliverable(r, group)
		for ; i < len(got) && got[i].Partition == p; i++ {
			if len(want) == 0 {
				return fmt.Errorf("%q of %s is not deliverable to %s", got[i].Payload, p, group)
			}
			if err := m.same(r, &got[i], want[0], group); err != nil {
				return err
			}
			if !fits(want[0]) {
				return fmt.Errorf("%q makes more than %d bytes", got[i].Payload, req.MaxBytes)
			}
			size += len(want[0].payload)
			s := want[0].state(group)
			*s = modelState{kind: modelLeased, attempts: s.attempts + 1, deadline: now + Time(q.opts.Lease)}
			if req.AutoAck {
				s.kind = modelSettled
			}
			want = want[1:]
		}
		if i < len(got) && len(want) > 0 && fits(want[0]) {
			return fmt.Errorf("left %s before it was empty", p)
		}
	}
	m.popped += int64(len(got))
	q.removed = q.removed || len(got) > 0
	if len(got) == batch {
		return nil
	}
	full := false
	var left *modelMsg
	for p, r := range q.rings {
		if rest := q.deliverable(r, group); len(rest) > 0 && (req.Partition == "" || req.Partition == p) {
			full = full || !fits(rest[0])
			left = rest[0]
		}
	}
	if left != nil && !full {
		return fmt.Errorf("got %d of a batch of %d, but %q is deliverable to %s", len(got), batch, left.payload, group)
	}
	return nil
}

// dump shows the queue as the model has it, for a failure's text.
func (q *modelQueue) dump() string {
	kinds := [...]string{"unseen", "leased", "waiting", "settled"}
	text := fmt.Sprintf("%+v\n", q.opts)
	for p, r := range q.rings {
		text += fmt.Sprintf("  ring %s %x\n", p, r.inc)
		for _, msg := range r.msgs {
			text += fmt.Sprintf("    %q seq %d pushed %d settled at %d", msg.payload, msg.seq, msg.pushed, msg.settledAt)
			for g := range q.groups {
				if s := msg.state(g); q.knows(r, g) {
					text += fmt.Sprintf(" %s: %s attempts %d until %d;", g, kinds[s.kind], s.attempts, s.deadline)
				}
			}
			text += "\n"
		}
	}
	return text
}
