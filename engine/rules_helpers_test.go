package engine

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// instant is longer than what tells apart messages that arrive at the same time: each push has its own nanosecond.
const instant = time.Microsecond

// fixture is an engine with a clock that a test turns by hand, and tenant "t".
type fixture struct {
	*Engine
	t     *testing.T
	now   Time
	next  Time
	wakes Wakes
	woken []*Waiter // in the order of their answers
}

// newEngine makes an engine with room for everything, unless opts say otherwise: lease 30 s, 5 attempts, implicit
// queues collected after 300 s.
func newEngine(t *testing.T, opts ...func(*Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, now: Time(1000 * time.Hour), next: math.MaxInt64}
	cfg := Config{
		Slots:          1,
		MaxBytes:       1 << 30,
		QueueMaxBytes:  1 << 24,
		QueueMaxLength: 10_000,
		Lease:          30 * time.Second,
		RetryLimit:     5,
		ImplicitIdle:   300 * time.Second,
		GroupIdle:      time.Hour,
		MaxGroups:      1000,
		MaxPartitions:  100_000,
		Alarm:          func(due Time) { f.next = min(f.next, due) },
	}
	for _, o := range opts {
		o(&cfg)
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f.Engine = e
	return f
}

// advance lets time pass as a shell does: it ticks exactly when the engine asked for it.
func (f *fixture) advance(d time.Duration) {
	f.t.Helper()
	to := f.now + Time(d)
	for n := 0; f.next <= to; n++ {
		if n > 1_000_000 {
			f.t.Fatal("Tick never ends")
		}
		f.now = max(f.now, f.next)
		f.next = math.MaxInt64
		next := f.Tick(f.now, &f.wakes)
		f.next = min(f.next, next)
		f.collect()
	}
	f.now = to
}

// collect takes note of the waiters that the last call answered.
func (f *fixture) collect() {
	f.t.Helper()
	for _, w := range f.wakes {
		if slices.Contains(f.woken, w.Waiter) {
			f.t.Fatal("a waiter was woken twice")
		}
		f.woken = append(f.woken, w.Waiter)
	}
	f.wakes = f.wakes[:0]
}

func (f *fixture) tryPush(queue, partition string, payloads ...string) (uint64, error) {
	f.t.Helper()
	return f.tryPushAs("t", queue, partition, payloads...)
}

func (f *fixture) tryPushAs(tenant, queue, partition string, payloads ...string) (uint64, error) {
	f.t.Helper()
	req := PushRequest{Tenant: tenant, Queue: queue, Partition: partition}
	for _, p := range payloads {
		req.Messages = append(req.Messages, Message{Payload: []byte(p)})
	}
	inc, err := f.Push(f.now, &req, &f.wakes)
	f.collect()
	return inc, err
}

// push pushes and must be admitted. It returns the ring's incarnation.
func (f *fixture) push(queue, partition string, payloads ...string) uint64 {
	f.t.Helper()
	inc, err := f.tryPush(queue, partition, payloads...)
	if err != nil {
		f.t.Fatalf("push: %v", err)
	}
	return inc
}

// refused pushes and must be refused with want.
func (f *fixture) refused(want error, queue, partition string, payloads ...string) {
	f.t.Helper()
	if _, err := f.tryPush(queue, partition, payloads...); err != want {
		f.t.Fatalf("push is answered %v, want %v", err, want)
	}
}

func (f *fixture) tryPop(req PopRequest) (*Delivery, error) {
	f.t.Helper()
	if req.Tenant == "" {
		req.Tenant = "t"
	}
	d := &Delivery{}
	_, err := f.Pop(f.now, &req, d, &f.wakes)
	f.collect()
	return d, err
}

func (f *fixture) popDelivery(queue, partition, group string, batch int) *Delivery {
	f.t.Helper()
	d, err := f.tryPop(PopRequest{Queue: queue, Partition: partition, Group: group, Batch: batch})
	if err != nil {
		f.t.Fatalf("pop: %v", err)
	}
	return d
}

// pop asks for up to batch messages, which are then leased to the group.
func (f *fixture) pop(queue, partition, group string, batch int) []Delivered {
	f.t.Helper()
	return f.popDelivery(queue, partition, group, batch).Messages
}

func (f *fixture) autoPop(queue, partition, group string, batch int) []Delivered {
	f.t.Helper()
	d, err := f.tryPop(PopRequest{Queue: queue, Partition: partition, Group: group, Batch: batch, AutoAck: true})
	if err != nil {
		f.t.Fatalf("pop: %v", err)
	}
	return d.Messages
}

// parkRequest parks a pop that must not be answered at once.
func (f *fixture) parkRequest(req PopRequest) *Waiter {
	f.t.Helper()
	req.Tenant = "t"
	w := &Waiter{}
	parked, _, err := f.Park(f.now, &req, w, &f.wakes)
	f.collect()
	if err != nil || !parked {
		f.t.Fatalf("park: parked %v, %v, %s", parked, err, texts(w.Delivery.Messages))
	}
	return w
}

func (f *fixture) park(queue, partition, group string, batch int) *Waiter {
	f.t.Helper()
	return f.parkRequest(PopRequest{Queue: queue, Partition: partition, Group: group, Batch: batch})
}

// withdraw ends a waiter whose time is over and that must be there still, with nothing for it.
func (f *fixture) withdraw(w *Waiter) {
	f.t.Helper()
	if !f.Withdraw(f.now, w, false, &f.wakes) {
		f.t.Fatalf("the waiter was answered: %s", texts(w.Delivery.Messages))
	}
	f.collect()
}

// answer is what the waiter got by now, or "parked".
func (f *fixture) answer(w *Waiter) string {
	if !slices.Contains(f.woken, w) {
		return "parked"
	}
	return texts(w.Delivery.Messages)
}

func (f *fixture) acks(queue, group string, verb Verb, messages ...Delivered) string {
	f.t.Helper()
	req := AckRequest{Tenant: "t", Queue: queue, Group: group}
	for i := range messages {
		req.Acks = append(req.Acks, Ack{ID: idOf(messages[i]), Verb: verb})
	}
	return f.outcomes(&req)
}

// ack completes the messages, nack fails them; both return the outcomes, separated by spaces.
func (f *fixture) ack(queue, group string, messages ...Delivered) string {
	f.t.Helper()
	return f.acks(queue, group, Complete, messages...)
}

func (f *fixture) nack(queue, group string, messages ...Delivered) string {
	f.t.Helper()
	return f.acks(queue, group, Nack, messages...)
}

func (f *fixture) outcomes(req *AckRequest) string {
	f.t.Helper()
	out, _ := f.Ack(f.now, req, nil, &f.wakes)
	f.collect()
	if len(out) != len(req.Acks) {
		f.t.Fatalf("%d outcomes of %d acks", len(out), len(req.Acks))
	}
	var words []string
	for _, o := range out {
		words = append(words, o.String())
	}
	return strings.Join(words, " ")
}

func (f *fixture) giveBack(d *Delivery, traced bool) {
	f.t.Helper()
	f.GiveBack(f.now, d, traced, &f.wakes)
	f.collect()
}

func (f *fixture) declare(queue string, change func(*Options)) {
	f.t.Helper()
	o := f.InForce(Settings{})
	change(&o)
	if err := f.Declare(f.now, "t", queue, o, &f.wakes); err != nil {
		f.t.Fatalf("declare: %v", err)
	}
	f.collect()
}

func (f *fixture) delete(queue string) bool {
	f.t.Helper()
	existed := f.Delete(f.now, "t", queue, &f.wakes)
	f.collect()
	return existed
}

func (f *fixture) reset(queue string) int64 {
	f.t.Helper()
	n := f.Reset(f.now, "t", queue, &f.wakes)
	f.collect()
	return n
}

func (f *fixture) depth(queue, group string) Depth {
	f.t.Helper()
	d, ok := f.Depth(f.now, "t", queue, group, "", 1000, &f.wakes)
	f.collect()
	if !ok {
		f.t.Fatalf("queue %s is not there", queue)
	}
	return d
}

// group is the gauges of one group.
func (f *fixture) group(queue, group string) GroupDepth {
	f.t.Helper()
	for _, g := range f.depth(queue, "").Groups {
		if g.Group == group {
			return g
		}
	}
	return GroupDepth{Group: "unknown"}
}

// info is the gauges of one queue; ok says that it is listed.
func (f *fixture) info(queue string) (QueueInfo, bool) {
	f.t.Helper()
	for _, q := range f.Queues(f.now, "t", "", "", 10_000).Queues {
		if q.Queue == queue {
			return q, true
		}
	}
	return QueueInfo{}, false
}

func (f *fixture) drops(queue string) Drops {
	f.t.Helper()
	q, _ := f.info(queue)
	return q.Drops
}

// texts shows messages as "a b.2": payloads, with the attempts where it is not the first.
func texts(messages []Delivered) string {
	var words []string
	for i := range messages {
		w := string(messages[i].Payload)
		if n := messages[i].Attempts; n != 1 {
			w += fmt.Sprintf(".%d", n)
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

func idOf(m Delivered) ID { return ID{m.Incarnation, m.Partition, m.Seq, m.Attempts} }

// want fails the test unless got is want.
func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// numbered is n payloads from the number first.
func numbered(first, n int) []string {
	var s []string
	for i := range n {
		s = append(s, fmt.Sprint(first+i))
	}
	return s
}
