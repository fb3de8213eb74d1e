package process

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/queencell/queencell/test/internal/broker"
)

// TestAckOutcomes pins D6 to D8: the closed list of outcomes, in the order of the request.
func TestAckOutcomes(t *testing.T) {
	t.Parallel()
	name := queue(t)
	shared.Configure(name, `{"leaseSeconds":60,"retryLimit":3}`).Want(t, 201)
	shared.Push(name, "a:b.c", numbers(0, 6)...).Want(t, 201)
	p := shared.Pop(name, broker.PopOptions{Group: "g", Batch: 6})
	if len(p.Messages) != 6 {
		t.Fatalf("pop: %v", p)
	}
	ids := p.IDs()
	a := shared.Ack(name, "g", "", ids[0], ids[0], "nonsense", "e:0123456789abcdef:Default:0", "e:0123456789abcdef:a:b.c:0", ids[1])
	if got := a.Outcomes(); got != "acked unknown unknown stale stale acked" {
		t.Errorf("outcomes: %s", got)
	}
	if len(a.Results) != 6 || a.Results[2].ID != "nonsense" || a.Results[5].ID != ids[1] {
		t.Errorf("results: %v", a)
	}
	if got := shared.Ack(name, "other", "", ids[2]).Outcomes(); got != "unknown" {
		t.Errorf("another group's ack: %s", got)
	}
	if got := shared.Ack(name, "g", "completed", ids[2]).Outcomes(); got != "acked" {
		t.Errorf("status completed: %s", got)
	}
	// A typo must not retire a message (D8).
	if got := shared.Ack(name, "g", "complete", ids[3]).Outcomes(); got != "redelivered" {
		t.Errorf("an unknown status: %s", got)
	}
	again := shared.Pop(name, broker.PopOptions{Group: "g", Batch: 6})
	if again.Payloads() != "3" || again.Messages[0].Attempts != 2 || again.Messages[0].ID == ids[3] {
		t.Fatalf("after the nack: %v", again)
	}
	// The old delivery's id does not settle the new one's (D6).
	if got := shared.Ack(name, "g", "", ids[3]).Outcomes(); got != "unknown" {
		t.Errorf("the old id: %s", got)
	}
	if got := shared.Ack(name, "g", "", again.IDs()...).Outcomes(); got != "acked" {
		t.Errorf("the new id: %s", got)
	}
	if got := shared.Ack(name+"-none", "g", "", ids[4]).Outcomes(); got != "stale" {
		t.Errorf("a queue that is not there: %s", got)
	}
	shared.Depth(name+"-none", "").WantCode(t, 404, "ephemeral_queue_not_found")
	if r := shared.Reset(name); r.Status != 200 || r.Dropped != 2 {
		t.Errorf("reset: %v", r)
	}
	if got := shared.Ack(name, "g", "", ids[4]).Outcomes(); got != "unknown" {
		t.Errorf("after the reset: %s", got)
	}
	shared.Delete(name).Want(t, 200)
	if got := shared.Ack(name, "g", "", ids[4]).Outcomes(); got != "stale" {
		t.Errorf("after the delete: %s", got)
	}
}

// TestStatusWords: the words of success, and null for what is absent.
func TestStatusWords(t *testing.T) {
	t.Parallel()
	name := queue(t)
	shared.Post("/api/v1/ephemeral/push", `{"queue":"`+name+`","partition":null,"messages":[{"payload":0},{"payload":1},{"payload":2},{"payload":3},{"payload":4},{"payload":5,"x":1}],"x":null}`).Want(t, 201)
	p := shared.Pop(name, broker.PopOptions{Batch: 10})
	if len(p.Messages) != 6 || p.Messages[0].Partition != "Default" {
		t.Fatalf("pop: %v", p)
	}
	for i, item := range []string{`"status":"success"`, `"status":"acked"`, `"status":"ok"`, `"status":null`, `"status":""`, `"error":"ignored"`} {
		a := shared.Post("/api/v1/ephemeral/ack", `{"queue":"`+name+`","group":null,"acks":[{"id":`+broker.Quote(p.Messages[i].ID)+`,`+item+`}]}`)
		var acked broker.Acked
		if json.Unmarshal(a.Body, &acked) != nil || acked.Outcomes() != "acked" {
			t.Errorf("%s: %v", item, a)
		}
	}
}

