package engine

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// The tests of contract R5: no operation scans. They count the items that an operation looks at, where time could not
// tell: one call over a large state may look at no more than over a small one, but for work that it does in steps.

// aFew is what an operation on one message may look at.
const aFew = 12

type visits struct {
	*testing.T
	e     *Engine
	now   Time
	wakes Wakes
}

func newVisits(t *testing.T, change ...func(*Config)) *visits {
	t.Helper()
	cfg := Config{
		Slots: 1, MaxBytes: 8 << 30, QueueMaxBytes: 4 << 30, QueueMaxLength: 1 << 30, Lease: time.Hour,
		RetryLimit: 5, ImplicitIdle: time.Hour, GroupIdle: 2 * time.Hour, MaxGroups: 5000, MaxPartitions: 1 << 20,
	}
	for _, f := range change {
		f(&cfg)
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &visits{T: t, e: e}
}

func (v *visits) push(partition string, n int) {
	v.Helper()
	req := &PushRequest{Tenant: "t", Queue: "q", Partition: partition, Messages: make([]Message, n)}
	for i := range req.Messages {
		req.Messages[i].Payload = []byte("1")
	}
	v.now++
	if _, err := v.e.Push(v.now, req, &v.wakes); err != nil {
		v.Fatal(err)
	}
}

func (v *visits) pop(partition, group string, n int, autoAck bool) []Delivered {
	v.Helper()
	var d Delivery
	req := &PopRequest{Tenant: "t", Queue: "q", Partition: partition, Group: group, Batch: n, AutoAck: autoAck}
	if _, err := v.e.Pop(v.now, req, &d, &v.wakes); err != nil {
		v.Fatal(err)
	}
	return d.Messages
}

func (v *visits) ack(group string, messages []Delivered) {
	v.Helper()
	req := &AckRequest{Tenant: "t", Queue: "q", Group: group, Acks: make([]Ack, len(messages))}
	for i, m := range messages {
		req.Acks[i].ID = ID{m.Incarnation, m.Partition, m.Seq, m.Attempts}
	}
	for _, o := range first(v.e.Ack(v.now, req, nil, &v.wakes)) {
		if o != OutcomeAcked {
			v.Fatal(o)
		}
	}
}

func first[A, B any](a A, _ B) A { return a }

// atMost fails when op looks at more than limit items.
func (v *visits) atMost(what string, limit int, op func()) {
	v.Helper()
	before := 0
	if q := v.e.find("t", "q"); q != nil && q.body != nil {
		before = q.body.visits
	}
	op()
	n := 0
	if q := v.e.find("t", "q"); q != nil && q.body != nil {
		n = q.body.visits - before
	}
	if n > limit {
		v.Errorf("%s looked at %d items, allowed are %d", what, n, limit)
	}
}

func TestR5_PushPopAndAckBesideAMillion(t *testing.T) {
	v := newVisits(t)
	for range 100 {
		v.push("", 10_000)
	}
	held := v.pop("", "slow", 1000, false)
	for i := range 3 {
		v.atMost("a push", aFew, func() { v.push("", 1) })
		v.atMost("a pop", aFew, func() { v.pop("", "slow", 1, false) })
		v.atMost("an ack", aFew, func() { v.ack("slow", held[i*7:i*7+1]) })
	}
	for g := range 1000 {
		v.pop("", "g"+strconv.Itoa(g), 1, true)
	}
	v.atMost("a push beside a thousand groups", aFew, func() { v.push("", 1) })
	v.atMost("a pop beside a thousand groups", aFew, func() { v.pop("", "slow", 1, false) })
	v.atMost("an ack beside a thousand groups", aFew, func() { v.ack("slow", held[100:101]) })
}

func TestR5_ALeasedHeadWithAMillionSettledBehindIt(t *testing.T) {
	v := newVisits(t)
	const n = 1_000_000
	for range n / 10_000 {
		v.push("", 10_000)
	}
	head := v.pop("", "g", 1, false)
	for range n/10_000 - 1 {
		v.ack("g", v.pop("", "g", 10_000, false))
	}
	v.ack("g", v.pop("", "g", 9_999, false))
	v.atMost("the push that reclaims", 2*stepLimit, func() { v.push("", 1) })
	for v.e.find("t", "q").body.settledN > 0 {
		before := v.e.find("t", "q").body.visits
		v.push("", 1)
		if n := v.e.find("t", "q").body.visits - before; n > 2*stepLimit {
			t.Fatalf("a push looked at %d items", n)
		}
	}
	b := v.e.find("t", "q").body
	if b.rings.items[0].base != 0 || b.held > 100 {
		t.Fatalf("base %d, held %d", b.rings.items[0].base, b.held)
	}
	v.atMost("the head's ack", aFew, func() { v.ack("g", head) })
	v.atMost("the push after it", aFew, func() { v.push("", 1) })
	v.atMost("the pop after it", aFew, func() { v.pop("", "g", 1, false) })
}

func TestR5_DroppingALeasedHead(t *testing.T) {
	v := newVisits(t)
	o := v.e.InForce(Settings{})
	o.Policy, o.MaxLength = DropOldest, 100_000
	if err := v.e.Declare(v.now, "t", "q", o, &v.wakes); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		v.push("", 10_000)
	}
	v.pop("", "g", 1, false)
	v.ack("g", v.pop("", "g", 99_999, false))
	v.now += 10 * second
	for v.e.Tick(v.now, &v.wakes) <= v.now {
	}
	for range 9 {
		v.push("", 10_000)
	}
	v.push("", 9_999) // with the leased head the queue is full
	v.atMost("dropping the head over a hole of a hundred thousand", aFew, func() { v.push("", 1) })
	v.atMost("dropping the next", aFew, func() { v.push("", 1) })
}

