package process

import (
	"fmt"
	"io"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/queencell/queencell/test/internal/broker"
)

// TestStopAnswersParked pins LP-11 (G1): each parked client gets a complete, empty answer, and the exit is clean and
// quick.
func TestStopAnswersParked(t *testing.T) {
	t.Parallel()
	b := broker.Start(t, nil)
	conns := park(t, b, 100, queue(t), broker.PopOptions{Wait: true, Timeout: 60 * time.Second})
	start := time.Now()
	if err := b.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i, c := range conns {
		wg.Go(func() {
			p := broker.AsPop(c.Receive(10 * time.Second))
			if p.Status != 200 || p.Messages == nil || len(p.Messages) != 0 {
				t.Errorf("parked client %d: %v", i, p)
			}
		})
	}
	wg.Wait()
	// A single broker has no new owner to wait for.
	between(t, "all answered", time.Since(start), 0, slow(time.Second))
	if !b.WaitExit(8*time.Second) || b.ExitCode() != 0 {
		t.Fatalf("exit code %d\n%s", b.ExitCode(), b.Logs())
	}
	t.Logf("stopped in %v", time.Since(start))
}

// TestStopWithSilentConnections pins OP-02: connections that never send a request do not hold the exit up.
func TestStopWithSilentConnections(t *testing.T) {
	t.Parallel()
	b := broker.Start(t, nil)
	for i := range 100 {
		c, err := b.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 0 {
			if _, err := io.WriteString(c, "POST /api/v1/ephemeral/push HTTP/1.1\r\nHost: brok"); err != nil {
				t.Fatal(err)
			}
		}
	}
	start := time.Now()
	if err := b.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if !b.WaitExit(10*time.Second) || b.ExitCode() != 0 {
		t.Fatalf("exit code %d after %v\n%s", b.ExitCode(), time.Since(start), b.Logs())
	}
	t.Logf("stopped in %v", time.Since(start))
}

// halfPush opens a connection and sends a push without its last byte; finish sends that.
func halfPush(t *testing.T, b *broker.Broker, name string) (c *broker.Conn, finish func() error) {
	t.Helper()
	c, err := b.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	body := string(broker.PushBody(name, "", `"in flight"`))
	if err := c.Send("POST", "/api/v1/ephemeral/push", fmt.Sprintf("Content-Length: %d", len(body))); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, body[:len(body)-1]); err != nil {
		t.Fatal(err)
	}
	return c, func() error {
		_, err := io.WriteString(c, body[len(body)-1:])
		return err
	}
}

// TestStopFinishesInFlight pins G1: a request that is being read when SIGTERM comes is served, and its connection
// closed.
func TestStopFinishesInFlight(t *testing.T) {
	t.Parallel()
	b := broker.Start(t, nil)
	c, finish := halfPush(t, b, queue(t))
	waitInHandler(t, b)
	if err := b.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitRefused(t, b)
	if err := finish(); err != nil {
		t.Fatal(err)
	}
	a := c.Receive(5 * time.Second)
	if a.Status != 201 || a.Header.Get("Connection") != "close" {
		t.Errorf("answer %v, connection %q", a, a.Header.Get("Connection"))
	}
	if !b.WaitExit(8*time.Second) || b.ExitCode() != 0 {
		t.Fatalf("exit code %d\n%s", b.ExitCode(), b.Logs())
	}
}

// waitInHandler waits until what was sent before on other connections has been accepted: connections are accepted in
// order, and a request on a later one has been answered.
func waitInHandler(t *testing.T, b *broker.Broker) {
	t.Helper()
	for range 3 {
		c, err := b.Dial()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Send("GET", "/health/live"); err != nil {
			t.Fatal(err)
		}
		c.Receive(5*time.Second).Want(t, 200)
		c.Close()
	}
}

// waitRefused waits until the broker is seen to stop: it takes no new connection, or says that it drains.
func waitRefused(t *testing.T, b *broker.Broker) {
	t.Helper()
	broker.Eventually(t, 5*time.Second, func() string {
		c, err := b.Dial()
		if err != nil {
			return ""
		}
		defer c.Close()
		if err := c.Send("GET", "/health"); err != nil {
			return ""
		}
		if a := c.Receive(5 * time.Second); a.Err == nil && a.Status == 200 {
			return "healthy"
		}
		return ""
	})
}

// TestSecondSignalExitsAtOnce pins G2.
func TestSecondSignalExitsAtOnce(t *testing.T) {
	t.Parallel()
	b := broker.Start(t, nil)
	halfPush(t, b, queue(t)) // holds the drain up
	waitInHandler(t, b)
	if err := b.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitRefused(t, b)
	if b.WaitExit(300 * time.Millisecond) {
		t.Fatalf("the first signal did not wait for the request in flight\n%s", b.Logs())
	}
	start := time.Now()
	if err := b.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if !b.WaitExit(5 * time.Second) {
		t.Fatal("still running after the second signal")
	}
	between(t, "exited", time.Since(start), 0, slow(500*time.Millisecond))
}

// TestDrainLimit pins G1: a client that never finishes its request holds the exit up for the drain limit and no longer.
func TestDrainLimit(t *testing.T) {
	t.Parallel()
	b := broker.Start(t, nil)
	halfPush(t, b, queue(t))
	waitInHandler(t, b)
	start := time.Now()
	if err := b.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if !b.WaitExit(10 * time.Second) {
		t.Fatalf("still running\n%s", b.Logs())
	}
	t.Logf("exit code %d after %v", b.ExitCode(), time.Since(start))
}

// TestUnreadyAfterSignal pins OP-08: within 100 ms of SIGTERM an open connection sees the broker as unready or is
// closed; it is never told that all is well.
func TestUnreadyAfterSignal(t *testing.T) {
	t.Parallel()
	b := broker.Start(t, nil)
	_, finish := halfPush(t, b, queue(t)) // keeps it draining
	c, err := b.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Send("GET", "/health"); err != nil {
		t.Fatal(err)
	}
	c.Receive(5*time.Second).Want(t, 200)
	if err := b.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	broker.Eventually(t, slow(100*time.Millisecond), func() string {
		if err := c.Send("GET", "/health"); err != nil {
			return ""
		}
		if a := c.Receive(5 * time.Second); a.Err == nil && a.Status == 200 {
			return a.String()
		}
		return ""
	})
	t.Logf("unready after %v", time.Since(start))
	if err := finish(); err != nil {
		t.Fatal(err)
	}
	if !b.WaitExit(8*time.Second) || b.ExitCode() != 0 {
		t.Errorf("exit code %d\n%s", b.ExitCode(), b.Logs())
	}
}

// TestSlowClientsAreCutOff: who never ends the header or the body of a request does not hold a connection for ever.
func TestSlowClientsAreCutOff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text string }{
		{"header", "GET /health HTTP/1.1\r\nHost: bro"},
		{"body", "POST /api/v1/ephemeral/push HTTP/1.1\r\nHost: broker\r\nContent-Length: 1000\r\n\r\n{\"queue\":"},
		{"chunked body", "POST /api/v1/ephemeral/push HTTP/1.1\r\nHost: broker\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{\"queue\":\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conn, err := shared.Dial()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, c.text); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if err := conn.SetReadDeadline(start.Add(75 * time.Second)); err != nil {
				t.Fatal(err)
			}
			// An answer may come first; then the end.
			answer, err := io.ReadAll(conn)
			if e, ok := err.(interface{ Timeout() bool }); ok && e.Timeout() {
				t.Fatalf("still open after %v; got %q", time.Since(start), answer)
			}
			t.Logf("cut off after %v with %.80q", time.Since(start), answer)
		})
	}
}
