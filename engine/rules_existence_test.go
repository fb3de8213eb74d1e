package engine

import (
	"fmt"
	"testing"
	"time"
)

func TestE1_PushAndPopCreate(t *testing.T) {
	f := newEngine(t)
	f.ack("q", "", Delivered{Incarnation: 1, Partition: "p", Attempts: 1})
	f.reset("q")
	f.delete("q")
	if _, ok := f.Depth(f.now, "t", "q", "", "", 10, &f.wakes); ok {
		t.Fatal("a queue has a depth that nobody made")
	}
	f.push("q", "")
	if q, ok := f.info("q"); ok {
		t.Fatalf("ack, reset, delete, depth or an empty push made %+v", q)
	}
	f.pop("q", "", "", 1)
	q, ok := f.info("q")
	if !ok || q.Partitions != 0 || q.Declared || q.Groups != 1 {
		t.Fatalf("a pop without a partition made %+v %v", q, ok)
	}
	f.pop("q", "p", "", 1)
	f.push("q", "", "a")
	q, _ = f.info("q")
	want(t, "partitions", q.Partitions, 2)
	want(t, "options", q.Options, f.InForce(Settings{}))
}

func TestE2_ConfigureDeclares(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(o *Options) { o.MaxLength = 7 })
	q, ok := f.info("q")
	if !ok || !q.Declared || q.Options.MaxLength != 7 || q.Partitions != 0 {
		t.Fatalf("declared %+v %v", q, ok)
	}
	f.push("i", "", "a")
	f.declare("i", func(o *Options) { o.RetryLimit = 9 })
	q, _ = f.info("i")
	if !q.Declared || q.Options.RetryLimit != 9 || q.Depth != 1 {
		t.Fatalf("an implicit queue was declared: %+v", q)
	}
	want(t, "contents stay", texts(f.pop("i", "", "", 9)), "a")
	f.declare("q", func(*Options) {})
	q, _ = f.info("q")
	want(t, "the second replaces the first whole", q.Options, f.InForce(Settings{}))
}

// EN-25: an implicit queue is collected when it is empty and unpolled, not earlier and not later.
func TestE3_IdleImplicitQueuesAreCollected(t *testing.T) {
	f := newEngine(t, func(c *Config) { c.ImplicitIdle = 2 * time.Second; c.Lease = 10 * time.Second })
	f.push("gone", "", "a")
	f.ack("gone", "", f.pop("gone", "", "", 1)...)
	f.declare("declared", func(*Options) {})
	f.push("declared", "", "a")
	f.ack("declared", "", f.pop("declared", "", "", 1)...)
	w := f.park("parked", "", "", 1)
	f.push("leased", "", "a")
	f.pop("leased", "", "", 1)
	f.push("pending", "", "a")

	f.advance(1900 * time.Millisecond)
	if _, ok := f.info("gone"); !ok {
		t.Fatal("collected too early")
	}
	for range 50 { // status reads do not keep it
		f.advance(100 * time.Millisecond)
		f.info("gone")
		f.Depth(f.now, "t", "gone", "", "", 1, &f.wakes)
	}
	if _, ok := f.info("gone"); ok {
		t.Fatal("an idle empty implicit queue is still listed")
	}
	q, ok := f.info("declared")
	if !ok || q.Partitions != 0 {
		t.Fatalf("the declared queue: %+v %v, and its empty partition is to go", q, ok)
	}
	for _, name := range []string{"parked", "leased", "pending"} {
		if _, ok := f.info(name); !ok {
			t.Fatalf("the %s queue was collected", name)
		}
	}
	f.push("parked", "", "x")
	want(t, "parked", f.answer(w), "x")
	f.advance(6 * time.Second)
	want(t, "the lease still redelivers", texts(f.pop("leased", "", "", 1)), "a.2")
	f.advance(time.Minute)
	want(t, "pending", texts(f.pop("pending", "", "", 1)), "a")
}

