package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// refusals is what the contract answers a push with; empty is that it is admitted. With several, each is allowed.
func (m *model) refusals(req *PushRequest) []error {
	partition := req.Partition
	if m.isClosed(req.Tenant, req.Queue, partition) {
		return []error{ErrClosed}
	}
	refused := m.mayCreate(req.Tenant, req.Queue, partition, "")
	o, held, heldBytes := m.defaults, 0, 0
	if q := m.queue(req.Tenant, req.Queue); q != nil {
		o = q.opts
		held, heldBytes = q.held()
	}
	size := 0
	for _, msg := range req.Messages {
		size += len(msg.Payload)
		if int64(len(msg.Payload)) > o.MaxBytes {
			return append(refused, ErrNeverFits)
		}
	}
	if o.Policy == DropOldest {
		return refused
	}
	if int64(len(req.Messages)) > o.MaxLength || int64(size) > o.MaxBytes {
		return append(refused, ErrNeverFits)
	}
	if int64(held+len(req.Messages)) > o.MaxLength || int64(heldBytes+size) > o.MaxBytes {
		return append(refused, ErrFull)
	}
	return refused
}

// held counts what is not settled.
func (q *modelQueue) held() (n, size int) {
	for _, r := range q.rings {
		for _, msg := range r.msgs {
			if msg.settledAt == modelNever {
				n++
				size += len(msg.payload)
			}
		}
	}
	return n, size
}

// lingering counts what every group has settled and may still be there.
func (q *modelQueue) lingering() (n, size int) {
	for _, r := range q.rings {
		for _, msg := range r.msgs {
			if msg.settledAt != modelNever {
				n++
				size += len(msg.payload)
			}
		}
	}
	return n, size
}

// refused notes what a push may have done although it was refused: it may have taken settled messages.
func (q *modelQueue) refused() {
	for _, r := range q.rings {
		for _, msg := range r.msgs {
			msg.maybe = msg.settledAt != modelNever
		}
	}
}

// push admits the messages (B3, R2).
func (m *model) push(req *PushRequest, inc uint64, now Time) error {
	q := m.make(req.Tenant, req.Queue)
	r := q.ring(req.Partition)
	if err := m.learn(r, inc); err != nil {
		return err
	}
	r.msgs = slices.DeleteFunc(r.msgs, func(msg *modelMsg) bool { return msg.settledAt != modelNever })
	for _, p := range req.Messages {
		m.arrivals++
		r.msgs = append(r.msgs, &modelMsg{
			payload: p.Payload, flags: p.Flags, raw: p.Raw, pushed: now, arrival: m.arrivals,
			states: map[string]*modelState{}, settledAt: modelNever,
		})
	}
	m.pushed += int64(len(req.Messages))
	n, size := q.held()
	ln, lsize := q.lingering()
	if int64(n+ln) > q.opts.MaxLength || int64(size+lsize) > q.opts.MaxBytes {
		q.refused() // it needed the room of settled messages
	}
	for int64(n) > q.opts.MaxLength || int64(size) > q.opts.MaxBytes {
		var oldest *modelMsg
		var from *modelRing
		for _, x := range q.rings {
			for _, msg := range x.msgs {
				if msg.settledAt == modelNever && (oldest == nil || msg.arrival < oldest.arrival) {
					oldest, from = msg, x
				}
			}
		}
		m.drop(q, from, oldest, &q.drops.Bounds, &m.drops.Bounds)
		n, size = q.held()
	}
	return nil
}