// TestRetryLimit pins EN-07 and D5: after its last attempt a message is dropped, by nack and by expiry alike.
func TestRetryLimit(t *testing.T) {
	t.Parallel()
	for _, expire := range []bool{false, true} {
		t.Run(fmt.Sprintf("expire=%v", expire), func(t *testing.T) {
			t.Parallel()
			name := queue(t)
			shared.Configure(name, `{"retryLimit":2,"leaseSeconds":1}`).Want(t, 201)
			shared.Push(name, "", `"poison"`).Want(t, 201)
			for attempt := 1; attempt <= 2; attempt++ {
				p := shared.Pop(name, broker.PopOptions{Wait: true, Timeout: 5 * time.Second})
				if p.Payloads() != `"poison"` || p.Messages[0].Attempts != attempt {
					t.Fatalf("attempt %d: %v", attempt, p)
				}
				if expire {
					continue
				}
				want := "redelivered"
				if attempt == 2 {
					want = "acked"
				}
				if got := shared.Ack(name, "", "failed", p.IDs()...).Outcomes(); got != want {
					t.Errorf("nack %d: %s, want %s", attempt, got, want)
				}
			}
			broker.Eventually(t, slow(2*time.Second), func() string {
				q := shared.Queues(name, "", 10).Find(name)
				if q == nil || q.Drops.Retry != 1 {
					return fmt.Sprintf("%+v", q)
				}
				return ""
			})
			shared.Push(name, "", `"good"`).Want(t, 201)
			if p := shared.Pop(name, broker.PopOptions{Batch: 10}); p.Payloads() != `"good"` {
				t.Errorf("next: %v", p)
			}
		})
	}
}

// TestLateAck pins EN-01 and D6: of two acks of two deliveries of one message one settles it, and the other's batch is
// not harmed.
func TestLateAck(t *testing.T) {
	t.Parallel()
	name := queue(t)
	shared.Configure(name, `{"leaseSeconds":1}`).Want(t, 201)
	shared.Push(name, "", `"m"`).Want(t, 201)
	first := shared.Pop(name, broker.PopOptions{})
	second := shared.Pop(name, broker.PopOptions{Wait: true, Timeout: 10 * time.Second})
	if second.Payloads() != `"m"` || second.Messages[0].Attempts != 2 {
		t.Fatalf("second: %v", second)
	}
	shared.Push(name, "", numbers(0, 10)...).Want(t, 201)
	others := shared.Pop(name, broker.PopOptions{Batch: 10})
	ids := append([]string{first.IDs()[0]}, others.IDs()...)
	if got := shared.Ack(name, "", "", ids...).Outcomes(); got != "unknown acked acked acked acked acked acked acked acked acked acked" {
		t.Errorf("late ack among others: %s", got)
	}
	if got := shared.Ack(name, "", "", second.IDs()...).Outcomes(); got != "acked" {
		t.Errorf("second consumer's ack: %s", got)
	}
	if d := shared.Depth(name, ""); d.Pending != 0 || d.InGroup("").Leased != 0 {
		t.Errorf("depth: %v", d)
	}
	// After its lease, before it went out again, an ack still counts.
	shared.Push(name, "", `"n"`).Want(t, 201)
	late := shared.Pop(name, broker.PopOptions{})
	broker.Eventually(t, slow(2*time.Second), func() string {
		if d := shared.Depth(name, ""); d.InGroup("").Leased != 0 {
			return d.String()
		}
		return ""
	})
	if got := shared.Ack(name, "", "", late.IDs()...).Outcomes(); got != "acked" {
		t.Errorf("late ack: %s", got)
	}
	if p := shared.Pop(name, broker.PopOptions{}); len(p.Messages) != 0 {
		t.Errorf("it came after its ack: %v", p)
	}
}

