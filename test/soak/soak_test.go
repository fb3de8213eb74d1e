package soak

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/queencell/queencell/test/internal/broker"
)

// gauges must come back to where they began.
var gauges = []string{"queen_ephemeral_bytes", "queen_ephemeral_queues", "queen_parked_waiters", "queen_parked_long_polls"}

func duration(t *testing.T) time.Duration {
	text := os.Getenv("SOAK")
	if text == "" {
		if testing.Short() {
			return 5 * time.Second
		}
		return 30 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > 24*time.Hour {
		t.Fatalf("SOAK=%q: want a duration, as 10m", text)
	}
	return d
}

// TestSoak: after random traffic and a drain, gauges, goroutines and leases are back where they began, no request was
// answered by a 5xx that no rule names, and the race detector saw nothing.
func TestSoak(t *testing.T) {
	b := broker.Start(t, map[string]string{
		"QUEEN_EPHEMERAL_IMPLICIT_IDLE_S": "2",
		"QUEEN_EPHEMERAL_GROUP_IDLE_S":    "5",
		"QUEEN_EPHEMERAL_MAX_BYTES":       "33554432",
		"QUEEN_EPHEMERAL_LEASE_S":         "1",
	})
	before, err := b.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(duration(t))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	workers := make([]*worker, 24)
	var wg sync.WaitGroup
	for i := range workers {
		w := &worker{Broker: b, random: rand.New(rand.NewPCG(seed, uint64(i))), answers: map[string]int{}}
		workers[i] = w
		wg.Go(func() {
			for time.Now().Before(end) {
				w.step()
			}
		})
	}
	wg.Wait()
	total := map[string]int{}
	for _, w := range workers {
		for answer, n := range w.answers {
			total[answer] += n
		}
		if len(w.faults) > 0 {
			t.Errorf("%d faults, the first: %s", len(w.faults), w.faults[0])
		}
	}
	t.Logf("answers: %v", total)
	if total["push 201"] == 0 || total["pop 200"] == 0 || total["ack 200"] == 0 {
		t.Error("there was no traffic")
	}
	// Whatever is declared goes by a delete; the rest goes by itself, when leases, groups and queues come of age.
	for _, q := range b.Queues("", "", 0).Queues {
		if q.Tier == "declared" {
			b.Delete(q.Queue).Want(t, 200)
		}
	}
	b.Client.Close()
	broker.Eventually(t, 60*time.Second, func() string {
		now, err := b.Metrics()
		if err != nil {
			return err.Error()
		}
		for _, name := range gauges {
			if _, ok := now[name]; !ok {
				t.Fatalf("no metric %s", name)
			}
			if now[name] != before[name] {
				// What no group asks for stays until someone does; ask.
				drain(b)
				return fmt.Sprintf("%s is %v, was %v", name, now[name], before[name])
			}
		}
		if now["go_goroutines"] > before["go_goroutines"]+2 {
			return fmt.Sprintf("%v goroutines, were %v", now["go_goroutines"], before["go_goroutines"])
		}
		return ""
	})
}

// drain takes what is pending in any queue, for a group that then is the only one to hold it.
func drain(b *broker.Broker) {
	for _, q := range b.Queues("", "", 0).Queues {
		if q.Depth > 0 && q.Groups == 0 {
			b.Pop(q.Queue, broker.PopOptions{Batch: 10_000, AutoAck: true})
		}
	}
	b.Client.Close()
}