func TestE3_APollKeepsAQueue(t *testing.T) {
	f := newEngine(t)
	for range 5 {
		f.pop("q", "", "", 1)
		f.advance(200 * time.Second)
	}
	if _, ok := f.info("q"); !ok {
		t.Fatal("a polled queue was collected")
	}
	f.advance(101 * time.Second)
	if _, ok := f.info("q"); ok {
		t.Fatal("an unpolled queue is still there")
	}
}

func TestE4_CreatedAgainIsNewAndEmpty(t *testing.T) {
	f := newEngine(t)
	first := f.push("q", "", "a")
	got := f.pop("q", "", "", 1)
	f.ack("q", "", got...)
	f.advance(302 * time.Second)
	want(t, "an id of a collected queue", f.ack("q", "", got...), "stale")
	second := f.push("q", "", "b")
	f.delete("q")
	third := f.push("q", "", "c")
	if first == second || second == third || first == third {
		t.Fatalf("incarnations %x %x %x", first, second, third)
	}
	want(t, "an old id", f.ack("q", "", got...), "stale")
	want(t, "content", texts(f.pop("q", "", "", 9)), "c")
}

func TestE6_ADeadGroupIsForgotten(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(*Options) {})
	f.pop("q", "", "dead", 1)
	f.pop("q", "", "live", 1)
	f.push("q", "", "a", "b")
	f.ack("q", "live", f.pop("q", "", "live", 9)...)
	for range 7 {
		f.advance(10 * time.Minute)
		f.pop("q", "", "live", 1)
	}
	want(t, "forgotten", f.Stats().GroupsForgotten, 1)
	want(t, "the dead group", f.group("q", "dead").Group, "unknown")
	want(t, "the live group", f.group("q", "live").Group, "live")
	q, _ := f.info("q")
	want(t, "what only the dead group held", q.Depth, 0)
	want(t, "nothing was dropped", q.Drops, Drops{})
	f.advance(2 * time.Hour)
	want(t, "all forgotten", f.Stats().GroupsForgotten, 2)
	f.push("q", "", "c")
	want(t, "as with no group yet", texts(f.pop("q", "", "dead", 9)), "c")
}

func TestE6_UsesThatKeepAGroup(t *testing.T) {
	f := newEngine(t, func(c *Config) { c.Lease = 3 * time.Hour; c.ImplicitIdle = 10 * time.Hour })
	f.push("q", "", "a")
	got := f.pop("q", "", "leases", 1)
	w := f.park("q", "other", "parked", 1)
	f.advance(2 * time.Hour)
	want(t, "leases", f.group("q", "leases").Leased, 1)
	want(t, "parked", f.group("q", "parked").Group, "parked")
	want(t, "ack", f.ack("q", "leases", got...), "acked")
	f.withdraw(w)
	f.advance(59 * time.Minute)
	want(t, "forgotten", f.Stats().GroupsForgotten, 0)
	f.advance(2 * time.Minute)
	want(t, "forgotten", f.Stats().GroupsForgotten, 2)
}

func TestE6_NeverForgets(t *testing.T) {
	f := newEngine(t, func(c *Config) { c.GroupIdle = 0 })
	f.declare("q", func(*Options) {})
	f.pop("q", "", "g", 1)
	f.push("q", "", "a")
	f.advance(1000 * time.Hour)
	want(t, "group", f.group("q", "g").Pending, 1)
}

func TestE6_Quotas(t *testing.T) {
	f := newEngine(t, func(c *Config) { c.MaxGroups = 2; c.MaxPartitions = 2 })
	f.pop("q", "", "g1", 1)
	f.pop("q", "a", "g2", 1)
	if _, err := f.tryPop(PopRequest{Queue: "q", Group: "g3"}); err != ErrGroups {
		t.Fatalf("a third group: %v", err)
	}
	if _, _, err := f.Park(f.now, &PopRequest{Tenant: "t", Queue: "q", Group: "g3"}, &Waiter{}, &f.wakes); err != ErrGroups {
		t.Fatalf("a third group parks: %v", err)
	}
	f.push("q", "b", "x")
	f.refused(ErrPartitions, "q", "c", "x")
	if _, err := f.tryPop(PopRequest{Queue: "q", Partition: "c", Group: "g1"}); err != ErrPartitions {
		t.Fatalf("a third partition: %v", err)
	}
	q, _ := f.info("q")
	if q.Groups != 2 || q.Partitions != 2 || f.Stats().Waiters != 0 {
		t.Fatalf("a refused call left %+v", q)
	}
	f.pop("other", "", "g3", 1) // per queue
}

