package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestB1_FromTheNarrowestOutwards(t *testing.T) {
	f := newEngine(t)
	f.declare("full", func(o *Options) { o.MaxLength = 1 })
	f.push("full", "", "a")
	f.push("free", "", "a")
	f.SetLimits("t", &Limits{MaxBytes: f.Usage("t")})
	f.refused(ErrFull, "full", "", "b")
	f.refused(ErrTenantBytes, "free", "", strings.Repeat("b", 100_000))
	f.refused(ErrTenantBytes, "new", "", "b")
	if _, err := f.tryPop(PopRequest{Queue: "new"}); err != ErrTenantBytes {
		t.Fatalf("a pop that creates: %v", err)
	}
	if err := f.Declare(f.now, "t", "new", f.InForce(Settings{}), &f.wakes); err != ErrTenantBytes {
		t.Fatalf("a configure that creates: %v", err)
	}
	if _, ok := f.info("new"); ok {
		t.Fatal("a refused call created a queue")
	}
	if _, err := f.tryPushAs("other", "q", "", strings.Repeat("b", 100_000)); err != nil {
		t.Fatalf("another tenant: %v", err)
	}
}

func TestB1_ARefusedPushChangesNothing(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(o *Options) { o.MaxLength = 3; o.MaxBytes = 10 })
	f.push("q", "", "a", "b")
	usage := f.Usage("t")
	f.refused(ErrFull, "q", "new", "c", "d")
	f.refused(ErrFull, "q", "", "123456789")
	q, _ := f.info("q")
	if q.Depth != 2 || q.Bytes != 2 || q.Partitions != 1 || q.Drops != (Drops{}) || f.Usage("t") != usage {
		t.Fatalf("a refused push left %+v, and %d bytes where %d were", q, f.Usage("t"), usage)
	}
	w := f.park("q", "other", "g", 1)
	f.refused(ErrFull, "q", "other", "c", "d")
	want(t, "a waiter", f.answer(w), "parked")
	f.push("q", "other", "c")
	want(t, "what fits", f.answer(w), "c")
}

// EN-16: leased messages count, and the room of settled ones is there at once.
func TestB2_LeasedMessagesCountAsHeld(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(o *Options) { o.MaxLength = 5 })
	f.push("q", "", "1", "2", "3", "4", "5")
	got := f.pop("q", "", "g", 5)
	f.refused(ErrFull, "q", "", "6")
	f.nack("q", "g", got[0], got[1])
	f.refused(ErrFull, "q", "", "6")
	f.ack("q", "g", got[2:]...)
	f.push("q", "", "6")
	f.push("q", "", "7", "8")
	f.refused(ErrFull, "q", "", "9")
	want(t, "nothing was lost", texts(f.pop("q", "", "g", 9)), "1.2 2.2 6 7 8")
	want(t, "drops", f.drops("q"), Drops{})
}

func TestB2_RoomIsVisibleToTheVeryNextPush(t *testing.T) {
	free := map[string]func(*fixture){
		"ack":     func(f *fixture) { f.ack("q", "g", f.pop("q", "", "g", 9)...) },
		"autoAck": func(f *fixture) { f.autoPop("q", "", "g", 9) },
		"ttl":     func(f *fixture) { f.now += Time(20*time.Second + instant) },
		"expiry":  func(f *fixture) { f.pop("q", "", "g", 9); f.now += Time(5 * time.Second) },
		"nack":    func(f *fixture) { f.nack("q", "g", f.pop("q", "", "g", 9)...) },
		"reset":   func(f *fixture) { f.reset("q") },
	}
	for name, do := range free {
		for _, partition := range []string{"", "another"} {
			f := newEngine(t)
			f.declare("q", func(o *Options) {
				o.MaxLength, o.MaxBytes, o.RetryLimit = 2, 6, 1
				o.TTL, o.Lease = 20*time.Second, 5*time.Second
			})
			f.push("q", "", "abc", "def")
			f.refused(ErrFull, "q", partition, "ghi")
			do(f)
			if _, err := f.tryPush("q", partition, "ghi", "jkl"); err != nil {
				t.Fatalf("after %s, partition %q: %v", name, partition, err)
			}
		}
	}
}

