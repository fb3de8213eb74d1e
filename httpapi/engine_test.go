package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/queencell/queencell/engine"
)

// thin is the real engine behind the Broker interface, for one broker whose pops do not wait. The other calls are the
// fake's.
type thin struct {
	*fake
	engine *engine.Engine
	begin  time.Time
	// popped is called with what a pop has claimed, before it is written.
	popped func(context.Context)
}

func newThin(t *testing.T) *thin {
	t.Helper()
	e, err := engine.New(engine.Config{Slots: 1, MaxBytes: 64 << 20, QueueMaxBytes: 16 << 20, QueueMaxLength: 20_000,
		Lease: 30 * time.Second, RetryLimit: 5, ImplicitIdle: 5 * time.Minute, MaxGroups: 10, MaxPartitions: 10})
	if err != nil {
		t.Fatal(err)
	}
	return &thin{fake: newFake(), engine: e, begin: time.Now()}
}

func (b *thin) now() engine.Time { return engine.Time(time.Since(b.begin)) }

func (b *thin) Push(_ context.Context, req *engine.PushRequest) (Served, error) {
	inc, err := b.engine.Push(b.now(), req, new(engine.Wakes))
	return Served{Node: "n1", Incarnation: inc, OneRing: inc != 0}, err
}

func (b *thin) Pop(ctx context.Context, req *engine.PopRequest, _ time.Duration, d *engine.Delivery) (Served, error) {
	inc, err := b.engine.Pop(b.now(), req, d, new(engine.Wakes))
	if b.popped != nil {
		b.popped(ctx)
	}
	return Served{Node: "n1", Incarnation: inc, OneRing: inc != 0}, err
}

func (b *thin) Ack(_ context.Context, req *engine.AckRequest, out []engine.Outcome) ([]engine.Outcome, Served, error) {
	out, inc := b.engine.Ack(b.now(), req, out, new(engine.Wakes))
	return out, Served{Node: "n1", Incarnation: inc, OneRing: inc != 0}, nil
}

func (b *thin) GiveBack(d *engine.Delivery, traced bool) {
	b.engine.GiveBack(b.now(), d, traced, new(engine.Wakes))
	b.given <- traced
}

// popped is the answer of a pop, as a client reads it.
type popped struct {
	Messages []struct {
		ID        string          `json:"id"`
		Partition string          `json:"partition"`
		Attempts  int             `json:"attempts"`
		Payload   json.RawMessage `json:"payload"`
	} `json:"messages"`
}

func (b *bench) pop(t testing.TB, query string) popped {
	t.Helper()
	var p popped
	r := b.get(t, popURL+"?"+query)
	if err := json.Unmarshal([]byte(r.body), &p); err != nil || r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	return p
}

// startThin is start for a thin broker.
func startThin(t *testing.T, th *thin) *bench {
	t.Helper()
	return start(t, th.fake, nil, th)
}

// The way of a message through the real engine: pushed, handed out, sent out again, settled, and gone.
func TestThroughTheEngine(t *testing.T) {
	b := startThin(t, newThin(t))
	r := b.post(t, pushURL, `{"queue":"a/b","partition":"p:1.2","messages":[{"payload":{"n": 1.0}},{"payload":"\ud800"}]}`)
	inc := r.header.Get("Queen-Incarnation")
	if r.status != 201 || len(inc) != 16 {
		t.Fatalf("%d %v", r.status, r.header)
	}
	first := b.pop(t, "queue=a%2Fb&batch=10&group=g")
	if len(first.Messages) != 2 || string(first.Messages[0].Payload) != `{"n": 1.0}` || string(first.Messages[1].Payload) != `"\ud800"` ||
		first.Messages[0].ID != "e:"+inc+":p:1.2:0" && first.Messages[0].ID != "e:"+inc+":p:1.2:1" {
		t.Fatalf("%+v", first)
	}
	ack := func(id, status, want string) {
		t.Helper()
		r := b.post(t, ackURL, `{"queue":"a/b","group":"g","acks":[{"id":"`+id+`","status":"`+status+`"}]}`)
		if r.body != `{"results":[{"id":"`+id+`","outcome":"`+want+`"}]}` {
			t.Errorf("%s: %s, want %s", id, r.body, want)
		}
	}
	ack(first.Messages[0].ID, "retry", "redelivered")
	ack(first.Messages[1].ID, "completed", "acked")
	ack(first.Messages[1].ID, "completed", "unknown")
	again := b.pop(t, "queue=a%2Fb&batch=10&group=g&partition=p:1.2")
	if len(again.Messages) != 1 || again.Messages[0].Attempts != 2 || again.Messages[0].ID != first.Messages[0].ID+".2" {
		t.Fatalf("%+v", again)
	}
	ack(first.Messages[0].ID, "completed", "unknown")
	ack(again.Messages[0].ID, "completed", "acked")
	if p := b.pop(t, "queue=a%2Fb&group=g"); len(p.Messages) != 0 {
		t.Errorf("%+v", p)
	}
	ack("e:0000000000000001:p:1.2:1", "completed", "stale")
}