// ack is the outcomes that the contract allows for one ack; apply tells the model which it was.
func (m *model) ack(req *AckRequest, a Ack, now Time) (allowed []Outcome, apply func(Outcome)) {
	nothing := func(Outcome) {}
	if a.Invalid {
		return []Outcome{OutcomeUnknown}, nothing
	}
	if m.isClosed(req.Tenant, req.Queue, a.ID.Partition) {
		return []Outcome{OutcomeClosed}, nothing
	}
	q := m.queue(req.Tenant, req.Queue)
	if q == nil || q.rings[a.ID.Partition] == nil || q.rings[a.ID.Partition].inc != a.ID.Incarnation {
		return []Outcome{OutcomeStale}, nothing
	}
	r, group := q.rings[a.ID.Partition], groupName(req.Group)
	for _, msg := range r.msgs {
		if !msg.seqKnown || msg.seq != a.ID.Seq || !q.knows(r, group) {
			continue
		}
		s := msg.state(group)
		if s.attempts != a.ID.Attempt || (s.kind != modelLeased && !(s.kind == modelWaiting && s.expired)) {
			if s.kind == modelWaiting && s.traced && s.attempts == a.ID.Attempt {
				allowed = append(allowed, OutcomeUnknown)
			} else {
				break
			}
		}
		if a.Verb == Complete {
			allowed = append(allowed, OutcomeAcked)
		} else if exhausted := s.attempts >= max(1, q.opts.RetryLimit); !exhausted {
			allowed = append(allowed, OutcomeRedelivered)
		} else if s.kind == modelLeased {
			allowed = append(allowed, OutcomeAcked)
		} else {
			allowed = append(allowed, OutcomeAcked, OutcomeRedelivered)
		}
		return allowed, func(o Outcome) {
			switch {
			case o == OutcomeUnknown:
				return
			case o == OutcomeRedelivered:
				*s = modelState{kind: modelWaiting, attempts: s.attempts}
			case a.Verb == Complete:
				*s = modelState{kind: modelSettled, attempts: s.attempts}
			default:
				m.retire(q, s)
			}
			q.removed = true
			q.groups[group].lastUse = now
		}
	}
	return []Outcome{OutcomeUnknown}, nothing
}

// giveBack takes back what is still leased by this very delivery (D9).
func (m *model) giveBack(q *modelQueue, group string, d []Delivered, traced bool) {
	if q == nil {
		return
	}
	for i := range d {
		r := q.rings[d[i].Partition]
		if r == nil || r.inc != d[i].Incarnation {
			continue
		}
		for _, msg := range r.msgs {
			s := msg.state(group)
			if !msg.seqKnown || msg.seq != d[i].Seq || s.kind != modelLeased || s.attempts != d[i].Attempts {
				continue
			}
			*s = modelState{kind: modelWaiting, attempts: s.attempts, traced: traced}
			if !traced {
				s.attempts--
				s.unread = s.attempts == 0
			}
		}
	}
}

// target is how many deliverable messages end the waiter's window.
func (w *modelWaiter) target() int {
	batch := max(1, w.req.Batch)
	if n := w.q.opts.WindowCount; n > 0 {
		return min(n, batch)
	}
	return batch
}

// wake checks that this waiter was the one to be answered, and with these messages.
func (m *model) wake(w *Waiter, now Time) error {
	var mw *modelWaiter
	for _, q := range m.queues {
		for _, x := range q.waiters {
			if x.w == w {
				mw = x
			}
		}
	}
	if mw == nil {
		return errors.New("a waiter was woken that is not parked")
	}
	q, group := mw.q, groupName(mw.req.Group)
	if w.Moved {
		if mw.req.Partition == "" || !m.isClosed(q.tenant, q.name, mw.req.Partition) || len(w.Delivery.Messages) > 0 {
			return errors.New("a waiter was told to move, and nothing moved")
		}
		q.remove(mw)
		return nil
	}
	got := w.Delivery.Messages
	if len(got) == 0 {
		return errors.New("a waiter was woken with nothing")
	}
	if win := Time(q.opts.Window); win > 0 && q.count(mw.req.Partition, group) < mw.target() &&
		(mw.early == modelNever || now < mw.early+win) {
		return fmt.Errorf("a waiter claimed before its window of %v ended, which began at %d", q.opts.Window, mw.early)
	}
	for _, x := range q.waiters {
		if x == mw {
			break
		}
		if groupName(x.req.Group) != group {
			continue
		}
		for i := range got {
			if x.req.Partition == "" || x.req.Partition == got[i].Partition {
				return fmt.Errorf("%q went to a waiter that came later", got[i].Payload)
			}
		}
	}
	q.remove(mw)
	return m.claim(q, &mw.req, got, now)
}