// EN-04: dropOldest may drop what is leased.
func TestB2_DropOldestDropsLeased(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(o *Options) { o.MaxLength = 3; o.Policy = DropOldest })
	f.push("q", "", "1", "2", "3")
	got := f.pop("q", "", "g", 3)
	f.push("q", "", "4", "5", "6")
	want(t, "leased", f.group("q", "g").Leased, 0)
	f.advance(31 * time.Second)
	want(t, "pop", texts(f.pop("q", "", "g", 10)), "4 5 6")
	want(t, "acks", f.ack("q", "g", got...), "unknown unknown unknown")
	want(t, "drops", f.drops("q"), Drops{Bounds: 3})
	want(t, "skipped: it had seen them", f.group("q", "g").Skipped, 0)
}

func TestB3_DropsTheOldestByArrivalWhicheverPartition(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(o *Options) { o.MaxLength = 4; o.Policy = DropOldest })
	f.pop("q", "", "g", 1)
	f.push("q", "p2", "1")
	f.push("q", "p1", "2", "3")
	f.push("q", "p2", "4")
	f.push("q", "p3", "5", "6")
	want(t, "drops", f.drops("q"), Drops{Bounds: 2})
	want(t, "p1", texts(f.pop("q", "p1", "g", 9)), "3")
	want(t, "p2", texts(f.pop("q", "p2", "g", 9)), "4")
	want(t, "p3", texts(f.pop("q", "p3", "g", 9)), "5 6")
	want(t, "skipped", f.group("q", "g").Skipped, 2)
}

func TestB3_ABatchLongerThanTheBoundKeepsItsNewest(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(o *Options) { o.MaxLength = 3; o.Policy = DropOldest })
	f.pop("q", "", "known", 1)
	f.push("q", "", "a", "b")
	before := f.Stats().Pushed
	f.push("q", "", numbered(1, 8)...)
	want(t, "pushed counts the whole batch", f.Stats().Pushed-before, 8)
	want(t, "drops", f.drops("q"), Drops{Bounds: 7})
	want(t, "skipped", f.group("q", "known").Skipped, 7)
	want(t, "kept", texts(f.pop("q", "", "known", 9)), "6 7 8")
	want(t, "a new group skipped nothing", len(f.pop("q", "", "new", 9)), 3)
	want(t, "a new group skipped nothing", f.group("q", "new").Skipped, 0)
	f.declare("q", func(o *Options) { o.MaxBytes = 5; o.Policy = DropOldest })
	f.push("q", "", "aa", "bb", "cc", "dd")
	want(t, "by bytes", texts(f.pop("q", "", "known", 9)), "cc dd")
}

func TestB3_TheOuterBudgetsAreAskedForTheNetGrowth(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(o *Options) { o.MaxLength = 100; o.Policy = DropOldest })
	body := strings.Repeat("x", 1000)
	for range 300 {
		f.push("q", "", body)
	}
	f.SetLimits("t", &Limits{MaxBytes: f.Usage("t") + 512<<10})
	for i := range 3000 {
		if _, err := f.tryPush("q", "", body); err != nil {
			t.Fatalf("push %d of a feed at its bound: %v", i, err)
		}
	}
}

func TestB4_WhatCanNeverFit(t *testing.T) {
	for _, policy := range []Policy{Reject, DropOldest} {
		f := newEngine(t)
		f.declare("q", func(o *Options) { o.MaxLength = 3; o.MaxBytes = 10; o.Policy = policy })
		f.push("q", "", "a", "b", "c")
		f.refused(ErrNeverFits, "q", "", "12345678901")
		f.refused(ErrNeverFits, "q", "", "x", "12345678901", "y")
		if policy == Reject {
			f.refused(ErrNeverFits, "q", "", "1", "2", "3", "4")
			f.refused(ErrNeverFits, "q", "", "123456", "123456")
		}
		want(t, "nothing dropped for it", texts(f.pop("q", "", "g", 9)), "a b c")
		want(t, "drops", f.drops("q"), Drops{})
	}
	f := newEngine(t, func(c *Config) { c.QueueMaxBytes = 10 })
	f.refused(ErrNeverFits, "new", "", "12345678901")
	if _, ok := f.info("new"); ok {
		t.Fatal("it created a queue")
	}
}

