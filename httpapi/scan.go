package httpapi

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// maxDepth is the deepest nesting of a body, counted from its first bracket.
const maxDepth = 512

// maxUnknown bounds the members of one envelope object that nobody knows. They are ignored, but they must be compared
// with each other to find duplicates.
const maxUnknown = 64

// scanner reads one JSON text and hands out parts of it without copying them. It takes what RFC 8259 takes and nothing
// more: no byte order mark, no invalid UTF-8, one value with white space around it. It stops at the first error: every
// method then says "no more" or returns zero values, and err tells what it was.
//
// The decoders walk the objects that they know (the envelope) with enter, more and field; field refuses duplicate
// members. All else goes through skip, which checks the syntax and leaves duplicates alone.
type scanner struct {
	b     []byte
	i     int
	depth int
	// unknown are the unknown member names of the envelope objects that are open, outermost first.
	unknown []token
	err     error
}

// token is a JSON string without its quotes, as it was sent.
type token struct {
	raw     []byte
	escaped bool
}

// start begins a new text and keeps the scratch memory.
func (s *scanner) start(b []byte) {
	*s = scanner{b: b, unknown: s.unknown[:0]}
}

// fail keeps the first error and ends the text here, so that nothing more is found in it.
func (s *scanner) fail(text string) {
	if s.err == nil {
		s.err = badRequest(text)
	}
	s.i = len(s.b)
}

// unexpected fails at the next byte.
func (s *scanner) unexpected() {
	if s.i >= len(s.b) {
		s.fail("the body is not JSON: it ends too early")
		return
	}
	s.fail("the body is not JSON: unexpected byte at offset " + strconv.Itoa(s.i))
}

// peek skips white space and returns the next byte, 0 at the end and after an error. (A NUL is no JSON either.)
func (s *scanner) peek() byte {
	if s.i < len(s.b) && s.b[s.i] > ' ' {
		return s.b[s.i]
	}
	return s.peekSpace()
}

func (s *scanner) peekSpace() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// end checks that nothing follows.
func (s *scanner) end() error {
	if s.err == nil {
		s.peek()
		if s.i != len(s.b) {
			s.fail("the body is not JSON: there is more after its value")
		}
	}
	return s.err
}

// enter passes the bracket that opens an object or array; what names it for the error.
func (s *scanner) enter(bracket byte, what string) bool {
	switch c := s.peek(); {
	case c == bracket:
		s.i++
		return s.deeper()
	case c == 0:
		s.unexpected()
	case bracket == '{':
		s.fail(what + " must be an object")
	default:
		s.fail(what + " must be an array")
	}
	return false
}

func (s *scanner) deeper() bool {
	if s.depth++; s.depth > maxDepth {
		s.fail("the body is nested too deeply: at most " + strconv.Itoa(maxDepth) + " levels")
		return false
	}
	return true
}

// more says whether the open object or array goes on, and passes the comma or the closing bracket. first is true before
// the first element and is more's own after that.
func (s *scanner) more(first *bool, closing byte) bool {
	c := s.peek()
	if c == closing {
		s.i++
		s.depth--
		return false
	}
	if *first {
		*first = false
		return s.err == nil
	}
	if c != ',' {
		s.unexpected()
		return false
	}
	s.i++
	return true
}

// str reads a string and checks its escapes and its UTF-8. Lone surrogate escapes are left to unescape.
func (s *scanner) str() token {
	if s.peek() != '"' {
		s.unexpected()
		return token{}
	}
	b, i, escaped := s.b, s.i+1, false
	start := i
	for {
		// Eight bytes at a time while they are plain ASCII. The lowest byte that is flagged is flagged rightly: a
		// borrow can only reach the bytes above one that is itself flagged.
		special := uint64(0)
		for i+8 <= len(b) {
			const ones, highs = 0x0101010101010101, 0x8080808080808080
			w := binary.LittleEndian.Uint64(b[i:])
			special = (w | (w - ones*0x20) | ((w ^ ones*'"') - ones) | ((w ^ ones*'\\') - ones)) & highs
			if special != 0 {
				i += bits.TrailingZeros64(special) / 8
				break
			}
			i += 8
		}
		for special == 0 && i < len(b) && b[i] >= 0x20 && b[i] < utf8.RuneSelf && b[i] != '"' && b[i] != '\\' {
			i++
		}
		if i >= len(b) {
			s.i = i
			s.unexpected()
			return token{}
		}
		switch c := b[i]; {
		case c == '"':
			s.i = i + 1
			return token{b[start:i], escaped}
		case c == '\\':
			n := escapeLen(b[i:])
			if n == 0 {
				s.i = i
				s.fail("the body is not JSON: bad escape at offset " + strconv.Itoa(i))
				return token{}
			}
			escaped = true
			i += n
		case c < 0x20:
			s.i = i
			s.fail("the body is not JSON: control character in a string at offset " + strconv.Itoa(i))
			return token{}
		default:
			r, n := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && n == 1 {
				s.i = i
				s.fail("the body is not valid UTF-8 at offset " + strconv.Itoa(i))
				return token{}
			}
			i += n
		}
	}
}

// skip passes one value of any kind and returns it as it was sent.
func (s *scanner) skip() []byte {
	c := s.peek()
	start := s.i
	switch c {
	case '"':
		s.str()
	case '{':
		s.i++
		s.deeper()
		for first := true; s.more(&first, '}'); {
			s.str()
			s.colon()
			s.skip()
		}
	case '[':
		s.i++
		s.deeper()
		for first := true; s.more(&first, ']'); {
			s.skip()
		}
	case 't':
		s.literal("true")
	case 'f':
		s.literal("false")
	case 'n':
		s.literal("null")
	default:
		s.number()
	}
	if s.err != nil {
		return nil
	}
	return s.b[start:s.i]
}

func (s *scanner) colon() {
	if s.peek() != ':' {
		s.unexpected()
		return
	}
	s.i++
}

func (s *scanner) literal(word string) bool {
	if s.err != nil || len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		s.unexpected()
		return false
	}
	s.i += len(word)
	return true
}

// number passes a number by the grammar of RFC 8259: no leading zero, no sign but minus, digits around the point.
func (s *scanner) number() {
	if s.err != nil {
		return
	}
	if s.i < len(s.b) && s.b[s.i] == '-' {
		s.i++
	}
	if s.i < len(s.b) && s.b[s.i] == '0' {
		s.i++
	} else if !s.digits() {
		return
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if !s.digits() {
			return
		}
	}
	if s.i < len(s.b) && s.b[s.i]|0x20 == 'e' {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		s.digits()
	}
}

func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && s.b[s.i]-'0' <= 9 {
		s.i++
	}
	if s.i == start {
		s.unexpected()
		return false
	}
	return true
}
