package cell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/queencell/queencell/declare"
	"github.com/queencell/queencell/engine"
)

// faulty is a store whose writes and reads fail with err while it is set.
type faulty struct {
	declare.Store
	err error
}

func (f *faulty) Load(ctx context.Context, since uint64) (declare.Snapshot, error) {
	if f.err != nil {
		return declare.Snapshot{}, f.err
	}
	return f.Store.Load(ctx, since)
}

func (f *faulty) Put(ctx context.Context, tenant, queue string, options []byte) (uint64, error) {
	if f.err != nil {
		return 0, f.err
	}
	return f.Store.Put(ctx, tenant, queue, options)
}

func (f *faulty) Delete(ctx context.Context, tenant, queue string) (bool, uint64, error) {
	if f.err != nil {
		return false, 0, f.err
	}
	return f.Store.Delete(ctx, tenant, queue)
}

func (f *faulty) SetSwitch(ctx context.Context, enabled bool) (uint64, error) {
	if f.err != nil {
		return 0, f.err
	}
	return f.Store.SetSwitch(ctx, enabled)
}

func options(t testing.TB, b *Broker, queue string) (engine.QueueInfo, bool) {
	t.Helper()
	page, err := b.Queues(t.Context(), tenant, queue, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range page.Queues {
		if q.Queue == queue {
			return q, true
		}
	}
	return engine.QueueInfo{}, false
}

// A change that the store does not take changes nothing (http.md, configure; rule S3).
func TestStoreFailureChangesNothing(t *testing.T) {
	store := &faulty{Store: declare.OpenMemory()}
	b := start(t, testConfig(store))
	configure(t, b, "q", `{"ttlSeconds":7}`)
	for _, c := range []struct{ fails, want error }{
		{declare.ErrUnavailable, ErrStoreDown},
		{declare.ErrRefused, ErrStoreFailed},
		{declare.ErrUnknownOutcome, ErrStoreFailed},
	} {
		store.err = fmt.Errorf("%w: on purpose", c.fails)
		_, err := b.Configure(t.Context(), tenant, "q", engine.Settings{}, []byte(`{}`))
		if !errors.Is(err, c.want) || !errors.Is(err, c.fails) {
			t.Errorf("configure: %v, want %v for %v", err, c.want, c.fails)
		}
		if _, err = b.Configure(t.Context(), tenant, "other", engine.Settings{}, []byte(`{}`)); !errors.Is(err, c.want) {
			t.Errorf("configure: %v, want %v", err, c.want)
		}
		if _, _, _, err = b.Delete(t.Context(), tenant, "q"); !errors.Is(err, c.want) {
			t.Errorf("delete: %v, want %v", err, c.want)
		}
		if err = b.SetEnabled(t.Context(), false); !errors.Is(err, c.want) {
			t.Errorf("switch: %v, want %v", err, c.want)
		}
		if up := b.Health().StoreUp; up != (c.fails != declare.ErrUnavailable) {
			t.Errorf("after %v the store counts as up: %v", c.fails, up)
		}
		if !b.Enabled() {
			t.Error("the switch was turned in memory")
		}
		if q, ok := options(t, b, "q"); !ok || !q.Declared || q.Options.TTL != 7*time.Second {
			t.Errorf("the declared queue is now %+v, %v", q, ok)
		}
		if _, ok := options(t, b, "other"); ok {
			t.Error("a queue was made")
		}
		// Traffic does not need the store.
		push(t, b, "q", "a")
		expect(t, pop(t.Context(), b, "q", 0), "a")
	}
	store.err = nil
	configure(t, b, "q", `{"ttlSeconds":8}`)
	if q, _ := options(t, b, "q"); q.Options.TTL != 8*time.Second || !b.Health().StoreUp {
		t.Errorf("after the store is back: %+v, up %v", q, b.Health().StoreUp)
	}
}

// A declaration that the engine refuses for want of memory does not stay in the store.
func TestRefusedDeclarationIsUndone(t *testing.T) {
	store := declare.OpenMemory()
	cfg := testConfig(store)
	cfg.Engine.MaxBytes = 20_000
	b := start(t, cfg)
	var refused error
	for i := 0; refused == nil && i < 10_000; i++ {
		_, refused = b.Configure(t.Context(), tenant, fmt.Sprintf("q%d", i), engine.Settings{}, []byte(`{}`))
	}
	if !errors.Is(refused, engine.ErrBudget) {
		t.Fatalf("the budget ended with %v", refused)
	}
	stored, err := store.Load(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	page, _ := b.Queues(t.Context(), tenant, "", "", 10_000)
	if len(stored.Declarations) != page.Count {
		t.Errorf("%d declarations are stored, %d in force", len(stored.Declarations), page.Count)
	}
}

// Changes of one queue have one order: what the store holds last is in force.
func TestStoreAndMemorySeeOneOrder(t *testing.T) {
	store := declare.OpenMemory()
	b := start(t, testConfig(store))
	for range 20 {
		var writers sync.WaitGroup
		for i := range 8 {
			writers.Go(func() {
				if i == 0 {
					if _, _, _, err := b.Delete(t.Context(), tenant, "q"); err != nil {
						t.Error(err)
					}
					return
				}
				ttl := int64(i)
				_, err := b.Configure(t.Context(), tenant, "q", engine.Settings{TTLSeconds: &ttl}, fmt.Appendf(nil, `{"ttlSeconds":%d}`, i))
				if err != nil {
					t.Error(err)
				}
			})
		}
		writers.Wait()
		stored, err := store.Load(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		q, ok := options(t, b, "q")
		if len(stored.Declarations) == 0 {
			if ok {
				t.Fatal("the queue is deleted in the store and there in memory")
			}
			continue
		}
		want, _ := engine.ParseSettings(stored.Declarations[0].Options)
		if !ok || q.Options.TTL != time.Duration(*want.TTLSeconds)*time.Second {
			t.Fatalf("stored %s, in force %v", stored.Declarations[0].Options, q.Options.TTL)
		}
	}
}

// slow is a store whose writes take a second.
type slow struct{ declare.Store }

func (s slow) Put(ctx context.Context, tenant, queue string, options []byte) (uint64, error) {
	select {
	case <-time.After(time.Second):
		return s.Store.Put(ctx, tenant, queue, options)
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", declare.ErrUnavailable, ctx.Err())
	}
}

// A change that has begun is carried through when its client goes; one that waits for its turn has changed nothing.
func TestChangeOutlivesItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, testConfig(slow{declare.OpenMemory()}))
		ctx, cancel := context.WithCancel(t.Context())
		begun, waiting := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := b.Configure(ctx, tenant, "begun", engine.Settings{}, []byte(`{}`))
			begun <- err
		}()
		synctest.Wait()
		go func() {
			_, err := b.Configure(ctx, tenant, "waiting", engine.Settings{}, []byte(`{}`))
			waiting <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-waiting; !errors.Is(err, context.Canceled) {
			t.Errorf("the waiting change: %v", err)
		}
		if err := <-begun; err != nil {
			t.Errorf("the change that had begun: %v", err)
		}
		if _, ok := options(t, b, "begun"); !ok {
			t.Error("the change that had begun is not in force")
		}
		if _, ok := options(t, b, "waiting"); ok {
			t.Error("the change that was given up is in force")
		}
	})
}