func TestR5_DropOldestOverTenThousandPartitions(t *testing.T) {
	v := newVisits(t)
	const partitions = 10_000
	o := v.e.InForce(Settings{})
	o.Policy, o.MaxLength = DropOldest, 2*partitions
	if err := v.e.Declare(v.now, "t", "q", o, &v.wakes); err != nil {
		t.Fatal(err)
	}
	for i := range 2 * partitions {
		v.push(fmt.Sprintf("p%d", i%partitions), 1)
	}
	for i := range 100 {
		v.atMost("a push that drops", aFew, func() { v.push(fmt.Sprintf("p%d", i*37%partitions), 1) })
	}
	v.pop("", "g", 500, true) // half a thousand heads move on at once
	v.push("p1", 500)
	for range 100 {
		v.atMost("a push that drops after a large pop", aFew, func() { v.push("p0", 1) })
	}
}

func TestR5_Skipped(t *testing.T) {
	v := newVisits(t)
	const groups = 2000
	o := v.e.InForce(Settings{})
	o.Policy, o.MaxLength = DropOldest, 2000
	if err := v.e.Declare(v.now, "t", "q", o, &v.wakes); err != nil {
		t.Fatal(err)
	}
	v.push("", 2000)
	for g := range groups {
		v.pop("", "g"+strconv.Itoa(g), g%1000+1, true)
	}
	// Each push drops one message that many groups have not seen. None of them is looked at.
	for range 900 {
		v.atMost("a push that drops what groups skip", aFew, func() { v.push("", 1) })
	}
	// The group that had seen one message skipped 899 of those that were dropped, the one that had seen 1000 none.
	d, _ := v.e.Depth(v.now, "t", "q", "", "", 10, &v.wakes)
	for _, g := range d.Groups {
		want := int64(-1)
		switch g.Group {
		case "g0":
			want = 899
		case "g500":
			want = 399
		case "g999":
			want = 0
		}
		if want >= 0 && g.Skipped != want {
			t.Errorf("group %s skipped %d, want %d", g.Group, g.Skipped, want)
		}
	}
}

func TestR5_GroupsJoinAndGo(t *testing.T) {
	v := newVisits(t)
	const partitions, each = 2000, 50
	for p := range partitions {
		v.push("p"+strconv.Itoa(p), each)
	}
	for range partitions * each / 10_000 {
		v.pop("", "first", 10_000, true) // all of it lingers now
	}
	v.atMost("a group joining over all that lingers", aFew, func() { v.pop("", "second", 1, true) })
	v.atMost("a group joining in one partition", aFew, func() { v.pop("p7", "third", 1, true) })
	if d, _ := v.e.Depth(v.now, "t", "q", "second", "", 1, &v.wakes); d.Pending != partitions*each-1 {
		t.Fatalf("the second group has %d pending", d.Pending)
	}
	// They go in steps, none of which holds the lock for long.
	v.now += 2*60*60*second + second
	b := v.e.find("t", "q").body
	steps := 0
	for done := false; !done; steps++ {
		v.atMost("a step of forgetting", 2*stepLimit, func() { done = b.run(v.now, &v.wakes) })
	}
	if steps < 2 || b.groups.len() != 0 {
		t.Fatalf("%d steps left %d groups", steps, b.groups.len())
	}
}

func TestR5_TenThousandWaiters(t *testing.T) {
	v := newVisits(t)
	for i := range 10_000 {
		w := new(Waiter)
		req := &PopRequest{Tenant: "t", Queue: "q", Partition: []string{"", "p1", "p2"}[i%3]}
		parked := false
		v.atMost("parking", aFew, func() {
			var err error
			if parked, _, err = v.e.Park(v.now, req, w, &v.wakes); err != nil {
				t.Fatal(err)
			}
		})
		if !parked {
			t.Fatal("not parked")
		}
		if i%5 == 0 {
			v.atMost("withdrawing", aFew, func() { v.e.Withdraw(v.now, w, true, &v.wakes) })
		}
	}
	for i := range 100 {
		v.atMost("a push that wakes one", aFew, func() { v.push([]string{"", "p1", "p2"}[i%3], 1) })
	}
	if len(v.wakes) != 100 {
		t.Fatalf("100 messages woke %d waiters", len(v.wakes))
	}
}

func TestR5_TheLongestIdleOfManyQueues(t *testing.T) {
	const queues = 50_000
	v := newVisits(t)
	for i := range queues {
		v.now += second / 1000
		if _, err := v.e.Pop(v.now, &PopRequest{Tenant: "t", Queue: "q" + strconv.Itoa(i)}, new(Delivery), &v.wakes); err != nil {
			t.Fatal(err)
		}
	}
	for v.e.Tick(v.now, &v.wakes) <= v.now {
	}
	v.now += 6 * second
	before := v.e.visits.Load()
	v.e.relieve(v.now, v.e.cfg.MaxBytes-v.e.bytes.used.Load()+1)
	if n := v.e.visits.Load() - before; n > 3*shardCount {
		t.Errorf("finding the longest idle of %d queues looked at %d", queues, n)
	}
	if v.e.find("t", "q"+strconv.Itoa(queues-1)) == nil || v.e.queues.Load() != queues-1 {
		t.Errorf("%d queues are left of %d", v.e.queues.Load(), queues)
	}
	gone := -1
	for i := range queues {
		if v.e.find("t", "q"+strconv.Itoa(i)) == nil {
			gone = i
			break
		}
	}
	if gone < 0 || gone > 1000 { // a second's worth
		t.Errorf("queue %d went first", gone)
	}
}
