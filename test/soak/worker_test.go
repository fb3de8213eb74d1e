package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/queencell/queencell/test/internal/broker"
)

// worker is one client that does random things.
type worker struct {
	*broker.Broker
	random  *rand.Rand
	answers map[string]int
	faults  []string
	lastIDs []string // of some earlier pop, to be acked too late
}

func (w *worker) fault(format string, args ...any) {
	if len(w.faults) < 100 {
		w.faults = append(w.faults, fmt.Sprintf(format, args...))
	}
}

// note counts an answer; allowed are the statuses beside the documented refusals of a full or busy broker.
func (w *worker) note(verb string, a broker.Answer, allowed ...int) bool {
	if a.Err != nil {
		w.fault("%s: %v", verb, a.Err)
		return false
	}
	w.answers[fmt.Sprintf("%s %d", verb, a.Status)]++
	for _, status := range allowed {
		if a.Status == status {
			return true
		}
	}
	switch {
	case a.Status == 503 && a.Code() == "ephemeral_unavailable":
	case a.Status == 429 && a.Code() == "queue_full":
	case a.Status == 403 && a.Code() == "ephemeral_quota_exceeded":
	default:
		w.fault("%s: %v", verb, a)
	}
	return false
}

func (w *worker) chance(percent int) bool { return w.random.IntN(100) < percent }

func (w *worker) name(prefix string, n int) string {
	return fmt.Sprintf("%s%d", prefix, w.random.IntN(n))
}

// step does one thing.
func (w *worker) step() {
	queue := w.name("q", 12)
	if w.chance(15) {
		queue = w.name("inbox", 5_000)
	}
	partition := ""
	if w.chance(50) {
		partition = w.name("p", 4)
	}
	switch n := w.random.IntN(1000); {
	case n < 400:
		w.push(queue, partition)
	case n < 900:
		w.pop(queue, partition)
	case n < 930:
		w.hangUp(queue, partition)
	case n < 945:
		w.note("reset", w.Reset(queue).Answer, 200)
	case n < 955:
		w.note("delete", w.Delete(queue).Answer, 200)
	case n < 970:
		w.note("configure", w.Configure(w.name("q", 12), w.options()), 201)
	case n < 980:
		w.note("depth", w.Depth(queue, "").Answer, 200, 404)
	case n < 990:
		w.note("queues", w.Queues("q", "", 5).Answer, 200)
	default:
		w.note("late ack", w.Ack(queue, w.name("g", 3), "", w.lastIDs...).Answer, 200)
	}
}

func (w *worker) push(queue, partition string) {
	payloads := make([]string, 1+w.random.IntN(10))
	for i := range payloads {
		payloads[i] = `"` + strings.Repeat("x", w.random.IntN(300)) + `"`
	}
	w.note("push", w.Push(queue, partition, payloads...), 201)
}

func (w *worker) pop(queue, partition string) {
	o := broker.PopOptions{Partition: partition, Batch: 1 + w.random.IntN(20), AutoAck: w.chance(20)}
	if w.chance(50) {
		o.Group = w.name("g", 3)
	}
	if w.chance(30) {
		o.Wait, o.Timeout = true, time.Duration(1+w.random.IntN(100))*time.Millisecond
	}
	p := w.Pop(queue, o)
	if !w.note("pop", p.Answer, 200) || len(p.Messages) == 0 || o.AutoAck {
		return
	}
	for _, m := range p.Messages {
		if partition != "" && m.Partition != partition || m.Attempts < 1 || p.Queue != queue {
			w.fault("pop of %s %s: %v", queue, partition, p)
		}
	}
	if w.chance(10) {
		w.lastIDs = p.IDs() // left to expire
		return
	}
	status := []string{"completed", "completed", "completed", "failed", "retry", "typo"}[w.random.IntN(6)]
	a := w.Ack(queue, o.Group, status, p.IDs()...)
	if !w.note("ack", a.Answer, 200) {
		return
	}
	if len(a.Results) != len(p.Messages) {
		w.fault("ack of %d: %v", len(p.Messages), a)
	}
	for _, r := range a.Results {
		switch r.Outcome {
		case "acked", "redelivered", "stale", "unknown":
		default:
			w.fault("outcome %q", r.Outcome)
		}
	}
}

// hangUp parks a pop and goes away, in one of several ways.
func (w *worker) hangUp(queue, partition string) {
	o := broker.PopOptions{Partition: partition, Group: w.name("g", 3), Wait: true, Timeout: 10 * time.Second, Batch: 5}
	if w.chance(50) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(w.random.IntN(20))*time.Millisecond)
		defer cancel()
		o.Context = ctx
		w.Pop(queue, o) // whatever comes of it
		return
	}
	c, err := w.Dial()
	if err != nil {
		w.fault("dial: %v", err)
		return
	}
	_ = c.Send("GET", broker.PopPath(queue, o)) // the broker may see nothing of it
	if w.chance(50) {
		_ = c.Reset()
		return
	}
	c.Close()
}

func (w *worker) options() string {
	options := []string{`"leaseSeconds":1`}
	for _, o := range []string{`"retryLimit":3`, `"maxLength":500`, `"policy":"dropOldest"`, `"ttlSeconds":2`, `"windowBuffer":{"ms":5,"count":3}`} {
		if w.chance(40) {
			options = append(options, o)
		}
	}
	return "{" + strings.Join(options, ",") + "}"
}
