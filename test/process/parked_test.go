package process

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/queencell/queencell/test/internal/broker"
)

// park opens n connections with one pop each and returns them once the broker holds them all.
func park(t *testing.T, b *broker.Broker, n int, queue string, o broker.PopOptions) []*broker.Conn {
	t.Helper()
	conns := make([]*broker.Conn, n)
	for i := range conns {
		c, err := b.Dial()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.Send("GET", broker.PopPath(queue, o)); err != nil {
			t.Fatal(err)
		}
		conns[i] = c
	}
	waitParked(t, b, n, slow(10*time.Second))
	return conns
}

// TestOneMessageWakesOneOf2000 pins P1 and P2: two thousand parked pops and two thousand pushes make two thousand
// answers of one message each.
func TestOneMessageWakesOneOf2000(t *testing.T) {
	const n = 2000
	b := broker.Start(t, nil)
	name := queue(t)
	conns := park(t, b, n, name, broker.PopOptions{Wait: true, Timeout: 60 * time.Second, Batch: 10})
	answers := make([]broker.Popped, n)
	var readers, writers sync.WaitGroup
	for i, c := range conns {
		readers.Go(func() { answers[i] = broker.AsPop(c.Receive(40 * time.Second)) })
	}
	for w := range 20 {
		writers.Go(func() {
			for i := w; i < n; i += 20 {
				if a := b.Push(name, "", fmt.Sprint(i)); a.Status != 201 {
					t.Errorf("push: %v", a)
				}
			}
		})
	}
	writers.Wait()
	readers.Wait()
	seen := map[string]int{}
	for i, a := range answers {
		if a.Status != 200 || len(a.Messages) != 1 {
			t.Fatalf("pop %d: %v, want one message", i, a)
		}
		seen[string(a.Messages[0].Payload)]++
	}
	if len(seen) != n {
		t.Errorf("%d different messages were delivered, want %d", len(seen), n)
	}
	if d := b.Depth(name, ""); d.InGroup("").Leased != n || d.Pending != 0 {
		t.Errorf("depth %v", d)
	}
}

// Test200DisconnectAtOnce pins D9: clients that have gone hold no place and get nothing.
func Test200DisconnectAtOnce(t *testing.T) {
	const n = 200
	b := broker.Start(t, nil)
	name := queue(t)
	for _, c := range park(t, b, n, name, broker.PopOptions{Wait: true, Timeout: 60 * time.Second}) {
		c.Close()
	}
	waitParked(t, b, 0, slow(time.Second))
	b.Push(name, "", numbers(0, n)...).Want(t, 201)
	if d := b.Depth(name, ""); d.Pending != n || d.InGroup("").Leased != 0 {
		t.Errorf("depth after the push: %v", d)
	}
	p := b.Pop(name, broker.PopOptions{Batch: n})
	if len(p.Messages) != n {
		t.Fatalf("got %d messages, want %d", len(p.Messages), n)
	}
	for i, m := range p.Messages {
		if m.Attempts != 1 || string(m.Payload) != fmt.Sprint(i) {
			t.Fatalf("message %d: %s attempts %d", i, m.Payload, m.Attempts)
		}
	}
}

// TestDeadWaiterGetsNothing pins LP-01 (D9): the next message after a disconnect goes to the living.
func TestDeadWaiterGetsNothing(t *testing.T) {
	b := broker.Start(t, nil)
	for _, autoAck := range []bool{false, true} {
		for _, end := range []string{"FIN", "RST", "SIGKILL"} {
			t.Run(fmt.Sprintf("%s,autoAck=%v", end, autoAck), func(t *testing.T) {
				name := queue(t)
				o := broker.PopOptions{Wait: true, Timeout: 30 * time.Second, AutoAck: autoAck}
				switch end {
				case "SIGKILL":
					c := startChild(t, b, broker.PopPath(name, o))
					waitParked(t, b, 1, slow(5*time.Second))
					c.kill()
				case "RST":
					if err := park(t, b, 1, name, o)[0].Reset(); err != nil {
						t.Fatal(err)
					}
				case "FIN":
					if err := park(t, b, 1, name, o)[0].Close(); err != nil {
						t.Fatal(err)
					}
				}
				waitParked(t, b, 0, slow(time.Second))
				expectNext(t, b, name, autoAck)
			})
		}
	}
}

// expectNext pushes one message and expects that a living consumer gets it at once, for the first time.
func expectNext(t *testing.T, b *broker.Broker, name string, autoAck bool) {
	t.Helper()
	b.Push(name, "", `"m"`).Want(t, 201)
	start := time.Now()
	p := b.Pop(name, broker.PopOptions{Wait: true, Timeout: 5 * time.Second, AutoAck: autoAck})
	between(t, "the message came", time.Since(start), 0, slow(300*time.Millisecond))
	if len(p.Messages) != 1 || p.Messages[0].Attempts != 1 {
		t.Fatalf("the living consumer got %v, want the message with attempts 1", p)
	}
}