// Contract D9, with the real engine and real sockets: the message of a client that goes while its pop is served is
// there for the next one at once, as if it had never been handed out.
func TestGoneClientLeavesTheMessage(t *testing.T) {
	th := newThin(t)
	claimed := make(chan struct{})
	var once sync.Once
	th.popped = func(ctx context.Context) { once.Do(func() { close(claimed); <-ctx.Done() }) }
	b := startThin(t, th)
	b.post(t, pushURL, `{"queue":"q","messages":[{"payload":1}]}`)
	conn := b.dial(t)
	fmt.Fprintf(conn, "GET %s?queue=q HTTP/1.1\r\nHost: a\r\n\r\n", popURL)
	within(t, "the claim", claimed)
	conn.Close()
	if traced := within(t, "the give-back", th.given); traced {
		t.Error("given back with a trace, and nothing was written")
	}
	p := b.pop(t, "queue=q")
	if len(p.Messages) != 1 || p.Messages[0].Attempts != 1 || strings.Contains(p.Messages[0].ID, ".") {
		t.Errorf("%+v", p)
	}
}

// Case HE-14: under pops that are cancelled and run at the same time, each answer names its own queue and holds its own
// messages, and none is lost.
func TestAnswersAreNotMixedUp(t *testing.T) {
	th := newThin(t)
	th.given = make(chan bool, 10_000)
	b := startThin(t, th)
	const queues, messages = 8, 50
	var wg sync.WaitGroup
	for q := range queues {
		wg.Go(func() {
			for range messages {
				b.post(t, pushURL, fmt.Sprintf(`{"queue":"q%d","messages":[{"payload":"of q%d, %s"}]}`, q, q, strings.Repeat("x", q*700)))
			}
			got := 0
			for end := time.Now().Add(15 * time.Second); got < messages && time.Now().Before(end); {
				if got%5 == 0 { // one that goes away
					conn := b.dial(t)
					fmt.Fprintf(conn, "GET %s?queue=q%d&batch=3 HTTP/1.1\r\nHost: a\r\n\r\n", popURL, q)
					_ = conn.SetLinger(0)
					got += mustRead(conn, fmt.Sprintf("of q%d,", q))
					conn.Close()
				}
				r := b.get(t, popURL+fmt.Sprintf("?queue=q%d&batch=4&autoAck=true", q))
				if !strings.HasPrefix(r.body, fmt.Sprintf(`{"queue":"q%d",`, q)) ||
					strings.Count(r.body, `"payload":"of q`) != strings.Count(r.body, fmt.Sprintf(`"payload":"of q%d,`, q)) {
					t.Errorf("the answer for q%d is %.200s", q, r.body)
				}
				got += strings.Count(r.body, `"payload"`)
			}
			if got < messages {
				t.Errorf("q%d: %d of %d messages came", q, got, messages)
			}
		})
	}
	wg.Wait()
	if s := b.logs.String(); s != "" {
		t.Errorf("logged: %s", s)
	}
}

// mustRead reads a whole answer of a client that takes it before it goes, and counts the messages in it.
func mustRead(conn io.Reader, mark string) int {
	buf := make([]byte, 0, 64<<10)
	for !strings.Contains(string(buf), "]}") {
		n, err := conn.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err != nil || n == 0 {
			break
		}
	}
	return strings.Count(string(buf), mark)
}

// Contract B8: a message that came in goes out, also where its answer needs more than the bytes in flight.
func TestWhatWasPushedCanBePopped(t *testing.T) {
	th := newThin(t)
	b := start(t, th.fake, func(c *Config) { c.InflightMaxBytes = 1 << 20 }, th)
	payload := strings.Repeat("x", 700<<10)
	if r := b.post(t, "/api/v1/ephemeral/push", `{"queue":"q","messages":[{"payload":"`+payload+`"}]}`); r.status != 201 {
		t.Fatal(r.status, r.body)
	}
	if r := b.get(t, "/api/v1/ephemeral/pop?queue=q"); r.status != 200 || len(r.body) < len(payload) {
		t.Fatalf("with nothing else in flight: %d %.100s", r.status, r.body)
	}
	eventually(t, "the bytes in flight are given back", func() bool { return b.server.inflight.used.Load() == 0 })
}
