package engine

import (
	"strings"
	"testing"
	"time"
)

// EN-10, EN-21: autoAck settles as it hands out, at once and for a parked pop.
func TestD1_AutoAck(t *testing.T) {
	f := newEngine(t)
	w := f.parkRequest(PopRequest{Queue: "q", Group: "g", AutoAck: true})
	f.push("q", "", "a")
	want(t, "the parked pop", f.answer(w), "a")
	want(t, "leased", f.group("q", "g").Leased, 0)
	f.advance(40 * time.Second)
	want(t, "never again", texts(f.pop("q", "", "g", 9)), "")
	f.push("q", "", numbered(10, 20)...)
	var got []Delivered
	for range 20 {
		got = append(got, f.autoPop("q", "", "g", 1)...)
	}
	want(t, "each once, in order", texts(got), strings.Join(numbered(10, 20), " "))
	want(t, "then nothing", texts(f.autoPop("q", "", "g", 9)), "")
	want(t, "an ack of one", f.ack("q", "g", got[7]), "unknown")
	f.giveBack(&w.Delivery, false)
	d, _ := f.tryPop(PopRequest{Queue: "q", Group: "g2", AutoAck: true, Batch: 99})
	want(t, "a late group", len(d.Messages), 20)
	f.giveBack(d, false)
	want(t, "a give-back changes nothing", texts(f.pop("q", "", "g", 9))+texts(f.pop("q", "", "g2", 9)), "")
}

// EN-06: attempts count the deliveries to each group, without a gap.
func TestD3_Attempts(t *testing.T) {
	f := newEngine(t, func(c *Config) { c.Lease = time.Second })
	f.push("q", "", "a")
	for _, w := range []string{"a", "a.2", "a.3", "a.4"} {
		want(t, "delivery", texts(f.pop("q", "", "g", 1)), w)
		f.advance(time.Second)
	}
	want(t, "another group", texts(f.pop("q", "", "g2", 1)), "a")
}

func TestD4_RedeliveriesGoFirstInRingOrder(t *testing.T) {
	f := newEngine(t)
	f.push("q", "", "a", "b", "c", "d", "e")
	got := f.pop("q", "", "g", 4)
	want(t, "nack", f.nack("q", "g", got[3], got[0]), "redelivered redelivered")
	f.nack("q", "g", got[1])
	want(t, "order", texts(f.pop("q", "", "g", 9)), "a.2 b.2 d.2 e")
	f.advance(30 * time.Second)
	want(t, "order", texts(f.pop("q", "", "g", 9)), "a.3 b.3 c.2 d.3 e.2")
}

func TestD4_ALeaseEndsExactlyThen(t *testing.T) {
	f := newEngine(t)
	f.push("q", "", "a")
	f.pop("q", "", "g", 1)
	f.advance(30*time.Second - 1)
	want(t, "just before", texts(f.pop("q", "", "g", 1)), "")
	f.advance(1)
	want(t, "then", texts(f.pop("q", "", "g", 1)), "a.2")
	// Without any Tick the next call finds it too.
	f.now += Time(30 * time.Second)
	want(t, "a late shell", texts(f.pop("q", "", "g", 1)), "a.3")
}

// EN-07: a poison message has an exit.
func TestD5_RetryLimit(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(o *Options) { o.RetryLimit = 3 })
	f.push("q", "", "poison", "good")
	for _, w := range []string{"poison", "poison.2"} {
		got := f.pop("q", "", "g", 1)
		want(t, "delivery", texts(got), w)
		want(t, "nack", f.nack("q", "g", got...), "redelivered")
	}
	got := f.pop("q", "", "g", 1)
	want(t, "the last", texts(got), "poison.3")
	want(t, "the nack that drops it", f.nack("q", "g", got...), "acked")
	want(t, "good", texts(f.pop("q", "", "g", 9)), "good")
	want(t, "drops", f.drops("q"), Drops{Retry: 1})
	want(t, "another group is not concerned", texts(f.pop("q", "", "g2", 1)), "poison")
	f.advance(30 * time.Second) // good.1 of g and poison.1 of g2
	f.pop("q", "", "g", 9)
	f.advance(30 * time.Second)
	f.pop("q", "", "g", 9)
	f.advance(30 * time.Second)
	want(t, "dropped by expiry", texts(f.pop("q", "", "g", 9)), "")
	want(t, "drops", f.drops("q"), Drops{Retry: 2})
	want(t, "not skipped", f.group("q", "g").Skipped, 0)
}

func TestD5_ZeroMeansOneDelivery(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(o *Options) { o.RetryLimit = 0 })
	f.push("q", "", "a", "b")
	got := f.pop("q", "", "g", 2)
	want(t, "nack", f.nack("q", "g", got[0]), "acked")
	f.advance(30 * time.Second)
	want(t, "gone", texts(f.pop("q", "", "g", 9)), "")
	want(t, "drops", f.drops("q"), Drops{Retry: 2})
}

