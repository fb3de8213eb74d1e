package engine

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParseSettingsTakesEveryOption(t *testing.T) {
	got, err := ParseSettings([]byte(` {"maxBytes":1,"maxLength":0,"policy":"dropOldest","ttlSeconds":3,"leaseSeconds":4,
		"retryLimit":9223372036854775807,"windowBuffer":{"ms":6,"count":7}} `))
	if err != nil {
		t.Fatal(err)
	}
	n := func(v int64) *int64 { return &v }
	policy := DropOldest
	want := Settings{MaxBytes: n(1), MaxLength: n(0), Policy: &policy, TTLSeconds: n(3), LeaseSeconds: n(4),
		RetryLimit: n(1<<63 - 1), WindowMillis: n(6), WindowCount: n(7)}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestParseSettingsLeavesOutWhatWasNotSent(t *testing.T) {
	for _, raw := range []string{`{}`, `{"windowBuffer":{}}`} {
		if got, err := ParseSettings([]byte(raw)); err != nil || got != (Settings{}) {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
	got, err := ParseSettings([]byte(`{"policy":"reject"}`))
	if err != nil || got.Policy == nil || *got.Policy != Reject || got.MaxBytes != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// A number larger than any option can be is clamped like every other.
func TestParseSettingsClampsHugeNumbers(t *testing.T) {
	got, err := ParseSettings([]byte(`{"maxLength":99999999999999999999999999,"leaseSeconds":9223372036854775808}`))
	if err != nil || *got.MaxLength != math.MaxInt64 || *got.LeaseSeconds != math.MaxInt64 {
		t.Fatalf("%+v, %v", got, err)
	}
	cfg := Config{QueueMaxBytes: 5, QueueMaxLength: 7, Lease: time.Second}
	if o := cfg.InForce(got); o.MaxLength != 7 || o.Lease != maxLeaseSeconds*time.Second {
		t.Fatalf("in force: %+v", o)
	}
}

// Case HE-17: what is out of shape is refused and named; nothing overflows.
func TestParseSettingsRefuses(t *testing.T) {
	for raw, says := range map[string]string{
		``:                                      "options must be",
		`null`:                                  "options must be",
		`[]`:                                    "options must be",
		`{} {}`:                                 "options must be",
		`{"maxBytes":1,}`:                       "options must be",
		"{\"policy\":\"\xff\"}":                 "options must be",
		`{"maxbytes":1}`:                        `"maxbytes"; the keys are maxBytes, maxLength`,
		`{"":1}`:                                `unknown key ""`,
		`{"` + strings.Repeat("x", 99) + `":1}`: strings.Repeat("x", 64) + "...",
		`{"windowBuffer":{"MS":1}}`:             `windowBuffer has the unknown key "MS"; the keys are ms, count`,
		`{"windowBuffer":5}`:                    "windowBuffer must be an object",
		`{"windowBuffer":null}`:                 "windowBuffer must be an object",
		`{"maxBytes":1,"maxBytes":1}`:           "maxBytes twice",
		`{"windowBuffer":{"ms":1,"ms":1}}`:      "ms twice",
		`{"maxBytes":1.5}`:                      "maxBytes must be",
		`{"maxBytes":1e3}`:                      "maxBytes must be",
		`{"ttlSeconds":30.0}`:                   "ttlSeconds must be",
		`{"ttlSeconds":0.1}`:                    "ttlSeconds must be",
		`{"leaseSeconds":"3"}`:                  "leaseSeconds must be",
		`{"leaseSeconds":true}`:                 "leaseSeconds must be",
		`{"leaseSeconds":-1}`:                   "leaseSeconds must be",
		`{"leaseSeconds":-0}`:                   "leaseSeconds must be",
		`{"retryLimit":null}`:                   "retryLimit must be",
		`{"retryLimit":[1]}`:                    "retryLimit must be",
		`{"retryLimit":{"a":1}}`:                "retryLimit must be",
		`{"windowBuffer":{"count":1e1}}`:        "windowBuffer.count must be",
		`{"policy":"REJECT"}`:                   "policy must be",
		`{"policy":""}`:                         "policy must be",
		`{"policy":null}`:                       "policy must be",
		`{"policy":1}`:                          "policy must be",
	} {
		got, err := ParseSettings([]byte(raw))
		if err == nil || !strings.Contains(err.Error(), says) || got != (Settings{}) {
			t.Errorf("%s: got %+v and %v, want an error with %q", raw, got, err, says)
		}
	}
}

// FuzzParseSettings: what is accepted is an object that encoding/json reads to the same numbers.
func FuzzParseSettings(f *testing.F) {
	f.Add([]byte(`{"maxBytes":1,"policy":"reject","windowBuffer":{"ms":5,"count":0}}`))
	f.Add([]byte(`{"maxBytes":1e3}`))
	f.Add([]byte(`{"maxBytes":01}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := ParseSettings(raw)
		if err != nil {
			return
		}
		var want struct {
			MaxBytes, MaxLength, TTLSeconds, LeaseSeconds, RetryLimit *int64
			WindowBuffer                                              struct{ MS, Count *int64 }
		}
		if err := json.Unmarshal(raw, &want); err != nil {
			if strings.Contains(err.Error(), "cannot unmarshal number") {
				return // beyond int64, which encoding/json refuses and ParseSettings clamps
			}
			t.Fatalf("%q was accepted: %v", raw, err)
		}
		for _, pair := range [][2]*int64{{got.MaxBytes, want.MaxBytes}, {got.MaxLength, want.MaxLength},
			{got.TTLSeconds, want.TTLSeconds}, {got.LeaseSeconds, want.LeaseSeconds}, {got.RetryLimit, want.RetryLimit},
			{got.WindowMillis, want.WindowBuffer.MS}, {got.WindowCount, want.WindowBuffer.Count}} {
			if !reflect.DeepEqual(pair[0], pair[1]) {
				t.Fatalf("%q: got %+v", raw, got)
			}
		}
	})
}