// TestBounds pins B2 to B5 and EN-16: reject and dropOldest, and what can never fit.
func TestBounds(t *testing.T) {
	t.Parallel()
	name := queue(t)
	reject, drop := name+"-reject", name+"-drop"
	shared.Configure(reject, `{"maxLength":5,"maxBytes":100}`).Want(t, 201)
	shared.Push(reject, "", numbers(0, 5)...).Want(t, 201)
	p := shared.Pop(reject, broker.PopOptions{Batch: 5})
	shared.Push(reject, "", `5`).WantCode(t, 429, "queue_full") // leased ones count
	if got := shared.Ack(reject, "", "retry", p.IDs()[:2]...).Outcomes(); got != "redelivered redelivered" {
		t.Errorf("nacks: %s", got)
	}
	shared.Push(reject, "", `5`).WantCode(t, 429, "queue_full")
	if got := shared.Ack(reject, "", "", p.IDs()[2:]...).Outcomes(); got != "acked acked acked" {
		t.Errorf("acks: %s", got)
	}
	shared.Push(reject, "", numbers(5, 9)...).WantCode(t, 429, "queue_full") // all or nothing
	shared.Push(reject, "", numbers(5, 8)...).Want(t, 201)                   // settled room is there at once
	shared.Push(reject, "", numbers(0, 6)...).WantCode(t, 400, "ephemeral_bad_request")
	shared.Push(reject, "", `"`+strings.Repeat("x", 101)+`"`).WantCode(t, 400, "ephemeral_bad_request")
	if got := shared.Pop(reject, broker.PopOptions{Batch: 10}).Payloads(); got != "0 1 5 6 7" {
		t.Errorf("reject kept %s", got)
	}

	shared.Configure(drop, `{"maxLength":3,"policy":"dropOldest"}`).Want(t, 201)
	shared.Push(drop, "a", `1`, `2`).Want(t, 201)
	shared.Push(drop, "b", `3`).Want(t, 201)
	held := shared.Pop(drop, broker.PopOptions{Partition: "a"})
	shared.Push(drop, "b", `4`).Want(t, 201) // drops 1, leased as it is, from another partition
	if got := shared.Ack(drop, "", "", held.IDs()...).Outcomes(); got != "unknown" {
		t.Errorf("ack of a dropped message: %s", got)
	}
	a := shared.Push(drop, "c", numbers(10, 20)...)
	a.Want(t, 201)
	if string(a.Body) != "{\"pushed\":10}" && string(a.Body) != "{\"pushed\":10}\n" {
		t.Errorf("a batch longer than the bound: %v", a)
	}
	if got := shared.Pop(drop, broker.PopOptions{Batch: 10}).Payloads(); got != "17 18 19" {
		t.Errorf("dropOldest kept %s", got)
	}
	q := shared.Queues(drop, "", 1).Find(drop)
	if q == nil || q.Drops.Bounds != 4+7 || q.Depth != 3 {
		t.Errorf("listed: %+v", q)
	}
}

// TestGroups pins R2, R3 and EN-18: a late group receives what is still held, and each group has its own attempts.
func TestGroups(t *testing.T) {
	t.Parallel()
	name := queue(t)
	shared.Push(name, "room", `1`, `2`).Want(t, 201)
	p := shared.Pop(name, broker.PopOptions{Group: "widget", Batch: 10})
	if got := shared.Ack(name, "widget", "", p.IDs()...).Outcomes(); got != "acked acked" {
		t.Errorf("acks: %s", got)
	}
	late := shared.Pop(name, broker.PopOptions{Group: "audit", Batch: 10})
	if late.Payloads() != "1 2" || late.Messages[0].Attempts != 1 {
		t.Errorf("the late group got %v", late)
	}
	if d := shared.Depth(name, "audit"); d.Pending != 0 || d.InGroup("audit").Leased != 2 || d.InGroup("widget").Pending != 0 {
		t.Errorf("depth: %v", d)
	}
}

// TestResetAndDelete pins X1, X2 and EN-23: a parked pop survives both and gets the next message.
func TestResetAndDelete(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"reset", "delete", "configure"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			name := queue(t)
			shared.Configure(name, `{"leaseSeconds":1}`).Want(t, 201)
			shared.Push(name, "", numbers(0, 10)...).Want(t, 201)
			old := shared.Pop(name, broker.PopOptions{Group: "g", Batch: 5})
			if len(old.Messages) != 5 {
				t.Fatalf("pop: %v", old)
			}
			// One waits in another partition and group, so that nothing there is deliverable to it.
			result := make(chan broker.Popped, 1)
			go func() {
				result <- shared.Pop(name, broker.PopOptions{Group: "parked", Partition: "p", Wait: true, Timeout: 20 * time.Second})
			}()
			broker.Eventually(t, 5*time.Second, func() string {
				if d := shared.Depth(name, ""); len(d.Groups) != 2 {
					return d.String()
				}
				return ""
			})
			switch verb {
			case "reset":
				if r := shared.Reset(name); r.Dropped != 10 {
					t.Errorf("reset: %v", r)
				}
				if d := shared.Depth(name, ""); d.Pending != 0 || d.InGroup("g").Leased != 0 || d.InGroup("g").Skipped != 0 || d.Bytes != 0 {
					t.Errorf("depth: %v", d)
				}
				if got := shared.Ack(name, "g", "", old.IDs()...).Outcomes(); got != "unknown unknown unknown unknown unknown" {
					t.Errorf("old acks: %s", got)
				}
			case "delete":
				if d := shared.Delete(name); !d.Deleted || !d.Declared {
					t.Errorf("delete: %v", d)
				}
				if d := shared.Depth(name, ""); d.Status != 200 || d.Tier != "implicit" {
					t.Errorf("depth: %v", d)
				}
				if got := shared.Ack(name, "g", "", old.IDs()[0]).Outcomes(); got != "stale" {
					t.Errorf("old ack: %s", got)
				}
			case "configure":
				shared.Configure(name, `{"leaseSeconds":2}`).Want(t, 201)
			}
			shared.Push(name, "p", `"next"`).Want(t, 201)
			if p := <-result; p.Payloads() != `"next"` || p.Messages[0].Attempts != 1 {
				t.Errorf("the parked pop: %v", p)
			}
			if verb == "configure" {
				return
			}
			// Nothing of the old comes back when the old leases would have ended.
			if p := shared.Pop(name, broker.PopOptions{Group: "g", Partition: "Default", Batch: 10, Wait: true, Timeout: 1500 * time.Millisecond}); len(p.Messages) != 0 {
				t.Errorf("old messages came back: %v", p)
			}
		})
	}
}