func TestDeleteTellsWhatThereWas(t *testing.T) {
	b := start(t, testConfig(declare.OpenMemory()))
	configure(t, b, "declared", `{}`)
	push(t, b, "implicit", "a")
	for _, c := range []struct {
		queue             string
		deleted, declared bool
	}{{"declared", true, true}, {"declared", false, false}, {"implicit", true, false}, {"unknown", false, false}} {
		deleted, declared, _, err := b.Delete(t.Context(), tenant, c.queue)
		if err != nil || deleted != c.deleted || declared != c.declared {
			t.Errorf("delete %s: deleted %v, declared %v, %v", c.queue, deleted, declared, err)
		}
		if _, ok := options(t, b, c.queue); ok {
			t.Errorf("%s is still listed", c.queue)
		}
	}
}

func TestResetDropsTheMessages(t *testing.T) {
	b := start(t, testConfig(declare.OpenMemory()))
	push(t, b, "q", "a", "b")
	if dropped, _, err := b.Reset(t.Context(), tenant, "q"); dropped != 2 || err != nil {
		t.Errorf("dropped %d, %v", dropped, err)
	}
	if dropped, _, err := b.Reset(t.Context(), tenant, "unknown"); dropped != 0 || err != nil {
		t.Errorf("dropped %d, %v", dropped, err)
	}
	expect(t, pop(t.Context(), b, "q", 0))
}

