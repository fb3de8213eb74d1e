package engine

import (
	"testing"
	"time"
)

// The program of the page that describes ephemeral queues, verb by verb.
func TestProgram_Basics(t *testing.T) {
	f := newEngine(t)
	f.declare("presence", func(o *Options) {
		o.MaxLength, o.MaxBytes, o.Policy = 1000, 1<<20, DropOldest
		o.TTL, o.Lease, o.RetryLimit = 30*time.Second, 15*time.Second, 3
	})
	f.push("presence", "room-7", `{"user":"alice","typing":true}`, `{"user":"bob","typing":true}`)
	want(t, "depth", f.depth("presence", "").Pending, 2)
	q, _ := f.info("presence")
	if !q.Declared || q.Depth != 2 || q.Partitions != 1 {
		t.Fatalf("queues: %+v", q)
	}
	var w Waiter
	parked, _, err := f.Park(f.now, &PopRequest{Tenant: "t", Queue: "presence", Partition: "room-7", Group: "widget", Batch: 10}, &w, &f.wakes)
	if parked || err != nil {
		t.Fatalf("a waiting pop with messages there: %v %v", parked, err)
	}
	got := w.Delivery.Messages
	want(t, "popped", texts(got), `{"user":"alice","typing":true} {"user":"bob","typing":true}`)
	want(t, "outcomes", f.ack("presence", "widget", got...), "acked acked")
	f.advance(50 * time.Millisecond)
	want(t, "the audit group saw", len(f.pop("presence", "room-7", "audit", 10)), 2)
	want(t, "reset dropped", f.reset("presence"), 2)
	want(t, "deleted", f.delete("presence"), true)
	want(t, "left", f.Stats().Queues, 0)
}

// The request and reply pair: the requester mints an inbox that nobody declared and parks on it.
func TestProgram_RequestAndReply(t *testing.T) {
	f := newEngine(t)
	server := f.parkRequest(PopRequest{Queue: "requests", Group: "server", AutoAck: true})
	inbox := f.parkRequest(PopRequest{Queue: "inbox-1", AutoAck: true})
	f.push("requests", "", "inbox-1")
	want(t, "request", f.answer(server), "inbox-1")
	f.push(f.answer(server), "", "reply")
	want(t, "reply", f.answer(inbox), "reply")
	f.advance(303 * time.Second)
	want(t, "queues", f.Stats().Queues, 0)
}
