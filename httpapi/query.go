package httpapi

import (
	"strings"
)

// parseQuery reads the query string raw into values, one for each of known. What was not sent stays "", as does what
// was sent empty; seen has the bit of each that was there. A known parameter that comes twice and a bad percent escape
// anywhere are refused: a proxy and a broker must not read two requests out of one. Unknown parameters are ignored.
func parseQuery(raw string, known []string, values []string) (seen uint32, err error) {
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		name, value, _ := strings.Cut(pair, "=")
		name, ok := unescapeQuery(name)
		if !ok {
			return 0, errEscape
		}
		value, ok = unescapeQuery(value)
		if !ok {
			return 0, errEscape
		}
		for k := range known {
			if name != known[k] {
				continue
			}
			if seen&(1<<k) != 0 {
				return 0, badRequest("the parameter " + name + " comes twice")
			}
			seen |= 1 << k
			values[k] = value
		}
	}
	return seen, nil
}

const errEscape = badRequest("the query has a bad percent escape")

// unescapeQuery decodes percent escapes, and plus as a space. It copies only what has some.
func unescapeQuery(s string) (string, bool) {
	if strings.IndexByte(s, '%') < 0 && strings.IndexByte(s, '+') < 0 {
		return s, true
	}
	return unescapePercent(s, ' ')
}

// unescapePercent decodes percent escapes and turns each plus into plus.
func unescapePercent(s string, plus byte) (string, bool) {
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '+':
			b.WriteByte(plus)
		case '%':
			if i+2 >= len(s) {
				return "", false
			}
			r := hex4([]byte{'0', '0', s[i+1], s[i+2]})
			if r < 0 {
				return "", false
			}
			b.WriteByte(byte(r))
			i += 2
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

// number reads plain digits and clamps them to low..high. A number of any length is clamped, not refused: it cannot
// overflow.
func number(what, s string, low, high int) (int, error) {
	if s == "" {
		return 0, badRequest(what + " must be a number in plain digits")
	}
	n := 0
	for i := 0; i < len(s); i++ {
		c := s[i] - '0'
		if c > 9 {
			return 0, badRequest(what + " must be a number in plain digits")
		}
		n = min(n*10+int(c), high)
	}
	return max(n, low), nil
}

// boolean reads true or false.
func boolean(what, s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, badRequest(what + " must be true or false")
}