// EN-01: exactly one of a late ack and the new one counts, and the rest of the batch does not notice.
func TestD6_ALateAckDoesNotSettleAnothersDelivery(t *testing.T) {
	for _, lateFirst := range []bool{true, false} {
		f := newEngine(t, func(c *Config) { c.Lease = 2 * time.Second })
		f.push("q", "", "m")
		late := f.pop("q", "", "g", 1)
		f.advance(3 * time.Second)
		again := f.pop("q", "", "g", 1)
		want(t, "again", texts(again), "m.2")
		f.push("q", "", numbered(0, 10)...)
		batch := append(f.pop("q", "", "g", 10), late[0])
		tenAcked := strings.Repeat("acked ", 10)
		if lateFirst {
			want(t, "late in a batch", f.ack("q", "g", batch...), tenAcked+"unknown")
			want(t, "in time", f.ack("q", "g", again...), "acked")
		} else {
			want(t, "in time", f.ack("q", "g", again...), "acked")
			want(t, "late in a batch", f.ack("q", "g", batch...), tenAcked+"unknown")
		}
		want(t, "left", f.group("q", "g"), GroupDepth{Group: "g"})
		f.advance(10 * time.Second)
		want(t, "a third time", texts(f.pop("q", "", "g", 9)), "")
	}
}

// EN-31: an ack around the lease's end is never answered acked and ineffective.
func TestD6_AnAckAfterTheLeaseButBeforeTheNextDelivery(t *testing.T) {
	for _, tick := range []bool{true, false} {
		f := newEngine(t)
		f.push("q", "", "a", "b")
		got := f.pop("q", "", "g", 2)
		if tick {
			f.advance(31 * time.Second)
		} else {
			f.now += Time(31 * time.Second)
		}
		want(t, "ack", f.ack("q", "g", got[0]), "acked")
		want(t, "again", f.ack("q", "g", got[0]), "unknown")
		want(t, "nack", f.nack("q", "g", got[1]), "redelivered")
		want(t, "left", texts(f.pop("q", "", "g", 9)), "b.2")
		f.advance(time.Minute)
		want(t, "left", texts(f.pop("q", "", "g", 9)), "b.3")
	}
}

func TestD6_Ids(t *testing.T) {
	f := newEngine(t, func(c *Config) { c.Incarnation = func() uint64 { return 0xabc } })
	f.push("q", "a:b.c", "x")
	got := f.pop("q", "a:b.c", "g", 1)
	first := string(got[0].AppendID(nil))
	if !strings.HasPrefix(first, "e:0000000000000abc:a:b.c:") || strings.Contains(first[len("e:0000000000000abc:a:b.c:"):], ".") {
		t.Fatalf("the id of a first delivery is %s", first)
	}
	f.nack("q", "g", got...)
	got = f.pop("q", "a:b.c", "g", 1)
	want(t, "the id of a redelivery", string(got[0].AppendID(nil)), first+".2")
	id, ok := ParseID(first + ".2")
	if !ok || id != idOf(got[0]) {
		t.Fatalf("read back as %+v %v", id, ok)
	}
}

// EN-31, EN-04: the closed list of outcomes.
func TestD7_Outcomes(t *testing.T) {
	f := newEngine(t)
	f.push("q", "", "a", "b", "c")
	got := f.pop("q", "", "g", 3)
	forged := func(change func(*ID)) Ack {
		id := idOf(got[2])
		change(&id)
		return Ack{ID: id}
	}
	want(t, "a batch", f.outcomes(&AckRequest{Tenant: "t", Queue: "q", Group: "g", Acks: []Ack{
		{ID: idOf(got[0])},
		{ID: idOf(got[0])},
		{ID: idOf(got[1]), Verb: Nack},
		{ID: idOf(got[1])},
		{Invalid: true},
		forged(func(id *ID) { id.Incarnation++ }),
		forged(func(id *ID) { id.Seq += 1000 }),
		forged(func(id *ID) { id.Attempt = 2 }),
		forged(func(id *ID) { id.Partition = "never" }),
	}}), "acked unknown redelivered unknown unknown stale unknown unknown stale")
	want(t, "of another group", f.ack("q", "other", got[2]), "unknown")
	want(t, "of another queue", f.ack("r", "g", got[2]), "stale")
	want(t, "in the end", f.ack("q", "g", got[2]), "acked")
	q, _ := f.info("q")
	want(t, "made up partitions", q.Partitions, 1)
	want(t, "made up groups", q.Groups, 1)
	if _, ok := f.info("r"); ok {
		t.Fatal("an ack made a queue")
	}
	f.delete("q")
	want(t, "of a deleted queue", f.ack("q", "g", got[2]), "stale")
}

