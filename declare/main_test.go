//go:build unix

package declare_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childEnv names what the test binary does in place of running tests when a test has started it as another process;
// its argument is the store's path.
const childEnv = "DECLARE_TEST_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		os.Exit(child(role, os.Args[1]))
	}
	goleak.VerifyTestMain(m)
}
