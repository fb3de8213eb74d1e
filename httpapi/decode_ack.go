package httpapi

import (
	"strconv"

	"github.com/queencell/queencell/engine"
)

var (
	ackFields  = []string{"queue", "group", "acks"}
	itemFields = []string{"id", "status"}
)

// ack is a decoded batch of acks. ids are the ids as they were sent, with their quotes, one for each of acks: parts of
// the body that it was decoded from. The acks themselves share nothing with the body.
type ack struct {
	queue, group string
	acks         []engine.Ack
	ids          [][]byte
}

// decode reads {"queue","group"?,"acks":[{"id","status"?}]}. An id that is a string but no id becomes an invalid ack
// (contract D7). The memory of the acks and ids is used again.
func (a *ack) decode(s *scanner, body []byte) error {
	*a = ack{acks: a.acks[:0], ids: a.ids[:0]}
	s.start(body)
	o := s.object("the body", ackFields)
	for k := s.field(&o); k >= 0; k = s.field(&o) {
		switch k {
		case 0:
			a.queue = s.name("queue")
		case 1:
			a.group = s.name("group")
		case 2:
			// The ids' partitions are parts of one string: the broker may keep them for longer than the body lives.
			a.decodeAcks(s, string(body))
		}
	}
	if err := s.end(); err != nil {
		return err
	}
	if !o.has(2) {
		return badRequest("acks is required")
	}
	if err := checkQueue(a.queue); err != nil {
		return err
	}
	return checkOptionalName("group", a.group)
}

func (a *ack) decodeAcks(s *scanner, text string) {
	if !s.enter('[', "acks") {
		return
	}
	for first := true; s.more(&first, ']'); {
		if len(a.acks) == maxItems {
			s.fail("acks has more than " + strconv.Itoa(maxItems) + " items")
			return
		}
		a.decodeItem(s, text)
	}
}

func (a *ack) decodeItem(s *scanner, text string) {
	var item engine.Ack
	var sent []byte
	o := s.object("an ack", itemFields)
	for k := s.field(&o); k >= 0; k = s.field(&o) {
		if k == 1 {
			item.Verb = decodeStatus(s)
			continue
		}
		if c := s.peek(); c != '"' {
			if c == 0 {
				s.unexpected()
			}
			s.fail("the id of an ack must be a string")
			return
		}
		start := s.i
		t := s.str()
		if s.err != nil {
			return
		}
		sent = s.b[start:s.i]
		id, lone := text[start+1:s.i-1], false
		if t.escaped {
			var decoded []byte
			decoded, lone = unescape(t.raw)
			id = string(decoded)
		}
		var valid bool
		item.ID, valid = engine.ParseID(id)
		item.Invalid = !valid || lone
	}
	if s.err == nil && !o.has(0) {
		s.fail("an ack has no id")
		return
	}
	a.acks = append(a.acks, item)
	a.ids = append(a.ids, sent)
}

// decodeStatus reads the status of an ack. What is not known to mean success is a nack: a typo must not retire a
// message (contract D8). Absent, null and "" mean completed.
func decodeStatus(s *scanner) engine.Verb {
	if s.null() {
		return engine.Complete
	}
	if c := s.peek(); c != '"' {
		if c == 0 {
			s.unexpected()
		}
		s.fail("the status of an ack must be a string")
		return engine.Nack
	}
	t := s.str()
	if t.escaped {
		t.raw, _ = unescape(t.raw)
	}
	switch string(t.raw) {
	case "", "completed", "success", "acked", "ok":
		return engine.Complete
	}
	return engine.Nack
}