func (q *modelQueue) remove(w *modelWaiter) {
	q.waiters = slices.DeleteFunc(q.waiters, func(x *modelWaiter) bool { return x == w })
}

// quiet checks that a waiter means that nothing is deliverable for it, or that its window runs, and looks after the
// windows.
func (m *model) quiet(now Time) error {
	for _, q := range m.queues {
		win := Time(q.opts.Window)
		for _, w := range q.waiters {
			n := q.count(w.req.Partition, groupName(w.req.Group))
			switch {
			case n == 0:
				w.early, w.late = modelNever, modelNever
				continue
			case win == 0:
				return fmt.Errorf("group %q partition %q stays parked, and %d are deliverable", w.req.Group, w.req.Partition, n)
			case w.early == modelNever:
				w.early, w.late = now, now
			case q.removed:
				w.late = now
			}
			if n >= w.target() || now >= w.late+win {
				return fmt.Errorf("a window of %v goes on since %d, and %d are deliverable", q.opts.Window, w.early, n)
			}
		}
		q.removed = false
		q.refresh(now)
	}
	return nil
}

// reset drops everything and keeps groups, declaration and waiters (X1).
func (m *model) reset(q *modelQueue) (dropped int) {
	if q == nil {
		return 0
	}
	dropped, _ = q.held()
	for _, r := range q.rings {
		r.msgs = nil
	}
	q.removed = true
	return dropped
}

// delete forgets the queue; its parked pops make a new one (X2).
func (m *model) delete(q *modelQueue, now Time) {
	delete(m.queues, [2]string{q.tenant, q.name})
	if len(q.waiters) == 0 {
		return
	}
	waiters := q.waiters
	q = m.make(q.tenant, q.name)
	q.waiters = waiters
	for _, w := range waiters {
		w.q = q
		q.meet(w.req.Partition, groupName(w.req.Group), now)
	}
}

// close empties the rings of a slot. It tells the queues of which the model does not say what a group knew that came
// only to such a ring.
func (m *model) close(slot int) (lost, moved int, vague []*modelQueue) {
	m.closed[slot] = true
	for _, q := range m.queues {
		for p, r := range q.rings {
			if m.cfg.SlotOf(q.tenant, q.name, p) != slot {
				continue
			}
			if n := len(r.msgs); n > 0 {
				lost++
				moved += n
			}
			delete(q.rings, p)
			if len(r.here)+len(r.skipped)+len(r.unsure) > 0 {
				vague = append(vague, q)
			}
		}
		q.removed = true
	}
	return lost, moved, vague
}

// idle is what remains after everybody was away for so long: all leases and ttls are over, every empty implicit queue
// and every empty partition is collected, and with forget every group is (E3, E6). It tells the queues of which the
// model does not say what a group knew that came only to a collected partition.
func (m *model) idle(now Time, forget bool) (vague []*modelQueue) {
	m.allDue(now)
	for key, q := range m.queues {
		unclear := false
		for p, r := range q.rings {
			known := false
			for g, x := range q.groups {
				known = known || q.knows(r, g)
				unclear = unclear || (!forget && now-x.lastUse > Time(m.cfg.GroupIdle-time.Minute) && m.cfg.GroupIdle > 0)
			}
			if forget && known {
				r.msgs = nil
			}
			if len(r.msgs) == 0 {
				delete(q.rings, p)
				unclear = unclear || (!forget && len(r.here)+len(r.skipped)+len(r.unsure) > 0)
			}
		}
		for _, x := range q.groups {
			unclear = unclear || (!forget && now-x.lastUse > Time(m.cfg.GroupIdle-time.Minute) && m.cfg.GroupIdle > 0)
		}
		if forget {
			clear(q.groups)
		}
		if len(q.rings) == 0 && !q.declared {
			delete(m.queues, key)
			continue
		}
		if unclear {
			vague = append(vague, q)
		}
	}
	return vague
}
