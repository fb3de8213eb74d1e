package engine

import (
	"strconv"
)

// Time is a point on the caller's clock, in nanoseconds. The engine reads no clock: every call brings its time. Only
// differences matter; a time that goes back is treated as the latest one the queue has seen.
type Time int64

// DefaultPartition is the partition of a push that names none (contract N2).
const DefaultPartition = "Default"

// QueueMode is the reserved group of a pop that names none (contract N3).
const QueueMode = "__QUEUE_MODE__"

// Message is what a producer hands in.
type Message struct {
	// Payload is kept byte for byte (contract R4). The engine copies it.
	Payload []byte
	// Flags travel with the message and mean nothing to the engine.
	Flags uint32
	// Raw marks a payload that is bytes and not a JSON text.
	Raw bool
}

// PushRequest names a ring and what goes to its tail. Partition "" is DefaultPartition.
type PushRequest struct {
	Tenant, Queue, Partition string
	Messages                 []Message
}

// PopRequest says who asks for messages, and for how many.
type PopRequest struct {
	Tenant, Queue string
	// Partition "" asks every partition of the queue (contract N2).
	Partition string
	// Group "" is QueueMode.
	Group string
	// Batch is the most messages to hand out; less than 1 is 1.
	Batch int
	// MaxBytes bounds the payload bytes handed out, but for the first message. 0 is no bound.
	MaxBytes int
	// AutoAck settles the messages as they are handed out (contract D1).
	AutoAck bool
	// Room is asked before an answer takes more memory than a small one does. Nil is always room.
	Room Room
}

// Room is the bound on answers that are on their way to clients (contract B8). Take asks for n more bytes; it is called
// with the queue's lock held and must neither block nor call the engine. Where it refuses, the answer ends.
type Room interface {
	Take(n int64) bool
}

// Delivered is one message handed to one group.
type Delivered struct {
	Partition   string
	Incarnation uint64
	Seq         uint64
	// Attempts is 1 on the first delivery to the group (contract D3).
	Attempts int
	Flags    uint32
	Raw      bool
	// Payload is a copy that belongs to the Delivery.
	Payload []byte

	off int
}

// AppendID appends the message's id for this delivery (contract D6).
func (m *Delivered) AppendID(b []byte) []byte {
	return ID{m.Incarnation, m.Partition, m.Seq, m.Attempts}.Append(b)
}

// Delivery is what one pop got. It can be used again after Reset.
type Delivery struct {
	Messages []Delivered
	// AutoAck says that the messages were settled as they were handed out; they cannot be given back.
	AutoAck bool
	// Taken is what was taken from the request's Room: who uses the delivery gives it back.
	Taken int64

	tenant, queue, group string
	buf                  []byte
}

// Reset empties the delivery and keeps its memory for the next pop.
func (d *Delivery) Reset() {
	clear(d.Messages)
	d.Messages = d.Messages[:0]
	d.buf = d.buf[:0]
	d.AutoAck, d.Taken = false, 0
	d.tenant, d.queue, d.group = "", "", ""
}

// Cap is the memory that the delivery keeps for its next use, in bytes.
func (d *Delivery) Cap() int { return cap(d.buf) + cap(d.Messages)*96 }

// ID names one delivery of one message to the group that asked (contract D6). Clients treat its text as opaque.
type ID struct {
	Incarnation uint64
	Partition   string
	Seq         uint64
	// Attempt is the delivery's attempts, from 1.
	Attempt int
}

const hexDigits = "0123456789abcdef"

// maxAttempt bounds the attempt of an id: attempts are kept in 16 bits.
const maxAttempt = 1<<16 - 1

// Append appends the text e:<incarnation>:<partition>:<seq>[.<attempt>].
func (id ID) Append(b []byte) []byte {
	b = append(b, 'e', ':')
	b = AppendIncarnation(b, id.Incarnation)
	b = append(b, ':')
	b = append(b, id.Partition...)
	b = append(b, ':')
	b = strconv.AppendUint(b, id.Seq, 10)
	if id.Attempt > 1 {
		b = append(b, '.')
		b = strconv.AppendInt(b, int64(id.Attempt), 10)
	}
	return b
}

// AppendIncarnation appends 16 hex digits.
func AppendIncarnation(b []byte, inc uint64) []byte {
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, hexDigits[inc>>uint(shift)&15])
	}
	return b
}

// ParseID reads an id's text. It accepts exactly what Append writes: one delivery has one text, so two texts never
// name the same delivery. The partition of the result shares s.
func ParseID(s string) (ID, bool) {
	const head = len("e:0123456789abcdef:")
	if len(s) < head+len("p:0") || s[0] != 'e' || s[1] != ':' || s[head-1] != ':' {
		return ID{}, false
	}
	var id ID
	for i := 2; i < head-1; i++ {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		default:
			return ID{}, false
		}
		id.Incarnation = id.Incarnation<<4 | uint64(c)
	}
	// The partition may hold ':' and '.', the number after the last ':' may not hold a ':'.
	end := len(s)
	dot := -1
	i := end - 1
	for ; i >= head && s[i] != ':'; i-- {
		if s[i] == '.' && dot < 0 {
			dot = i
		}
	}
	if i <= head-1 {
		return ID{}, false
	}
	id.Attempt = 1
	if dot >= 0 {
		attempt, ok := parseNumber(s[dot+1:], maxAttempt)
		if !ok || attempt < 2 {
			return ID{}, false
		}
		id.Attempt = int(attempt)
		end = dot
	}
	seq, ok := parseNumber(s[i+1:end], 1<<63-1)
	if !ok {
		return ID{}, false
	}
	id.Seq = seq
	id.Partition = s[head:i]
	if ValidName(id.Partition) != nil {
		return ID{}, false
	}
	return id, true
}

// parseNumber reads plain digits without leading zeros, up to limit.
func parseNumber(s string, limit uint64) (uint64, bool) {
	if s == "" || len(s) > 19 || (len(s) > 1 && s[0] == '0') {
		return 0, false
	}
	var n uint64
	for i := 0; i < len(s); i++ {
		c := s[i] - '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + uint64(c)
	}
	return n, n <= limit
}

// Verb is what an ack asks for.
type Verb uint8

// The verbs of an ack.
const (
	// Complete settles the message for the group.
	Complete Verb = iota
	// Nack makes the message deliverable again, or drops it when its attempts are used up (contract D4, D5).
	Nack
	// GiveBack takes a delivery back that left no trace: the next one has the same attempt and id (contract D9).
	GiveBack
	// GiveBackTraced takes a delivery back of which a byte may have reached the client: it keeps its attempt, and the
	// message is not dropped for it (contract D9).
	GiveBackTraced
)

// Ack names a delivery and what to do with it.
type Ack struct {
	ID ID
	// Invalid says that the client's id was no id at all. It is answered OutcomeUnknown.
	Invalid bool
	Verb    Verb
}

// AckRequest is a batch of acks of one group, in the order in which they take effect. Group "" is QueueMode.
type AckRequest struct {
	Tenant, Queue, Group string
	Acks                 []Ack
}

// Outcome is what became of one ack (contract D7).
type Outcome uint8

// The outcomes. OutcomeClosed never reaches a client: the caller routes that ack again.
const (
	OutcomeAcked Outcome = iota
	OutcomeRedelivered
	OutcomeStale
	OutcomeUnknown
	OutcomeUnavailable
	OutcomeClosed
)

var outcomeNames = [...]string{"acked", "redelivered", "stale", "unknown", "unavailable", "closed"}

// String is the outcome's word on the wire.
func (o Outcome) String() string { return outcomeNames[o] }
