package cell

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/queencell/queencell/declare"
	"github.com/queencell/queencell/engine"
	"github.com/queencell/queencell/owner"
)

func TestStartRefuses(t *testing.T) {
	down := &faulty{Store: declare.OpenMemory(), err: declare.ErrUnavailable}
	full := declare.OpenMemory()
	for i := range 2000 {
		if _, err := full.Put(t.Context(), tenant, fmt.Sprint(i), []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, says string
		change     func(*Config)
	}{
		{"no node", "node id", func(c *Config) { c.Node = "" }},
		{"bad node", "node id", func(c *Config) { c.Node = "a b" }},
		{"long node", "node id", func(c *Config) { c.Node = strings.Repeat("a", 65) }},
		{"bad cell", "name of the cell", func(c *Config) { c.Name = "ä" }},
		{"no URL", "URL", func(c *Config) { c.URL = "" }},
		{"long URL", "URL", func(c *Config) { c.URL = strings.Repeat("a", 257) }},
		{"no store", "Store", func(c *Config) { c.Store = nil }},
		{"no log", "Log", func(c *Config) { c.Log = nil }},
		{"engine", "MaxBytes", func(c *Config) { c.Engine.MaxBytes = 0 }},
		{"store down", "declarations", func(c *Config) { c.Store = down }},
		{"no room", "2000", func(c *Config) { c.Store, c.Engine.MaxBytes = full, 10_000 }},
	} {
		cfg := testConfig(declare.OpenMemory())
		c.change(&cfg)
		b, err := Start(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want an error that names %s", c.name, err, c.says)
		}
		b.Close() // after a start that failed
	}
}

// Start and Close in every order, and Drain and Close at the same time.
func TestLifecycle(t *testing.T) {
	for range 50 {
		b, err := Start(t.Context(), testConfig(declare.OpenMemory()))
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(b.Close)
			all.Go(b.Drain)
		}
		all.Go(func() { pop(t.Context(), b, "q", time.Minute) })
		all.Wait()
		b.Close()
	}
}

func TestView(t *testing.T) {
	b := start(t, testConfig(declare.OpenMemory()))
	v := b.View()
	if v.Name != "test" || v.Node != "b1" || v.Slots != owner.Slots || v.RingVersion != owner.Version([]string{"b1"}) {
		t.Errorf("view %+v", v)
	}
	want := Member{Node: "b1", URL: "http://b1:6632", Boot: v.Members[0].Boot, Share: 1, Self: true}
	if len(v.Members) != 1 || v.Members[0] != want {
		t.Errorf("members %+v, want %+v", v.Members, want)
	}
	if got := b.Owner(tenant, "q", ""); got != want {
		t.Errorf("owner %+v, want %+v", got, want)
	}
}

func TestDepthAndQueues(t *testing.T) {
	b := start(t, testConfig(declare.OpenMemory()))
	push(t, b, "q", "a", "bc")
	depth, served, ok, err := b.Depth(t.Context(), tenant, "q", "", "", 10)
	if err != nil || !ok || depth.Pending != 2 || depth.Bytes != 3 || served.Node != "b1" || served.OneRing {
		t.Errorf("depth %+v by %+v, %v, %v", depth, served, ok, err)
	}
	if _, _, ok, err := b.Depth(t.Context(), tenant, "unknown", "", "", 10); ok || err != nil {
		t.Errorf("an unknown queue has a depth: %v, %v", ok, err)
	}
	page, err := b.Queues(t.Context(), tenant, "", "", 10)
	if err != nil || page.Count != 1 || page.Bytes <= 3 || page.MaxBytes != 64<<20 || page.Node != "b1" {
		t.Errorf("queues %+v, %v", page, err)
	}
	if other, _ := b.Queues(t.Context(), "other", "", "", 10); other.Count != 0 || other.Bytes != 0 {
		t.Errorf("another tenant sees %+v", other)
	}
}

// The alarm keeps the earliest time that was told, whatever order they come in and however often the bell is rung.
func TestAlarmKeepsTheEarliest(t *testing.T) {
	tm := newTimer()
	if tm.take() != never {
		t.Error("a new timer has something due")
	}
	var tellers sync.WaitGroup
	for i := range 100 {
		tellers.Go(func() { tm.alarm(engine.Time(1000 - i)) })
	}
	tellers.Wait()
	select {
	case <-tm.ring:
	default:
		t.Fatal("the bell was not rung")
	}
	if got := tm.take(); got != 901 {
		t.Errorf("due at %d, want 901", got)
	}
	if tm.take() != never {
		t.Error("it was not taken")
	}
	tm.alarm(5000)
	select {
	case <-tm.ring:
	default:
		t.Error("the bell was not rung for a later time, after the earlier one was taken")
	}
}

// In real time and with every race there is: consumers with tiny waits, some of which go, some of which do not take what
// they got. Every message comes to exactly one consumer that takes it.
func TestNothingIsLostOrTakenTwice(t *testing.T) {
	b := start(t, testConfig(declare.OpenMemory()))
	const producers, each, consumers = 4, 500, 8
	var taken [producers * each]atomic.Int32
	var left atomic.Int64
	left.Store(producers * each)
	var all sync.WaitGroup
	for p := range producers {
		all.Go(func() {
			for i := range each {
				push(t, b, "q", fmt.Sprint(p*each+i))
				if i%8 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	for range consumers {
		all.Go(func() {
			var d engine.Delivery
			for left.Load() > 0 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(400))*time.Microsecond)
				d.Reset()
				req := &engine.PopRequest{Tenant: tenant, Queue: "q", Batch: 1 + rand.IntN(3)}
				_, err := b.Pop(ctx, req, time.Duration(rand.IntN(400))*time.Microsecond, &d)
				cancel()
				if err != nil {
					if !errors.Is(err, context.DeadlineExceeded) || len(d.Messages) > 0 {
						t.Errorf("%d messages, %v", len(d.Messages), err)
					}
					continue
				}
				if len(d.Messages) > 0 && rand.IntN(4) == 0 {
					b.GiveBack(&d, false)
					continue
				}
				for i := range d.Messages {
					var n int
					if _, err := fmt.Sscan(string(d.Messages[i].Payload), &n); err != nil {
						t.Error(err)
					}
					taken[n].Add(1)
					if d.Messages[i].Attempts != 1 {
						t.Errorf("message %d has attempts %d", n, d.Messages[i].Attempts)
					}
					if outcome := ack(t, b, "q", &d.Messages[i], engine.Complete); outcome != engine.OutcomeAcked {
						t.Errorf("ack of %d: %v", n, outcome)
					}
					left.Add(-1)
				}
			}
		})
	}
	all.Wait()
	for n := range taken {
		if got := taken[n].Load(); got != 1 {
			t.Fatalf("message %d was taken %d times", n, got)
		}
	}
	expectNobody(t, b)
}