// EN-28: a reader never gets an entry twice in place of a dropped one; skipped is exact.
func TestB5_Skipped(t *testing.T) {
	f := newEngine(t, func(c *Config) { c.Lease = time.Second })
	f.declare("q", func(o *Options) { o.MaxLength = 1; o.Policy = DropOldest; o.Lease = time.Second })
	f.pop("q", "", "g2", 1)
	f.push("q", "", "1")
	want(t, "leased", texts(f.pop("q", "", "g", 1)), "1")
	f.push("q", "", "2")
	want(t, "leased", texts(f.pop("q", "", "g", 1)), "2")
	f.advance(2 * time.Second)
	want(t, "only 2, once", texts(f.pop("q", "", "g", 10)), "2.2")
	want(t, "slow", texts(f.pop("q", "", "g2", 10)), "2")
	want(t, "skipped by g", f.group("q", "g").Skipped, 0)
	want(t, "skipped by g2", f.group("q", "g2").Skipped, 1)
}

func TestB5_SkippedIsExactPerGroup(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(o *Options) { o.MaxLength = 4; o.Policy = DropOldest; o.TTL = time.Minute })
	for _, g := range []string{"none", "some", "all"} {
		f.pop("q", "", g, 1)
	}
	f.push("q", "", "1", "2", "3", "4")
	f.nack("q", "some", f.pop("q", "", "some", 2)...)
	f.ack("q", "all", f.pop("q", "", "all", 9)...)
	f.push("q", "", "5", "6", "7")
	want(t, "none", f.group("q", "none").Skipped, 3)
	want(t, "some", f.group("q", "some").Skipped, 1)
	want(t, "all", f.group("q", "all").Skipped, 0)
	want(t, "some goes on", texts(f.pop("q", "", "some", 1)), "4")
	f.advance(time.Minute + instant)
	want(t, "none", f.group("q", "none"), GroupDepth{Group: "none", Skipped: 7})
	want(t, "some", f.group("q", "some"), GroupDepth{Group: "some", Skipped: 4})
	want(t, "all", f.group("q", "all"), GroupDepth{Group: "all", Skipped: 3})
	want(t, "drops", f.drops("q"), Drops{Bounds: 3, TTL: 4})
}

func TestB1_TheBrokersBudget(t *testing.T) {
	mixes := map[string]func(*fixture, int) error{
		"one-byte messages": func(f *fixture, _ int) error { _, err := f.tryPush("q", "", "x"); return err },
		"bodies":            func(f *fixture, _ int) error { _, err := f.tryPush("q", "", strings.Repeat("x", 9999)); return err },
		"inboxes": func(f *fixture, i int) error {
			_, err := f.tryPop(PopRequest{Queue: fmt.Sprint(i)})
			return err
		},
		"partitions": func(f *fixture, i int) error {
			_, err := f.tryPop(PopRequest{Queue: "q", Partition: fmt.Sprint(i)})
			return err
		},
		"groups": func(f *fixture, i int) error {
			_, err := f.tryPop(PopRequest{Queue: "q", Group: fmt.Sprint(i)})
			return err
		},
		"declarations": func(f *fixture, i int) error {
			return f.Declare(f.now, "t", fmt.Sprint(i), f.InForce(Settings{}), &f.wakes)
		},
	}
	for name, grow := range mixes {
		f := newEngine(t, func(c *Config) {
			c.MaxBytes = 1 << 20
			c.MaxGroups, c.MaxPartitions, c.QueueMaxLength = MaxGroupsLimit, 1<<30, 1<<30
		})
		var err error
		n := 0
		for ; n < 1<<18 && err == nil; n++ {
			err = grow(f, n)
		}
		s := f.Stats()
		if !errors.Is(err, ErrBudget) || s.Bytes > s.MaxBytes {
			t.Fatalf("%s: after %d: %v, %d bytes of %d", name, n, err, s.Bytes, s.MaxBytes)
		}
	}
}

