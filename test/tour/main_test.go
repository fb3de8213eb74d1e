// Package tour holds the documents to what the built broker does: the tour in README.md is walked command by command,
// and the lists of variables, routes and metrics are compared with what the broker says itself.
package tour

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/queencell/queencell/test/internal/broker"
)

func TestMain(m *testing.M) { os.Exit(broker.Main(m, broker.RaceWanted(), nil)) }

// root is the module's folder, seen from this one.
const root = "../.."

// read returns a document of the project.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
