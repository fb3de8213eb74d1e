package httpapi

import (
	"bytes"
	"encoding/base64"
	"strconv"

	"github.com/queencell/queencell/engine"
)

// maxItems is the most messages or acks of one request.
const maxItems = 10_000

var (
	pushFields    = []string{"queue", "partition", "messages"}
	messageFields = []string{"payload", "encoding"}
)

// push is a decoded push. Its payloads are parts of the body that it was decoded from.
type push struct {
	queue, partition string
	messages         []engine.Message
}

// decode reads {"queue","partition"?,"messages":[{"payload","encoding"?}]}. Payloads are kept byte for byte (contract
// R4); one that says base64 is decoded where it stands, which overwrites that part of body. The messages' memory is
// used again.
func (p *push) decode(s *scanner, body []byte) error {
	*p = push{messages: p.messages[:0]}
	s.start(body)
	o := s.object("the body", pushFields)
	for k := s.field(&o); k >= 0; k = s.field(&o) {
		switch k {
		case 0:
			p.queue = s.name("queue")
		case 1:
			p.partition = s.name("partition")
		case 2:
			p.decodeMessages(s)
		}
	}
	if err := s.end(); err != nil {
		return err
	}
	if !o.has(2) {
		return badRequest("messages is required")
	}
	if err := checkQueue(p.queue); err != nil {
		return err
	}
	return checkOptionalName("partition", p.partition)
}

func (p *push) decodeMessages(s *scanner) {
	if !s.enter('[', "messages") {
		return
	}
	for first := true; s.more(&first, ']'); {
		if len(p.messages) == maxItems {
			s.fail("messages has more than " + strconv.Itoa(maxItems) + " items")
			return
		}
		p.messages = append(p.messages, engine.Message{})
		decodeMessage(s, &p.messages[len(p.messages)-1])
	}
}

func decodeMessage(s *scanner, m *engine.Message) {
	o := s.object("a message", messageFields)
	encoding := ""
	for k := s.field(&o); k >= 0; k = s.field(&o) {
		if k == 0 {
			m.Payload = s.skip()
		} else {
			encoding = s.name("encoding")
		}
	}
	switch {
	case s.err != nil:
	case !o.has(0):
		s.fail("a message has no payload")
	case encoding == "":
	case encoding == "base64":
		raw, ok := decodeBase64(m.Payload)
		if !ok {
			s.fail("a payload with the encoding base64 must be a string of standard base64 with padding")
			return
		}
		m.Payload, m.Raw = raw, true
	default:
		s.fail("encoding must be base64 or absent")
	}
}

// base64Step is how much is decoded at a time: whole groups of four.
const base64Step = 4096

// decodeBase64 decodes a JSON string, which str has passed, over itself. It takes exactly what an encoder writes: no
// line ends, padding, zero bits at the end.
func decodeBase64(value []byte) ([]byte, bool) {
	if value[0] != '"' {
		return nil, false
	}
	text := value[1 : len(value)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		// The slash is a letter of base64, and some encoders of JSON escape it.
		decoded, _ := unescape(text)
		text = text[:copy(text, decoded)]
	}
	if bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 {
		return nil, false
	}
	encoding := base64.StdEncoding.Strict()
	var part [base64Step / 4 * 3]byte
	done := 0
	for rest := text; len(rest) > 0; {
		n := min(base64Step, len(rest))
		m, err := encoding.Decode(part[:], rest[:n])
		if err != nil || (n < len(rest) && m < len(part)) {
			return nil, false
		}
		done += copy(text[done:], part[:m])
		rest = rest[n:]
	}
	return text[:done], true
}