func TestB6_OneGroupDrainsAFullBroker(t *testing.T) {
	f := newEngine(t, func(c *Config) { c.MaxBytes = 1 << 20; c.QueueMaxLength = 1 << 30 })
	f.pop("q", "", "g1", 1)
	f.pop("q", "", "g2", 1)
	n := 0
	for ; ; n++ {
		if _, err := f.tryPush("q", "", "x"); err != nil {
			break
		}
	}
	var held []Delivered
	for len(held) < n {
		d, err := f.tryPop(PopRequest{Queue: "q", Group: "g1", Batch: 1000})
		if err != nil || len(d.Messages) == 0 {
			t.Fatalf("after %d of %d: %v", len(held), n, err)
		}
		held = append(held, d.Messages...)
	}
	second := 0
	for second < n {
		d, err := f.tryPop(PopRequest{Queue: "q", Group: "g2", Batch: 1000})
		if err != nil {
			want(t, "more leases", err, ErrLeases)
			break
		}
		second += len(d.Messages)
	}
	s := f.Stats()
	if s.Bytes > s.MaxBytes || s.LeaseBytes > s.MaxBytes/4 {
		t.Fatalf("%+v", s)
	}
	for i, o := range strings.Fields(f.ack("q", "g1", held...)) { // an ack is never refused
		if o != "acked" {
			t.Fatalf("ack %d of a full broker: %s", i, o)
		}
	}
}

func TestB6_FreesWhatNobodyMisses(t *testing.T) {
	f := newEngine(t, func(c *Config) { c.MaxBytes = 1 << 20; c.QueueMaxLength = 1 << 30 })
	full := func(queue string, grow func(int) error) {
		t.Helper()
		for i := 0; ; i++ {
			if err := grow(i); err != nil {
				want(t, queue, err, ErrBudget)
				return
			}
		}
	}
	body := strings.Repeat("x", 1000)
	full("settled", func(int) error { _, err := f.tryPush("settled", "", body); return err })
	for {
		got := f.pop("settled", "", "g", 100)
		if len(got) == 0 {
			break
		}
		f.ack("settled", "g", got...)
	}
	f.push("another", "", body) // settled messages go first
	f.delete("settled")
	f.delete("another")

	f.pop("old", "", "", 1)
	f.advance(3 * time.Second)
	full("inboxes", func(i int) error { _, err := f.tryPop(PopRequest{Queue: fmt.Sprint("inbox", i)}); return err })
	if _, ok := f.info("old"); !ok {
		t.Fatal("a queue that was polled 3 s ago is gone")
	}
	f.refused(ErrBudget, "q", "", body) // nobody was away for 5 s
	f.now += Time(4 * time.Second)
	n := f.Stats().Queues
	f.pop("new", "", "", 1)
	if _, ok := f.info("old"); ok || f.Stats().Queues != n {
		t.Fatalf("the one queue that was idle long enough is there: %v; %d queues, %d before", ok, f.Stats().Queues, n)
	}
	f.now += Time(3 * time.Second)
	f.push("q", "", body)
}

func TestB7_ConfigureBelowOccupancyEvictsNothing(t *testing.T) {
	for _, policy := range []Policy{Reject, DropOldest} {
		f := newEngine(t)
		f.push("q", "", "1", "2", "3", "4")
		f.declare("q", func(o *Options) { o.MaxLength = 2; o.Policy = policy })
		f.advance(time.Minute)
		q, _ := f.info("q")
		want(t, "depth", q.Depth, 4)
		if policy == Reject {
			f.refused(ErrFull, "q", "", "5")
			want(t, "all there", texts(f.pop("q", "", "g", 9)), "1 2 3 4")
			continue
		}
		f.push("q", "", "5")
		want(t, "the next push drops", texts(f.pop("q", "", "g", 9)), "4 5")
		want(t, "drops", f.drops("q"), Drops{Bounds: 3})
	}
}

func TestB_APopsBytes(t *testing.T) {
	f := newEngine(t)
	f.push("q", "", "1234", "5678", "90")
	pop := func(maxBytes int) string {
		d, err := f.tryPop(PopRequest{Queue: "q", Group: "g", Batch: 9, MaxBytes: maxBytes})
		if err != nil {
			t.Fatal(err)
		}
		return texts(d.Messages)
	}
	want(t, "at least one", pop(1), "1234")
	want(t, "as far as it fits", pop(5), "5678")
	want(t, "the rest", pop(5), "90")
}
