package httpapi

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"github.com/queencell/queencell/engine"
)

// appendString appends s as a JSON string. Quotes, backslashes and control characters are escaped, DEL and the C1 set
// too: answers are read in terminals. Bytes that are not UTF-8 become U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c < 0x7f && c != '"' && c != '\\' {
			i++
			continue
		}
		r, n := rune(c), 1
		if c >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(s[i:])
			if r >= 0xa0 && (r != utf8.RuneError || n > 1) {
				i += n
				continue
			}
		}
		b = append(b, s[from:i]...)
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == utf8.RuneError:
			b = append(b, "\ufffd"...)
		default:
			const hex = "0123456789abcdef"
			b = append(b, '\\', 'u', '0', '0', hex[r>>4&15], hex[r&15])
		}
		i += n
		from = i
	}
	return append(append(b, s[from:]...), '"')
}

// appendMember appends ,"name": or, after an opening brace, "name":.
func appendMember(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

func appendInt(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(appendMember(b, name), n, 10)
}

func appendBool(b []byte, name string, v bool) []byte {
	return strconv.AppendBool(appendMember(b, name), v)
}

func appendText(b []byte, name, s string) []byte {
	return appendString(appendMember(b, name), s)
}

// popSize is about how long the answer to a pop will be.
func popSize(d *engine.Delivery) int64 {
	n := int64(64)
	for i := range d.Messages {
		m := &d.Messages[i]
		size := len(m.Payload)
		if m.Raw {
			size = base64.StdEncoding.EncodedLen(size) + len(`,"encoding":"base64"`)
		}
		n += int64(size + 2*len(m.Partition) + 100)
	}
	return n
}

// appendPop appends the answer to a pop.
func appendPop(b []byte, queue string, d *engine.Delivery) []byte {
	b = append(b, `{"queue":`...)
	b = appendString(b, queue)
	b = append(b, `,"messages":[`...)
	for i := range d.Messages {
		m := &d.Messages[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = appendID(b, m)
		b = append(b, `,"partition":`...)
		b = appendString(b, m.Partition)
		b = append(b, `,"attempts":`...)
		b = strconv.AppendInt(b, int64(m.Attempts), 10)
		b = append(b, `,"payload":`...)
		if m.Raw {
			b = append(b, '"')
			b = base64.StdEncoding.AppendEncode(b, m.Payload)
			b = append(b, `","encoding":"base64"`...)
		} else {
			b = append(b, m.Payload...)
		}
		b = append(b, '}')
	}
	return append(b, ']', '}')
}

// appendID appends the id of m as a JSON string. Its letters are plain but for those of the partition's name, and most
// partitions are plain too.
func appendID(b []byte, m *engine.Delivered) []byte {
	b = append(b, '"')
	start := len(b)
	b = m.AppendID(b)
	for _, c := range b[start:] {
		if c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return appendString(b[:start-1], string(b[start:]))
		}
	}
	return append(b, '"')
}

// appendOutcomes appends the answer to an ack. ids are JSON strings and go back as they came.
func appendOutcomes(b []byte, ids [][]byte, outcomes []engine.Outcome) []byte {
	b = append(b, `{"results":[`...)
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = append(b, id...)
		b = append(b, `,"outcome":"`...)
		b = append(b, outcomes[i].String()...)
		b = append(b, '"', '}')
	}
	return append(b, ']', '}')
}
