package engine

import (
	"fmt"
	"time"
)

// Policy says what a full queue does with a push (contract B3).
type Policy uint8

// The policies.
const (
	Reject Policy = iota
	DropOldest
)

// String is the policy's word on the wire.
func (p Policy) String() string {
	if p == DropOldest {
		return "dropOldest"
	}
	return "reject"
}

// Options are a queue's options as in force, after clamping.
type Options struct {
	// MaxBytes bounds the payload bytes held.
	MaxBytes int64
	// MaxLength bounds the messages held.
	MaxLength int64
	Policy    Policy
	// TTL drops messages older than this; 0 is never.
	TTL time.Duration
	// Lease is how long a delivery may stay unanswered.
	Lease time.Duration
	// RetryLimit is how often a message goes out to a group; 0 means 1.
	RetryLimit int
	// Window delays the claim of a waiting pop until WindowCount messages (0: its batch) are there; 0 is off.
	Window      time.Duration
	WindowCount int
}

// Settings are a queue's options as an operator sent them, without clamping. A nil field was not sent.
type Settings struct {
	MaxBytes, MaxLength       *int64
	Policy                    *Policy
	TTLSeconds, LeaseSeconds  *int64
	RetryLimit                *int64
	WindowMillis, WindowCount *int64
}

// The ceilings of the options that have a fixed one (docs/http.md, configure).
const (
	maxTTLSeconds   = 31_536_000
	maxLeaseSeconds = 86_400
	maxRetryLimit   = 1_000
	maxWindowMillis = 60_000
	maxWindowCount  = 10_000
)

// InForce clamps s to the broker's ceilings and fills what was not sent with the defaults.
func (c *Config) InForce(s Settings) Options {
	o := c.defaults()
	if s.MaxBytes != nil && *s.MaxBytes != 0 {
		o.MaxBytes = clamp(*s.MaxBytes, 1, c.QueueMaxBytes)
	}
	if s.MaxLength != nil && *s.MaxLength != 0 {
		o.MaxLength = clamp(*s.MaxLength, 1, c.QueueMaxLength)
	}
	if s.Policy != nil {
		o.Policy = *s.Policy
	}
	if s.TTLSeconds != nil {
		o.TTL = time.Duration(clamp(*s.TTLSeconds, 0, maxTTLSeconds)) * time.Second
	}
	if s.LeaseSeconds != nil {
		o.Lease = time.Duration(clamp(*s.LeaseSeconds, 1, maxLeaseSeconds)) * time.Second
	}
	if s.RetryLimit != nil {
		o.RetryLimit = int(clamp(*s.RetryLimit, 0, maxRetryLimit))
	}
	if s.WindowMillis != nil {
		o.Window = time.Duration(clamp(*s.WindowMillis, 0, maxWindowMillis)) * time.Millisecond
	}
	if s.WindowCount != nil {
		o.WindowCount = int(clamp(*s.WindowCount, 0, maxWindowCount))
	}
	return o
}

func (c *Config) defaults() Options {
	return Options{
		MaxBytes:   c.QueueMaxBytes,
		MaxLength:  c.QueueMaxLength,
		Lease:      c.Lease,
		RetryLimit: c.RetryLimit,
	}
}

func clamp(v, low, high int64) int64 { return max(low, min(v, high)) }

// Config is what an engine is made with. Every field must be set but GroupIdle, SlotOf, Incarnation and Alarm.
type Config struct {
	// Slots is the number of slots that partitions hash to.
	Slots int
	// SlotOf tells the slot of a partition. Nil puts everything into slot 0.
	SlotOf func(tenant, queue, partition string) int
	// MaxBytes is the broker's budget, as footprint.
	MaxBytes int64
	// QueueMaxBytes and QueueMaxLength are the ceilings and the defaults of a queue's bounds.
	QueueMaxBytes, QueueMaxLength int64
	// Lease and RetryLimit are the defaults of a queue's options.
	Lease      time.Duration
	RetryLimit int
	// ImplicitIdle collects an implicit queue, and an empty partition of any queue, that was not used for so long.
	ImplicitIdle time.Duration
	// GroupIdle forgets a group that was not used for so long; 0 is never (contract E6).
	GroupIdle time.Duration
	// MaxGroups and MaxPartitions bound a queue's groups and partitions on this broker.
	MaxGroups, MaxPartitions int
	// Incarnation draws the number of a new ring. Nil draws at random.
	Incarnation func() uint64
	// Alarm is told when something became due before the time that the last Tick returned. It is called with locks
	// held: it must not block and must not call the engine. Nil is for callers that tick on their own.
	Alarm func(Time)
}

// MaxGroupsLimit is the most that Config.MaxGroups may be: a message counts the groups that hold it in 16 bits, and
// groups that are being forgotten hold theirs a moment longer.
const MaxGroupsLimit = 50_000

func (c *Config) validate() error {
	for _, f := range []struct {
		name string
		ok   bool
	}{
		{"Slots", c.Slots > 0},
		{"MaxBytes", c.MaxBytes > 0},
		{"QueueMaxBytes", c.QueueMaxBytes > 0},
		{"QueueMaxLength", c.QueueMaxLength > 0},
		{"Lease", c.Lease > 0},
		{"RetryLimit", c.RetryLimit >= 0 && c.RetryLimit <= maxRetryLimit},
		{"ImplicitIdle", c.ImplicitIdle > 0},
		{"GroupIdle", c.GroupIdle >= 0},
		{"MaxGroups", c.MaxGroups > 0 && c.MaxGroups <= MaxGroupsLimit},
		{"MaxPartitions", c.MaxPartitions > 0},
	} {
		if !f.ok {
			return fmt.Errorf("engine: %s is out of range", f.name)
		}
	}
	return nil
}