// The kill switch (http.md): parked pops stay to their own timeout and get nothing, everything else is refused, leases
// run on.
func TestKillSwitch(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Broker) {
		configure(t, b, "q", `{"leaseSeconds":2}`)
		configure(t, b, "windowed", `{"windowBuffer":{"ms":5000,"count":3}}`)
		push(t, b, "q", "a")
		push(t, b, "windowed", "w")
		expect(t, pop(t.Context(), b, "q", 0), "a")
		short := park(t.Context(), b, request("q"), 4*time.Second)
		long := park(t.Context(), b, request("q"), time.Minute)
		window := park(t.Context(), b, request("windowed"), 3*time.Second)
		if err := b.SetEnabled(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if b.Enabled() || b.System().Enabled {
			t.Error("it says that it is enabled")
		}
		_, pushed := b.Push(t.Context(), &engine.PushRequest{Tenant: tenant, Queue: "q", Messages: []engine.Message{{}}})
		_, _, acked := b.Ack(t.Context(), &engine.AckRequest{Tenant: tenant, Queue: "q"}, nil)
		_, configured := b.Configure(t.Context(), tenant, "new", engine.Settings{}, []byte(`{}`))
		_, _, reset := b.Reset(t.Context(), tenant, "q")
		_, _, _, deleted := b.Delete(t.Context(), tenant, "q")
		_, queues := b.Queues(t.Context(), tenant, "", "", 10)
		_, _, _, depth := b.Depth(t.Context(), tenant, "q", "", "", 10)
		for i, err := range []error{pushed, acked, configured, reset, deleted, queues, depth, pop(t.Context(), b, "q", time.Second).err} {
			if !errors.Is(err, ErrDisabled) {
				t.Errorf("call %d: %v, want ErrDisabled", i, err)
			}
		}
		p := <-window
		if expect(t, p); p.after != 3*time.Second {
			t.Errorf("the windowed pop was answered after %v, want its 3s", p.after)
		}
		p = <-short // the lease has ended at 2 s
		if expect(t, p); p.after != 4*time.Second {
			t.Errorf("the parked pop was answered after %v, want its 4s", p.after)
		}
		version := b.System().SwitchVersion
		if err := b.SetEnabled(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if b.System().SwitchVersion <= version {
			t.Error("the switch's version did not grow")
		}
		p = <-long
		expect(t, p, "a")
		if p.after != 4*time.Second || p.d.Messages[0].Attempts != 2 {
			t.Errorf("the other parked pop: after %v, attempts %d; want 4s, 2", p.after, p.d.Messages[0].Attempts)
		}
	})
}

// A restarted broker has its declarations and obeys the switch; contents are gone (contract E2).
func TestRestart(t *testing.T) {
	store := declare.OpenMemory()
	b := start(t, testConfig(store))
	configure(t, b, "q", `{"ttlSeconds":7,"maxBytes":9000000000}`)
	push(t, b, "q", "a")
	push(t, b, "implicit", "a")
	if err := b.SetEnabled(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	first := b.View().Members[0].Boot
	b.Close()

	b = start(t, testConfig(store))
	if b.Enabled() {
		t.Fatal("it does not obey the stored switch")
	}
	if err := b.SetEnabled(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	q, ok := options(t, b, "q")
	if !ok || !q.Declared || q.Options.TTL != 7*time.Second || q.Options.MaxBytes != 16<<20 || q.Depth != 0 {
		t.Errorf("the declared queue came back as %+v, %v", q, ok)
	}
	if _, ok := options(t, b, "implicit"); ok {
		t.Error("the implicit queue came back")
	}
	if again := b.View().Members[0].Boot; again == first || len(again) != 16 {
		t.Errorf("the boot id is %q after %q", again, first)
	}
}

// Options of another version do not keep a broker from starting: they stay in the store, and it is said once.
func TestStoredOptionsOfAnotherVersion(t *testing.T) {
	store := declare.OpenMemory()
	const foreign = `{"ttlSeconds":7,"flavour":"mint"}`
	if _, err := store.Put(t.Context(), tenant, "q", []byte(foreign)); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cfg := testConfig(store)
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	b := start(t, cfg)
	if q, ok := options(t, b, "q"); !ok || !q.Declared || q.Options.Lease != 30*time.Second {
		t.Errorf("the queue came back as %+v, %v", q, ok)
	}
	if n := strings.Count(log.String(), "flavour"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
	stored, _ := store.Load(t.Context(), 0)
	if string(stored.Declarations[0].Options) != foreign {
		t.Errorf("the store holds %s now", stored.Declarations[0].Options)
	}
}
