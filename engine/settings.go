package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The keys of the options object and of its windowBuffer. The lists are closed: an option that is spelled wrong must not
// silently mean its default.
var (
	settingKeys = []string{"maxBytes", "maxLength", "policy", "ttlSeconds", "leaseSeconds", "retryLimit", "windowBuffer"}
	windowKeys  = []string{"ms", "count"}
)

// ParseSettings reads the options object of a configure strictly. Refused, with an error that names the field and says
// what it accepts: text that is not exactly one JSON object in UTF-8, an unknown key, a key sent twice, a number that is
// not written in plain digits or does not fit 63 bits, a policy that is no policy, and null, which is neither "absent"
// nor a value here. What was not sent is nil; nothing is clamped (Config.InForce does that).
func ParseSettings(raw []byte) (Settings, error) {
	if !utf8.Valid(raw) || !json.Valid(raw) {
		return Settings{}, errors.New("options must be a JSON object")
	}
	var s Settings
	p := settingsParser{json.NewDecoder(bytes.NewReader(raw))}
	p.UseNumber()
	err := p.object("options", settingKeys, func(key string) error {
		switch key {
		case "maxBytes":
			return p.number(key, &s.MaxBytes)
		case "maxLength":
			return p.number(key, &s.MaxLength)
		case "policy":
			return p.policy(key, &s.Policy)
		case "ttlSeconds":
			return p.number(key, &s.TTLSeconds)
		case "leaseSeconds":
			return p.number(key, &s.LeaseSeconds)
		case "retryLimit":
			return p.number(key, &s.RetryLimit)
		}
		return p.object(key, windowKeys, func(key string) error {
			if key == "ms" {
				return p.number("windowBuffer.ms", &s.WindowMillis)
			}
			return p.number("windowBuffer.count", &s.WindowCount)
		})
	})
	if err != nil {
		return Settings{}, err
	}
	return s, nil
}

// settingsParser reads the tokens of a text that is known to be valid JSON, so that no token can fail.
type settingsParser struct{ *json.Decoder }

// object reads an object whose keys are among known, each at most once, and calls member with the decoder at its value.
func (p settingsParser) object(name string, known []string, member func(key string) error) error {
	if t, err := p.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("%s must be an object", name)
	}
	seen := make(map[string]bool, len(known))
	for p.More() {
		t, err := p.Token()
		key, ok := t.(string)
		if err != nil || !ok {
			return fmt.Errorf("%s must be an object", name)
		}
		if !slices.Contains(known, key) {
			return fmt.Errorf("%s has the unknown key %s; the keys are %s", name, quoteShort(key), strings.Join(known, ", "))
		}
		if seen[key] {
			return fmt.Errorf("%s has the key %s twice", name, key)
		}
		seen[key] = true
		if err := member(key); err != nil {
			return err
		}
	}
	_, err := p.Token()
	return err
}

func (p settingsParser) number(name string, to **int64) error {
	t, err := p.Token()
	text, ok := t.(json.Number)
	if err != nil || !ok || strings.Trim(string(text), "0123456789") != "" {
		return fmt.Errorf("%s must be a non-negative integer in plain digits", name)
	}
	// Only digits are left, so the one error is a number too large, which comes with the largest there is: every
	// option is clamped far below that.
	n, _ := strconv.ParseInt(string(text), 10, 64)
	*to = &n
	return nil
}

func (p settingsParser) policy(name string, to **Policy) error {
	t, err := p.Token()
	for _, policy := range []Policy{Reject, DropOldest} {
		if word, ok := t.(string); err == nil && ok && word == policy.String() {
			*to = &policy
			return nil
		}
	}
	return fmt.Errorf("%s must be %q or %q", name, Reject, DropOldest)
}

// quoteShort quotes s for a person, at most its first 64 bytes.
func quoteShort(s string) string {
	if len(s) > 64 {
		s = s[:64] + "..."
	}
	return strconv.Quote(s)
}