// TestDisconnectWithBody pins LP-02: a request whose body nobody needs must not hide the disconnect.
func TestDisconnectWithBody(t *testing.T) {
	b := broker.Start(t, nil)
	forms := []struct {
		name    string
		headers []string
		body    string
		expect  bool
	}{
		{"content length", []string{"Content-Length: 2"}, "{}", false},
		{"chunked", []string{"Transfer-Encoding: chunked"}, "2\r\n{}\r\n0\r\n\r\n", false},
		{"trailing bytes", []string{"Content-Length: 9"}, "{} {} {} ", false},
		{"expect", []string{"Content-Length: 2", "Expect: 100-continue"}, "{}", true},
	}
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			name := queue(t)
			c, err := b.Dial()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			path := broker.PopPath(name, broker.PopOptions{Wait: true, Timeout: 30 * time.Second})
			if err := c.Send("GET", path, form.headers...); err != nil {
				t.Fatal(err)
			}
			if form.expect {
				// A client sends the body when it is told to, or when it has waited long enough.
				if err := c.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
					t.Fatal(err)
				}
				_, _ = c.Read(make([]byte, 64)) // the interim answer, or none
			}
			if _, err := io.WriteString(c, form.body); err != nil {
				t.Fatal(err)
			}
			waitParked(t, b, 1, slow(5*time.Second))
			c.Close()
			waitParked(t, b, 0, slow(time.Second))
			expectNext(t, b, name, false)
		})
	}
}

// TestWakingInOrder pins LP-08 (P2): who waits longest is served first.
func TestWakingInOrder(t *testing.T) {
	b := broker.Start(t, nil)
	name := queue(t)
	var conns [3]*broker.Conn
	for i := range conns {
		c, err := b.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns[i] = c
	}
	for round := range scaled(200, 50) {
		o := broker.PopOptions{Wait: true, Timeout: 20 * time.Second, AutoAck: true}
		for i, c := range conns {
			if err := c.Send("GET", broker.PopPath(name, o)); err != nil {
				t.Fatal(err)
			}
			waitParked(t, b, i+1, slow(5*time.Second))
		}
		for i := range conns {
			b.Push(name, "", fmt.Sprint(i)).Want(t, 201)
		}
		for i, c := range conns {
			p := broker.AsPop(c.Receive(5 * time.Second))
			if p.Payloads() != fmt.Sprint(i) {
				t.Fatalf("round %d: waiter %d got %v", round, i, p)
			}
		}
	}
}

// TestAnswersAreNotMixed pins HE-14: with thousands of pops that are cancelled at random, each answer is about the queue
// that was asked.
func TestAnswersAreNotMixed(t *testing.T) {
	n := scaled(5000, 3000)
	b := broker.Start(t, nil)
	prefix := queue(t)
	// Nearly all wait until the pushes come; one in three gives up before.
	conns := make([]*broker.Conn, n)
	var wg sync.WaitGroup
	for w := range 50 {
		wg.Go(func() {
			for i := w; i < n; i += 50 {
				c, err := b.Dial()
				if err != nil {
					t.Error(err)
					return
				}
				conns[i] = c
				o := broker.PopOptions{Wait: true, Timeout: 120 * time.Second, AutoAck: i%2 == 0}
				if err := c.Send("GET", broker.PopPath(fmt.Sprintf("%s-%d", prefix, i), o)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, c := range conns {
		if c == nil {
			t.FailNow()
		}
		defer c.Close()
	}
	waitParked(t, b, n, slow(20*time.Second))
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < n; i += 8 {
				if i%3 == 0 {
					conns[i].Close()
				}
				name := fmt.Sprintf("%s-%d", prefix, i)
				if a := b.Push(name, "", broker.Quote(name)); a.Status != 201 {
					t.Errorf("push: %v", a)
				}
			}
		})
	}
	for w := range 50 {
		wg.Go(func() {
			for i := w; i < n; i += 50 {
				if i%3 == 0 {
					continue
				}
				name := fmt.Sprintf("%s-%d", prefix, i)
				p := broker.AsPop(conns[i].Receive(60 * time.Second))
				var payload string
				if len(p.Messages) == 1 {
					_ = json.Unmarshal(p.Messages[0].Payload, &payload) // compared below
				}
				if p.Queue != name || payload != name {
					t.Errorf("the pop of %s was answered %v", name, p)
				}
			}
		})
	}
	wg.Wait()
	waitParked(t, b, 0, slow(2*time.Second))
}
