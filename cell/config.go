package cell

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/queencell/queencell/declare"
	"github.com/queencell/queencell/engine"
)

// MaxNodeID is the longest node id, in bytes.
const MaxNodeID = 64

// MaxURL is the longest public URL of a broker, in bytes.
const MaxURL = 256

// Config is what a broker is started with. Every field must be set.
type Config struct {
	// Engine holds the budget, the bounds and the defaults. Start sets Slots, SlotOf and Alarm.
	Engine engine.Config
	// Store keeps the declarations and the switch. It stays the caller's to close, after the broker.
	Store declare.Store
	// Node is this broker's stable name in the cell, see ValidNode.
	Node string
	// Name is the cell's.
	Name string
	// URL is what clients use for this broker.
	URL string
	Log *slog.Logger
}

var errNode = errors.New("must be 1 to 64 characters of A-Z, a-z, 0-9, '.', '_' and '-'")

// ValidNode reports why s cannot be a node id or the name of a cell, or nil. The error completes a sentence that
// begins with what s is.
func ValidNode(s string) error {
	if s == "" || len(s) > MaxNodeID {
		return errNode
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return errNode
		}
	}
	return nil
}

func (c *Config) validate() error {
	if err := ValidNode(c.Node); err != nil {
		return fmt.Errorf("cell: the node id %w", err)
	}
	if err := ValidNode(c.Name); err != nil {
		return fmt.Errorf("cell: the name of the cell %w", err)
	}
	switch {
	case c.URL == "" || len(c.URL) > MaxURL:
		return fmt.Errorf("cell: the URL must have 1 to %d bytes", MaxURL)
	case c.Store == nil:
		return errors.New("cell: Store is not set")
	case c.Log == nil:
		return errors.New("cell: Log is not set")
	}
	return nil
}