// TestHeaders: every answer of the family says which broker served it, and a pop is never cached.
func TestHeaders(t *testing.T) {
	t.Parallel()
	name := queue(t)
	pushed := shared.Push(name, "", `1`)
	popped := shared.Pop(name, broker.PopOptions{Partition: "Default"})
	incarnation := pushed.Header.Get("Queen-Incarnation")
	if len(incarnation) != 16 || popped.Header.Get("Queen-Incarnation") != incarnation {
		t.Errorf("incarnations %q and %q", incarnation, popped.Header.Get("Queen-Incarnation"))
	}
	if popped.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("Cache-Control is %q", popped.Header.Get("Cache-Control"))
	}
	node := pushed.Header.Get("Queen-Served-By")
	for what, a := range map[string]broker.Answer{
		"push": pushed, "pop": popped.Answer,
		"ack":       shared.Ack(name, "", "", popped.IDs()...).Answer,
		"configure": shared.Configure(name, `{}`),
		"depth":     shared.Depth(name, "").Answer,
		"queues":    shared.Queues(name, "", 1).Answer,
		"reset":     shared.Reset(name).Answer,
		"delete":    shared.Delete(name).Answer,
	} {
		if got := a.Header.Get("Queen-Served-By"); got == "" || got != node {
			t.Errorf("%s: Queen-Served-By is %q, the push had %q", what, got, node)
		}
		if kind := a.Header.Get("Content-Type"); kind != "application/json" && kind != "application/json; charset=UTF-8" {
			t.Errorf("%s: Content-Type is %q", what, kind)
		}
	}
}

// TestManyInOneRequest: ten thousand items are served, one more is refused.
func TestManyInOneRequest(t *testing.T) {
	t.Parallel()
	name := queue(t)
	shared.Push(name, "", numbers(0, 10_001)...).WantCode(t, 400, "ephemeral_bad_request")
	shared.Push(name, "", numbers(0, 10_000)...).Want(t, 201)
	p := shared.Pop(name, broker.PopOptions{Batch: 1_000_000})
	if len(p.Messages) != 10_000 {
		t.Fatalf("popped %d", len(p.Messages))
	}
	ids := p.IDs()
	shared.Ack(name, "", "", append([]string{"x"}, ids...)...).WantCode(t, 400, "ephemeral_bad_request")
	a := shared.Ack(name, "", "", ids...)
	for i, r := range a.Results {
		if r.ID != ids[i] || r.Outcome != "acked" {
			t.Fatalf("result %d: %+v", i, r)
		}
	}
	if len(a.Results) != 10_000 {
		t.Errorf("%d results", len(a.Results))
	}
}

// TestWindowBuffer pins P5: a waiting pop gathers until its count or its window.
func TestWindowBuffer(t *testing.T) {
	t.Parallel()
	name := queue(t)
	shared.Configure(name, `{"windowBuffer":{"ms":700,"count":3}}`).Want(t, 201)
	shared.Push(name, "", `1`).Want(t, 201)
	start := time.Now()
	p := shared.Pop(name, broker.PopOptions{Batch: 10, Wait: true, Timeout: 10 * time.Second, AutoAck: true})
	between(t, "the window ended", time.Since(start), 690*time.Millisecond, 700*time.Millisecond+slow(300*time.Millisecond))
	if p.Payloads() != "1" {
		t.Errorf("pop: %v", p)
	}
	var wg sync.WaitGroup
	start = time.Now()
	wg.Go(func() {
		p := shared.Pop(name, broker.PopOptions{Batch: 10, Wait: true, Timeout: 10 * time.Second, AutoAck: true})
		between(t, "the count was reached", time.Since(start), 0, slow(400*time.Millisecond))
		if p.Payloads() != "2 3 4" {
			t.Errorf("pop: %v", p)
		}
	})
	for _, payload := range numbers(2, 5) {
		shared.Push(name, "", payload).Want(t, 201)
	}
	wg.Wait()
}
