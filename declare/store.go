package declare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Bounds of what a store takes.
const (
	// MaxTenant is the longest tenant, in bytes.
	MaxTenant = 128
	// MaxQueue is the longest queue name, in bytes (contract N1).
	MaxQueue = 512
	// MaxOptionsBytes is the longest options object. The closed list of options, written in full, takes less than one
	// percent of it: what is longer is blank space.
	MaxOptionsBytes = 64 << 10
	// ChangesKept is how many versions a reader may be behind and still be told only what changed.
	ChangesKept = 1000
)

var (
	// ErrUnavailable: the store can't be reached, is closed, or the context ended first. Nothing changed; the same
	// write may be sent again.
	ErrUnavailable = errors.New("the store is not available")
	// ErrRefused: the store was reached and did not take the write. Nothing changed; the same write again is likely to
	// be refused again.
	ErrRefused = errors.New("the store refused the write")
	// ErrUnknownOutcome: the write may have been stored or not. Load tells which.
	ErrUnknownOutcome = errors.New("the outcome of the write is unknown")
)

// Declaration is one declared queue (contract E2).
type Declaration struct {
	Tenant, Queue string
	// Options is the JSON object as it was sent, byte for byte.
	Options []byte
	// Version is that of the Put that stored it.
	Version uint64
}

// Deletion is a Delete that removed a declaration.
type Deletion struct {
	Tenant, Queue string
	Version       uint64
}

// Switch is the kill switch. A store in which it was never set has it enabled, at version 0.
type Switch struct {
	Enabled bool
	Version uint64
}

// Snapshot is what a store held at one moment.
type Snapshot struct {
	// Version is the highest version taken so far, 0 for a store that was never written.
	Version uint64
	// Full says that Declarations are all there are: what is not among them is not declared. Otherwise they are what
	// was put, and Deleted what was deleted, since the version that was asked for; Deleted is to be applied first.
	Full   bool
	Switch Switch
	// Declarations and Deleted ascend by version. The caller owns them.
	Declarations []Declaration
	Deleted      []Deletion
}

// Store keeps declarations and the switch. The package's page states what holds for all of its methods.
type Store interface {
	// Load returns what changed after version since, reading little more than that: nothing but the Version and the
	// Switch when since is the store's version. It returns a Full snapshot when since is 0, is not a version of this
	// store, or is more than ChangesKept behind; a store that can't tell may do so for any since.
	Load(ctx context.Context, since uint64) (Snapshot, error)
	// Put declares the queue, or replaces its options whole, and returns the version that it took.
	Put(ctx context.Context, tenant, queue string, options []byte) (version uint64, err error)
	// Delete removes the declaration and returns the version that it took. Of a queue that is not declared it changes
	// nothing, takes no version, and returns false with the store's version: one at which the queue was not declared.
	Delete(ctx context.Context, tenant, queue string) (existed bool, version uint64, err error)
	// SetSwitch stores the switch and returns the version that it took, also when it was so already.
	SetSwitch(ctx context.Context, enabled bool) (version uint64, err error)
	// Close waits for the calls under way. Afterwards every other method returns ErrUnavailable; Close itself may be
	// called again.
	Close() error
}

// errClosed says why a closed store is not available.
var errClosed = errors.New("it is closed")

func unavailable(why error) error    { return fmt.Errorf("%w: %w", ErrUnavailable, why) }
func refused(why error) error        { return fmt.Errorf("%w: %w", ErrRefused, why) }
func unknownOutcome(why error) error { return fmt.Errorf("%w: %w", ErrUnknownOutcome, why) }

// checkNames refuses what some store could not keep apart or at all; callers have checked names by the contract before.
func checkNames(tenant, queue string) error {
	if err := checkName("tenant", tenant, MaxTenant); err != nil {
		return err
	}
	return checkName("queue", queue, MaxQueue)
}

func checkName(kind, s string, longest int) error {
	if s == "" || len(s) > longest {
		return refused(fmt.Errorf("the %s must have 1 to %d bytes, this one has %d", kind, longest, len(s)))
	}
	if !utf8.ValidString(s) {
		return refused(fmt.Errorf("the %s must be valid UTF-8", kind))
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] == 0x7f {
			return refused(fmt.Errorf("the %s must not hold control characters", kind))
		}
	}
	return nil
}

func checkOptions(options []byte) error {
	if len(options) == 0 || len(options) > MaxOptionsBytes {
		return refused(fmt.Errorf("options must have 1 to %d bytes, these have %d", MaxOptionsBytes, len(options)))
	}
	return nil
}

// sortByVersion puts ds in the order that Snapshot promises.
func sortByVersion(ds []Declaration) {
	slices.SortFunc(ds, func(a, b Declaration) int { return cmp.Compare(a.Version, b.Version) })
}

// canTell says whether a store at version, with the last ChangesKept writes at hand, can tell what changed after since.
func canTell(since, version uint64) bool {
	return since > 0 && since <= version && version-since <= ChangesKept
}
