package cell

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/queencell/queencell/declare"
	"github.com/queencell/queencell/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tenant = "00000000-0000-0000-0000-000000000001"

func testConfig(store declare.Store) Config {
	return Config{
		Engine: engine.Config{
			MaxBytes:       64 << 20,
			QueueMaxBytes:  16 << 20,
			QueueMaxLength: 10_000,
			Lease:          30 * time.Second,
			RetryLimit:     5,
			ImplicitIdle:   300 * time.Second,
			GroupIdle:      time.Hour,
			MaxGroups:      1000,
			MaxPartitions:  100_000,
		},
		Store: store,
		Node:  "b1",
		Name:  "test",
		URL:   "http://b1:6632",
		Log:   slog.New(slog.DiscardHandler),
	}
}

// start runs a broker for one test.
func start(t testing.TB, cfg Config) *Broker {
	t.Helper()
	b, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// inBubble runs a test with a broker in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, b *Broker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, testConfig(declare.OpenMemory()))
		synctest.Wait() // the timer sleeps: what becomes due from here on has to wake it
		test(t, b)
	})
}

func push(t testing.TB, b *Broker, queue string, payloads ...string) {
	t.Helper()
	req := &engine.PushRequest{Tenant: tenant, Queue: queue}
	for _, p := range payloads {
		req.Messages = append(req.Messages, engine.Message{Payload: []byte(p)})
	}
	if _, err := b.Push(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

// popped is what a pop came back with.
type popped struct {
	d      engine.Delivery
	served Served
	err    error
	after  time.Duration
}

func (p *popped) payloads() []string {
	var all []string
	for _, m := range p.d.Messages {
		all = append(all, string(m.Payload))
	}
	return all
}

func pop(ctx context.Context, b *Broker, queue string, wait time.Duration) *popped {
	return popAs(ctx, b, &engine.PopRequest{Tenant: tenant, Queue: queue, Batch: 10}, wait)
}

func popAs(ctx context.Context, b *Broker, req *engine.PopRequest, wait time.Duration) *popped {
	begin := time.Now()
	p := &popped{}
	p.served, p.err = b.Pop(ctx, req, wait, &p.d)
	p.after = time.Since(begin)
	return p
}

// park starts a waiting pop and returns once it waits; in a bubble only.
func park(ctx context.Context, b *Broker, req *engine.PopRequest, wait time.Duration) <-chan *popped {
	done := make(chan *popped, 1)
	go func() { done <- popAs(ctx, b, req, wait) }()
	synctest.Wait()
	return done
}

func request(queue string) *engine.PopRequest {
	return &engine.PopRequest{Tenant: tenant, Queue: queue, Batch: 10}
}

// expect fails unless p has exactly these payloads, and no error.
func expect(t testing.TB, p *popped, payloads ...string) {
	t.Helper()
	if p.err != nil {
		t.Fatalf("pop: %v", p.err)
	}
	got := p.payloads()
	if len(got) != len(payloads) {
		t.Fatalf("popped %q, want %q", got, payloads)
	}
	for i := range got {
		if got[i] != payloads[i] {
			t.Fatalf("popped %q, want %q", got, payloads)
		}
	}
}

// expectNobody fails when somebody still waits.
func expectNobody(t testing.TB, b *Broker) {
	t.Helper()
	if s := b.System(); s.ParkedPolls != 0 || s.Engine.Waiters != 0 {
		t.Fatalf("%d polls and %d waiters are left", s.ParkedPolls, s.Engine.Waiters)
	}
}

func configure(t testing.TB, b *Broker, queue, options string) {
	t.Helper()
	settings, err := engine.ParseSettings([]byte(options))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Configure(t.Context(), tenant, queue, settings, []byte(options)); err != nil {
		t.Fatal(err)
	}
}
