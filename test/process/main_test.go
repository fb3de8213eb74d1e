// Package process tests the built broker from outside: its binary, signals, environment and sockets, and nothing of its
// code. Each test names the rule or the reported fault that it pins.
package process

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/queencell/queencell/test/internal/broker"
)

// shared serves the tests whose state is all under queue names of their own.
var shared *broker.Broker

// childVariable makes the test binary a client that parks pops and never ends by itself.
const childVariable = "QUEENCELL_TEST_CHILD"

func TestMain(m *testing.M) {
	if spec := os.Getenv(childVariable); spec != "" {
		runChild(spec)
		return
	}
	os.Exit(broker.Main(m, broker.RaceWanted(), func(binary string) (func() error, error) {
		dir, err := os.MkdirTemp("", "queencell-process-")
		if err != nil {
			return nil, err
		}
		p, err := broker.Launch(binary, dir, map[string]string{
			"QUEEN_EPHEMERAL_MAX_BYTES": "1073741824",
		})
		if err != nil {
			return nil, fmt.Errorf("start the shared broker: %w", err)
		}
		shared = &broker.Broker{Process: p, Client: broker.NewClient("http://" + p.Addr)}
		return func() error {
			shared.Client.Close()
			defer os.RemoveAll(dir)
			return p.Stop()
		}, nil
	}))
}

// queue is a queue name that belongs to the test.
func queue(t testing.TB) string { return strings.ReplaceAll(t.Name(), "/", "-") }

// slow widens a time limit where the race detector makes everything slower, on both sides of the wire.
func slow(d time.Duration) time.Duration {
	if broker.Race {
		return 4 * d
	}
	return d
}

// scaled is n, or a part of it under the race detector, whose broker does a fifth of the work in the same time and
// may not have more than 8,128 goroutines.
func scaled(n, underRace int) int {
	if broker.Race {
		return underRace
	}
	return n
}

// waitParked waits until the broker says that n pops wait on it. Only for a broker of the test's own.
func waitParked(t testing.TB, b *broker.Broker, n int, limit time.Duration) {
	t.Helper()
	broker.Eventually(t, limit, func() string {
		got, err := b.Metric("queen_parked_waiters")
		if err != nil {
			return err.Error()
		}
		if int(got) != n {
			return fmt.Sprintf("%v pops are parked, want %d", got, n)
		}
		return ""
	})
}

// numbers are the JSON numbers from..to-1.
func numbers(from, to int) []string {
	texts := make([]string, 0, to-from)
	for i := from; i < to; i++ {
		texts = append(texts, fmt.Sprint(i))
	}
	return texts
}

// between checks that d lies in [low, high].
func between(t testing.TB, what string, d, low, high time.Duration) {
	t.Helper()
	if d < low || d > high {
		t.Errorf("%s after %v, want between %v and %v", what, d, low, high)
	}
}
