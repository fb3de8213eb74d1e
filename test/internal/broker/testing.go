package broker

import (
	"os"
	"testing"
	"time"
)

// Broker is a broker that a test owns, with a client for it.
type Broker struct {
	*Process
	*Client
}

// Start runs a broker in a directory of its own and stops it when the test ends, which must succeed. env is laid over
// Environment.
func Start(t testing.TB, env map[string]string) *Broker {
	t.Helper()
	return StartIn(t, t.TempDir(), env)
}

// StartIn is Start in a given directory, for a broker that comes back.
func StartIn(t testing.TB, dir string, env map[string]string) *Broker {
	t.Helper()
	p, err := Launch(os.Getenv(BinaryVariable), dir, env)
	if err != nil {
		t.Fatalf("start the broker: %v", err)
	}
	b := &Broker{Process: p, Client: NewClient("http://" + p.Addr)}
	t.Cleanup(func() {
		b.Client.Close()
		select {
		case <-p.Done(): // the test ended it and judged how
			if err := p.LogFaults(); err != nil {
				t.Error(err)
			}
		default:
			if err := p.Stop(); err != nil {
				t.Errorf("stop the broker: %v", err)
			}
		}
	})
	return b
}

// Eventually waits until condition returns "", asking every few milliseconds, and fails the test with its last answer
// when it does not within limit.
func Eventually(t testing.TB, limit time.Duration, condition func() string) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		why := condition()
		if why == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still not so after %v: %s", limit, why)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Want checks an answer's status.
func (a Answer) Want(t testing.TB, status int) {
	t.Helper()
	if a.Err != nil || a.Status != status {
		t.Fatalf("got %v, want %d", a, status)
	}
}

// WantCode checks the status and the code of a failure.
func (a Answer) WantCode(t testing.TB, status int, code string) {
	t.Helper()
	if a.Err != nil || a.Status != status || a.Code() != code {
		t.Fatalf("got %v, want %d %s", a, status, code)
	}
}