func TestE6_QueuesOfATenant(t *testing.T) {
	f := newEngine(t)
	f.SetLimits("t", &Limits{MaxQueues: 2})
	f.push("a", "", "x")
	f.pop("b", "", "", 1)
	f.refused(ErrTenantQueues, "c", "", "x")
	if _, err := f.tryPop(PopRequest{Queue: "c"}); err != ErrTenantQueues {
		t.Fatalf("pop: %v", err)
	}
	if err := f.Declare(f.now, "t", "c", f.InForce(Settings{}), &f.wakes); err != ErrTenantQueues {
		t.Fatalf("declare: %v", err)
	}
	if _, err := f.tryPushAs("other", "c", "", "x"); err != nil {
		t.Fatalf("another tenant: %v", err)
	}
	f.push("a", "p", "x")
	f.delete("b")
	f.push("c", "", "x")
	f.SetLimits("t", nil)
	f.push("d", "", "x")
}

// EN-32: replies that come after the requester gave up sit in inboxes that nobody reads, and go.
func TestE3_LateRepliesLeakNothing(t *testing.T) {
	f := newEngine(t, func(c *Config) { c.ImplicitIdle = 2 * time.Second })
	before := f.Stats()
	for i := range 300 {
		inbox := fmt.Sprintf("inbox-%d", i)
		w := f.park(inbox, "", "", 1)
		f.withdraw(w)
		f.push(inbox, "", fmt.Sprintf("reply-%d", i))
		if i%2 == 0 {
			want(t, "the reply", texts(f.autoPop(inbox, "", "", 9)), fmt.Sprintf("reply-%d", i))
		} else {
			f.reset(inbox)
		}
		f.advance(10 * time.Millisecond)
	}
	f.advance(10 * time.Second)
	after := f.Stats()
	if after.Queues != 0 || after.Bytes != before.Bytes || f.Usage("t") != 0 {
		t.Fatalf("left over: %+v, at the start %+v", after, before)
	}
}

func TestE3_IdlePartitionsGoInTheOrderOfTheirUse(t *testing.T) {
	f := newEngine(t)
	f.declare("q", func(*Options) {})
	f.pop("q", "first", "", 1)
	f.pop("q", "second", "", 1)
	f.advance(100 * time.Second)
	f.pop("q", "first", "", 1)
	f.advance(201 * time.Second)
	q, _ := f.info("q")
	want(t, "partitions, one of them idle for long enough", q.Partitions, 1)
	f.advance(100 * time.Second)
	q, _ = f.info("q")
	want(t, "partitions", q.Partitions, 0)
}

func TestE3_IdleCountsFromWhenItBecameEmpty(t *testing.T) {
	f := newEngine(t, func(c *Config) { c.Lease = 400 * time.Second; c.RetryLimit = 1 })
	f.push("q", "p", "a")
	got := f.pop("q", "p", "g", 1)
	f.declare("d", func(o *Options) { o.TTL = 400 * time.Second })
	f.push("d", "p", "a")
	f.push("r", "p", "a")
	f.advance(401 * time.Second) // q by its lease and d by its ttl became empty a second ago
	f.reset("r")
	f.advance(290 * time.Second)
	for _, name := range []string{"q", "d", "r"} {
		if q, ok := f.info(name); !ok || q.Partitions != 1 {
			t.Fatalf("%s was empty for less than 300 s: %+v %v", name, q, ok)
		}
	}
	want(t, "an id", f.ack("q", "g", got...), "unknown")
	f.advance(320 * time.Second)
	for _, name := range []string{"q", "d", "r"} {
		if q, ok := f.info(name); ok && (name != "d" || q.Partitions != 0) {
			t.Fatalf("%s was empty for more than 300 s: %+v", name, q)
		}
	}
}
