// Package soak drives the built broker, with the race detector, through random traffic of every kind, and then expects
// that nothing of it is left. SOAK=10m makes it longer.
package soak

import (
	"os"
	"testing"

	"github.com/queencell/queencell/test/internal/broker"
)

func TestMain(m *testing.M) { os.Exit(broker.Main(m, true, nil)) }
