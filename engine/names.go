package engine

import (
	"errors"
	"unicode/utf8"
)

// MaxName is the longest queue, partition or group name, in bytes (contract N1).
const MaxName = 512

var (
	errNameEmpty   = errors.New("must not be empty")
	errNameLong    = errors.New("must have at most 512 bytes")
	errNameUTF8    = errors.New("must be valid UTF-8")
	errNameControl = errors.New("must not hold control characters")
	errNameDots    = errors.New("must not be . or ..")
)

// ValidName reports why s cannot be the name of a partition or group, or nil (contract N1). The error completes a
// sentence that begins with the name's kind.
func ValidName(s string) error {
	switch {
	case s == "":
		return errNameEmpty
	case len(s) > MaxName:
		return errNameLong
	case !utf8.ValidString(s):
		return errNameUTF8
	}
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] == 0x7f {
			return errNameControl
		}
	}
	return nil
}

// ValidQueue is ValidName for a queue, which may not be . or .. because it is a segment of a path.
func ValidQueue(s string) error {
	if s == "." || s == ".." {
		return errNameDots
	}
	return ValidName(s)
}
