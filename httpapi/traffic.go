package httpapi

import (
	"net/http"
	"strconv"
)

// push stores messages.
func (x *exchange) push() error {
	m := x.server.pools.scratch()
	x.mem = m
	body, err := x.readBody()
	if err != nil {
		return err
	}
	if err := m.push.decode(&m.scanner, body); err != nil {
		return err
	}
	if len(m.push.messages) > 0 {
		m.pushReq.Tenant, m.pushReq.Queue = x.tenant, m.push.queue
		m.pushReq.Partition, m.pushReq.Messages = m.push.partition, m.push.messages
		served, err := x.server.broker.Push(x.r.Context(), &m.pushReq)
		x.served(served)
		if err != nil {
			return err
		}
	}
	m.out = append(m.out[:0], `{"pushed":`...)
	m.out = append(strconv.AppendInt(m.out, int64(len(m.push.messages)), 10), '}')
	_ = x.answer(http.StatusCreated, m.out)
	return nil
}

// ack settles deliveries or sends them out again.
func (x *exchange) ack() error {
	m := x.server.pools.scratch()
	x.mem = m
	body, err := x.readBody()
	if err != nil {
		return err
	}
	if !x.hold(int64(len(body))) { // decoding makes a copy
		return errInFlight
	}
	if err := m.ack.decode(&m.scanner, body); err != nil {
		return err
	}
	m.outcomes = m.outcomes[:0]
	if len(m.ack.acks) > 0 {
		m.ackReq.Tenant, m.ackReq.Queue = x.tenant, m.ack.queue
		m.ackReq.Group, m.ackReq.Acks = m.ack.group, m.ack.acks
		outcomes, served, err := x.server.broker.Ack(x.r.Context(), &m.ackReq, m.outcomes)
		x.served(served)
		if err != nil {
			return err
		}
		m.outcomes = outcomes
	}
	m.out = appendOutcomes(m.out[:0], m.ack.ids, m.outcomes)
	x.forceHold(int64(len(m.out))) // the acks have taken effect: their outcomes can only be written
	_ = x.answer(http.StatusOK, m.out)
	return nil
}
