// Package memory holds the built broker to its memory budget (contract B6): whatever clients make it keep, its resident
// memory stays within 1.5 times the budget plus what an idle process takes.
package memory

import (
	"os"
	"testing"

	"github.com/queencell/queencell/test/internal/broker"
)

// TestMain builds the broker without the race detector, whose shadow memory would be measured instead.
func TestMain(m *testing.M) { os.Exit(broker.Main(m, false, nil)) }
