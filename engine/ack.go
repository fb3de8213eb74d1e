package engine

// Ack settles, returns or gives back deliveries of one group, in order, and appends an outcome for each (contract
// D6, D7). one is the incarnation of the ring that all ids named, 0 where there was none or more than one.
func (e *Engine) Ack(now Time, req *AckRequest, outcomes []Outcome, wakes *Wakes) (_ []Outcome, one uint64) {
	if len(req.Acks) == 0 {
		return outcomes, 0
	}
	q := e.enter(req.Tenant, req.Queue, now, wakes)
	if q == nil {
		for i := range req.Acks {
			outcomes = append(outcomes, e.noRing(req, &req.Acks[i]))
		}
		return outcomes, 0
	}
	defer q.unlock()
	name := req.Group
	if name == "" {
		name = QueueMode
	}
	now = q.at(now)
	q.used = now
	if q.body == nil {
		return e.ackAtRest(q, req, outcomes)
	}
	b := q.body
	g, known := b.groups.get(name)
	if known {
		b.touchGroup(g, now)
	}
	var r *ring
	var c *cursor
	var last string
	several := false
	done := int64(0)
	for i := range req.Acks {
		a := &req.Acks[i]
		if a.Invalid {
			outcomes = append(outcomes, OutcomeUnknown)
			continue
		}
		if a.ID.Partition != last {
			last, c = a.ID.Partition, nil
			r = b.ring(last)
			if r != nil && e.closed[r.slot].Load() {
				r = nil
			}
			if r != nil && known {
				c, _ = r.readers.get(g)
			}
		}
		if r == nil {
			outcomes = append(outcomes, e.noRing(req, a))
			continue
		}
		if r.incarnation != a.ID.Incarnation {
			outcomes = append(outcomes, OutcomeStale)
			continue
		}
		if one != 0 && one != r.incarnation {
			several = true
		}
		one = r.incarnation
		if c == nil {
			outcomes = append(outcomes, OutcomeUnknown)
			continue
		}
		o := c.ack(a.ID.Seq, a.ID.Attempt, a.Verb, now)
		if o == OutcomeAcked {
			done++
		}
		outcomes = append(outcomes, o)
	}
	if several {
		one = 0
	}
	if done > 0 {
		e.acked.Add(done)
	}
	b.serveTouched(now, wakes)
	return outcomes, one
}

// ackAtRest answers for a queue that holds nothing, without making it a body.
func (e *Engine) ackAtRest(q *queue, req *AckRequest, outcomes []Outcome) (_ []Outcome, one uint64) {
	several := false
	for i := range req.Acks {
		a := &req.Acks[i]
		o := e.noRing(req, a)
		if o == OutcomeStale && q.rest != nil {
			for _, r := range q.rest.rings {
				if r.name == a.ID.Partition && r.incarnation == a.ID.Incarnation {
					several = several || one != 0 && one != r.incarnation
					one, o = r.incarnation, OutcomeUnknown
				}
			}
		}
		outcomes = append(outcomes, o)
	}
	if several {
		one = 0
	}
	return outcomes, one
}

// noRing is the outcome of an id whose partition has no ring here.
func (e *Engine) noRing(req *AckRequest, a *Ack) Outcome {
	switch {
	case a.Invalid:
		return OutcomeUnknown
	case e.closed[e.cfg.SlotOf(req.Tenant, req.Queue, a.ID.Partition)].Load():
		return OutcomeClosed
	}
	return OutcomeStale
}

// ack does one ack of a delivery of this cursor.
func (c *cursor) ack(seq uint64, attempt int, verb Verb, now Time) Outcome {
	k := c.find(seq)
	if k == nil {
		return OutcomeUnknown
	}
	i := int(seq - k.first)
	bit := uint16(1) << i
	if int(k.attempts[i]) != attempt || (k.leased|k.late)&bit == 0 {
		return OutcomeUnknown
	}
	r, seg := c.r, k.seg
	b := r.b
	leased := k.leased&bit != 0
	if verb == Nack && attempt >= b.retryLimit() {
		b.dropped.Retry++
		b.e.drops.retry.Add(1)
		verb = Complete
	}
	if verb == Complete {
		if leased {
			k.unlease(i)
		} else {
			k.unwait(i)
		}
		k.done()
		r.unpin(seg, seq, now)
		return OutcomeAcked
	}
	if !leased {
		// The lease ran out and the message waits already. A nack ends its last delivery.
		if verb == Nack {
			k.late &^= bit
			return OutcomeRedelivered
		}
		return OutcomeUnknown
	}
	k.unlease(i)
	if verb == GiveBackTraced && attempt == maxAttempt {
		verb = GiveBack // an attempt has 16 bits: it stays at the last
	}
	if verb == GiveBack {
		k.attempts[i]--
	}
	k.wait(i, verb == GiveBackTraced)
	b.touch(c)
	return OutcomeRedelivered
}

// GiveBack returns a whole delivery (contract D9). What was settled as it was handed out can't be given back.
func (e *Engine) GiveBack(now Time, d *Delivery, traced bool, wakes *Wakes) {
	if d.AutoAck || len(d.Messages) == 0 {
		return
	}
	verb := GiveBack
	if traced {
		verb = GiveBackTraced
	}
	req := AckRequest{Tenant: d.tenant, Queue: d.queue, Group: d.group, Acks: make([]Ack, len(d.Messages))}
	for i := range d.Messages {
		m := &d.Messages[i]
		req.Acks[i] = Ack{ID: ID{m.Incarnation, m.Partition, m.Seq, m.Attempts}, Verb: verb}
	}
	e.Ack(now, &req, make([]Outcome, 0, len(req.Acks)), wakes)
}