func TestD7_Closed(t *testing.T) {
	f := newEngine(t, func(c *Config) {
		c.Slots = 2
		c.SlotOf = func(_, _, partition string) int { return len(partition) % 2 }
	})
	f.push("q", "a", "1")
	f.push("q", "bb", "2")
	got := f.pop("q", "", "g", 9)
	named, whole := f.park("q", "a", "g", 1), f.park("q", "", "g", 1)
	f.CloseSlots(f.now, []int{1}, &f.wakes)
	f.collect()
	if !named.Moved || f.answer(named) != "" || f.answer(whole) != "parked" {
		t.Fatal("the named waiter must be told to move, the other one stays")
	}
	f.refused(ErrClosed, "q", "a", "x")
	if _, err := f.tryPop(PopRequest{Queue: "q", Partition: "a"}); err != ErrClosed {
		t.Fatalf("pop: %v", err)
	}
	if parked, _, err := f.Park(f.now, &PopRequest{Tenant: "t", Queue: "q", Partition: "a"}, &Waiter{}, &f.wakes); err != ErrClosed || parked {
		t.Fatalf("park: %v %v", parked, err)
	}
	for _, m := range got {
		o := map[string]string{"a": "closed", "bb": "acked"}[m.Partition]
		want(t, "ack in "+m.Partition, f.ack("q", "g", m), o)
	}
	s := f.Stats()
	want(t, "wipes", s.Wipes, 1)
	want(t, "moved", s.Moved, 1)
	f.OpenSlots([]int{1})
	for _, m := range got {
		if m.Partition == "a" {
			want(t, "an old id once open", f.ack("q", "g", m), "stale")
			if inc := f.push("q", "a", "3"); inc == m.Incarnation {
				t.Fatal("the ring has its old incarnation")
			}
			want(t, "an old id", f.ack("q", "g", m), "stale")
		}
	}
	want(t, "the partition-less waiter", f.answer(whole), "3")
	want(t, "no drops", f.drops("q"), Drops{})
}

// EN-09: quick successive requeues lose nothing.
func TestD4_QuickRequeuesLoseNothing(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(o *Options) { o.RetryLimit = 1000 })
	f.push("q", "", "a", "b")
	for i := range 500 {
		got := f.pop("q", "", "g", 2)
		if len(got) != 2 || got[0].Attempts != i+1 || got[1].Attempts != i+1 || string(got[0].Payload) != "a" {
			t.Fatalf("round %d: %s", i, texts(got))
		}
		f.nack("q", "g", got[i%2])
		q, _ := f.info("q")
		want(t, "depth", q.Depth, 2)
		f.nack("q", "g", got[1-i%2])
	}
}

// EN-11: a push does not touch leases.
func TestD2_APushLeavesLeasesAlone(t *testing.T) {
	f := newEngine(t, func(c *Config) { c.Lease = 5 * time.Second })
	f.push("q", "", "m1")
	f.pop("q", "", "g", 1)
	f.push("q", "", "m2")
	want(t, "at once", texts(f.pop("q", "", "g", 9)), "m2")
	for range 24 {
		f.advance(200 * time.Millisecond)
		want(t, "before its lease ends", texts(f.pop("q", "", "g", 9)), "")
	}
	f.advance(200 * time.Millisecond)
	want(t, "then", texts(f.pop("q", "", "g", 9)), "m1.2 m2.2")
}

func TestD9_GiveBackWithoutATrace(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(o *Options) { o.RetryLimit = 1 })
	f.push("q", "", "a", "b", "c")
	d := f.popDelivery("q", "", "g", 2)
	first := string(d.Messages[0].AppendID(nil))
	f.giveBack(d, false)
	want(t, "leased", f.group("q", "g").Leased, 0)
	got := f.pop("q", "", "g", 9)
	want(t, "again, in order", texts(got), "a b c")
	want(t, "the same id", string(got[0].AppendID(nil)), first)
	want(t, "drops", f.drops("q"), Drops{})
}

func TestD9_GiveBackWithATrace(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(o *Options) { o.RetryLimit = 1 })
	f.push("q", "", "a", "b")
	d := f.popDelivery("q", "", "g", 1)
	f.giveBack(d, true)
	again := f.popDelivery("q", "", "g", 9)
	want(t, "keeps the attempt and is not dropped", texts(again.Messages), "a.2 b")
	f.giveBack(d, true)
	want(t, "an old delivery gives nothing back", texts(f.pop("q", "", "g", 9)), "")
	want(t, "the new one's lease", f.ack("q", "g", again.Messages...), "acked acked")
	want(t, "drops", f.drops("q"), Drops{})
}

func TestD9_GiveBackWakesTheNext(t *testing.T) {
	for _, traced := range []bool{false, true} {
		f := newEngine(t)
		f.push("q", "", "a")
		d := f.popDelivery("q", "", "g", 1)
		w := f.park("q", "", "g", 1)
		f.giveBack(d, traced)
		want(t, "the next waiter", f.answer(w), map[bool]string{false: "a", true: "a.2"}[traced])
	}
}

func TestD9_AWithdrawnWaiterNeverClaims(t *testing.T) {
	f := newEngine(t)
	w := f.park("q", "", "g", 1)
	if !f.Withdraw(f.now, w, true, &f.wakes) {
		t.Fatal("not withdrawn")
	}
	want(t, "waiters", f.Stats().Waiters, 0)
	f.push("q", "", "a")
	want(t, "the waiter", f.answer(w), "parked")
	want(t, "a live consumer", texts(f.pop("q", "", "g", 1)), "a")
}
