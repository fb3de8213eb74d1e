package httpapi

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// object is an envelope object that is being read: one whose members are known and may not be repeated.
type object struct {
	known []string
	first bool
	seen  uint32
	base  int
	// members counts all that were there, known or not.
	members int
}

// object enters an envelope object.
func (s *scanner) object(what string, known []string) object {
	s.enter('{', what)
	return object{known: known, first: true, base: len(s.unknown)}
}

// field passes the name of the next member and its colon, and returns its index among the known ones. Unknown members
// are passed whole. It returns -1 at the end of the object and after an error. Names are compared by case and with
// their escapes decoded; a name that comes twice is refused, known or not.
func (s *scanner) field(o *object) int {
	for s.more(&o.first, '}') {
		o.members++
		name := s.str()
		s.colon()
		if s.err != nil {
			return -1
		}
		if name.escaped {
			decoded, lone := unescape(name.raw)
			if lone {
				s.fail("the name of a member holds a lone surrogate")
				return -1
			}
			name = token{raw: decoded}
		}
		for k, known := range o.known {
			if string(name.raw) != known {
				continue
			}
			if o.seen&(1<<k) != 0 {
				s.fail("the member " + known + " comes twice")
				return -1
			}
			o.seen |= 1 << k
			return k
		}
		for _, other := range s.unknown[o.base:] {
			if bytes.Equal(other.raw, name.raw) {
				s.fail("a member comes twice")
				return -1
			}
		}
		if len(s.unknown)-o.base == maxUnknown {
			s.fail("an object has too many unknown members")
			return -1
		}
		s.unknown = append(s.unknown, name)
		s.skip()
	}
	s.unknown = s.unknown[:o.base]
	return -1
}

// has says whether the known member k was there.
func (o *object) has(k int) bool { return o.seen&(1<<k) != 0 }

// null passes a null if one is next.
func (s *scanner) null() bool {
	return s.peek() == 'n' && s.literal("null")
}

// name reads a string that names something. Null is "", which means absent wherever a name may be absent.
func (s *scanner) name(what string) string {
	if s.null() {
		return ""
	}
	if c := s.peek(); c != '"' {
		if c == 0 {
			s.unexpected()
		}
		s.fail(what + " must be a string")
		return ""
	}
	t := s.str()
	if !t.escaped {
		return string(t.raw)
	}
	decoded, lone := unescape(t.raw)
	if lone {
		s.fail(what + " must not hold a lone surrogate")
		return ""
	}
	return string(decoded)
}

// unescape decodes the escapes of a string that str has passed, into new memory. lone says that one of them was half a
// surrogate pair; it is decoded to U+FFFD, so such a text must not be used as a name.
func unescape(raw []byte) (decoded []byte, lone bool) {
	out := make([]byte, 0, len(raw))
	for len(raw) > 0 {
		if raw[0] != '\\' {
			n := bytes.IndexByte(raw, '\\')
			if n < 0 {
				n = len(raw)
			}
			out = append(out, raw[:n]...)
			raw = raw[n:]
			continue
		}
		if raw[1] != 'u' {
			out = append(out, escapes[raw[1]])
			raw = raw[2:]
			continue
		}
		r := hex4(raw[2:])
		raw = raw[6:]
		if utf16.IsSurrogate(r) {
			pair := rune(utf8.RuneError)
			if len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
				pair = utf16.DecodeRune(r, hex4(raw[2:]))
			}
			if pair == utf8.RuneError {
				lone = true
			} else {
				raw = raw[6:]
			}
			r = pair
		}
		out = utf8.AppendRune(out, r)
	}
	return out, lone
}

// escapes are the bytes that may follow a backslash, but for u, and what they stand for.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escapeLen is the length of the escape at the head of b, 0 if it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	if escapes[b[1]] != 0 {
		return 2
	}
	if b[1] != 'u' || len(b) < 6 || hex4(b[2:]) < 0 {
		return 0
	}
	return 6
}

// hex4 reads four hex digits; it is negative if they are none. b has at least four bytes.
func hex4(b []byte) rune {
	var r rune
	for _, c := range b[:4] {
		switch {
		case c-'0' <= 9:
			c -= '0'
		case c|0x20-'a' <= 5:
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
