package httpapi

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/queencell/queencell/engine"
)

// Every route's success, word for word.
func TestRoutesAnswer(t *testing.T) {
	f := newFake()
	f.served = Served{Node: "n2", Incarnation: 0xabc, OneRing: true}
	f.outcomes = []engine.Outcome{engine.OutcomeAcked, engine.OutcomeUnknown}
	f.pop = func(_ context.Context, req *engine.PopRequest, wait time.Duration, d *engine.Delivery) error {
		got := *req
		got.Room = nil // the bound on answers, which has tests of its own
		if want := (engine.PopRequest{Tenant: DefaultTenant, Queue: "q", Partition: "p", Group: "g", Batch: 2,
			MaxBytes: 8 << 20, AutoAck: true}); got != want || wait != 5*time.Second {
			t.Errorf("the broker was asked for %+v, %v", req, wait)
		}
		d.Messages = append(d.Messages,
			engine.Delivered{Partition: "p", Incarnation: 0xabc, Seq: 1, Attempts: 1, Payload: []byte(`{"a": 1}`)},
			engine.Delivered{Partition: "p", Incarnation: 0xabc, Seq: 2, Attempts: 3, Payload: []byte("\x00\x01"), Raw: true})
		return nil
	}
	f.queues = QueuesAnswer{Served: f.served, CellBytes: 5, CellMaxBytes: 6, QueuePage: engine.QueuePage{Count: 9, More: true,
		Queues: []engine.QueueInfo{{Queue: "q", Declared: true, Depth: 1, Bytes: 2, Partitions: 3, Groups: 4,
			Drops: engine.Drops{Bounds: 5, TTL: 6, Retry: 7},
			Options: engine.Options{MaxBytes: 8, MaxLength: 9, Policy: engine.DropOldest, TTL: 10 * time.Second,
				Lease: 11 * time.Second, RetryLimit: 12, Window: 13 * time.Millisecond, WindowCount: 14}}}}}
	f.depthOf = map[string]DepthAnswer{"q": {Served: f.served, Missing: []string{"n3"}, Depth: engine.Depth{Pending: 1,
		PartitionsPending: 2, Bytes: 3, OldestAge: engine.Time(4 * time.Millisecond),
		Partitions: []engine.PartitionDepth{{Partition: "p", Pending: 5, Bytes: 6}},
		Groups:     []engine.GroupDepth{{Group: "g", Pending: 7, Leased: 8, Skipped: 9}}}}}
	b := start(t, f, nil)
	id := "e:0000000000000abc:p:1"
	for _, c := range []struct {
		method, path, body string
		status             int
		want, call         string
	}{
		{"POST", "/api/v1/ephemeral/push", `{"queue":"q","messages":[{"payload": {"a" : 1.0}},{"payload":null}]}`, 201,
			`{"pushed":2}`, "push " + DefaultTenant + `|q||{"a" : 1.0}|null`},
		{"GET", "/api/v1/ephemeral/pop?queue=q&partition=p&group=g&batch=2&wait=true&timeout=5000&autoAck=true", "", 200,
			`{"queue":"q","messages":[{"id":"` + id + `","partition":"p","attempts":1,"payload":{"a": 1}},` +
				`{"id":"e:0000000000000abc:p:2.3","partition":"p","attempts":3,"payload":"AAE=","encoding":"base64"}]}`,
			"pop " + DefaultTenant + "|q|p|g"},
		{"POST", "/api/v1/ephemeral/ack", `{"queue":"q","group":"g","acks":[{"id":"` + id + `"},{"id":"x\u0041"}]}`, 200,
			`{"results":[{"id":"` + id + `","outcome":"acked"},{"id":"x\u0041","outcome":"unknown"}]}`,
			"ack " + DefaultTenant + "|q|g"},
		{"POST", "/api/v1/ephemeral/configure", `{"queue":"q","options": {"maxBytes" : 5} }`, 201,
			`{"queue":"q","options":{"maxBytes" : 5}}`, "configure " + DefaultTenant + `|q|{"maxBytes" : 5}`},
		{"POST", "/api/v1/ephemeral/configure", `{"queue":"q"}`, 201, `{"queue":"q","options":{}}`,
			"configure " + DefaultTenant + `|q|{}`},
		{"POST", "/api/v1/ephemeral/reset", `{"queue":"q"}`, 200, `{"queue":"q","dropped":3}`, "reset " + DefaultTenant + "|q"},
		{"DELETE", "/api/v1/ephemeral/queue/q", "", 200, `{"queue":"q","deleted":true,"declared":false}`,
			"delete " + DefaultTenant + "|q"},
		{"GET", "/api/v1/ephemeral/queues?prefix=a&after=b", "", 200,
			`{"queues":[{"queue":"q","tier":"declared","depth":1,"bytes":2,"partitions":3,"groups":4,` +
				`"drops":{"bounds":5,"ttl":6,"retry":7},"options":{"maxBytes":8,"maxLength":9,"policy":"dropOldest",` +
				`"ttlSeconds":10,"leaseSeconds":11,"retryLimit":12,"windowBuffer":{"ms":13,"count":14}}}],` +
				`"count":9,"next":"q","cellBytes":5,"cellMaxBytes":6}`, "queues " + DefaultTenant + "|a|b"},
		{"GET", "/api/v1/ephemeral/queues/q/depth?group=g&scope=broker", "", 200,
			`{"queue":"q","group":"g","tier":"implicit","pending":1,"partitionsPending":2,"bytes":3,"oldestAgeMs":4,` +
				`"partitions":[{"partition":"p","pending":5,"bytes":6}],"groups":[{"group":"g","pending":7,"leased":8,` +
				`"skipped":9}],"partial":true,"missing":["n3"]}`, "depth " + DefaultTenant + "|q|g|"},
		{"GET", "/api/v1/system/ephemeral", "", 200, `{"ephemeralEnabled":true,"cellBytes":10,"cellMaxBytes":20,"queues":2,` +
			`"grantedTenants":0,"requireGrant":false,"epoch":7}`, ""},
		{"POST", "/api/v1/system/ephemeral", `{"enabled":false}`, 200, `{"ephemeralEnabled":true,"cellBytes":10,` +
			`"cellMaxBytes":20,"queues":2,"grantedTenants":0,"requireGrant":false,"epoch":7}`, "switch "},
		{"GET", "/health", "", 200, `{"status":"ok","node":"n1","store":"up"}`, ""},
		{"GET", "/health/live", "", 200, `{"status":"ok"}`, ""},
		{"GET", "/api/v1/cell", "", 200, `{"cell":"c","node":"n1","ring":{"version":"v","slots":4093},"members":` +
			`[{"node":"n1","url":"http://n1:6632","epoch":"ab","share":1,"self":true}]}`, ""},
		{"GET", "/api/v1/cell/owner?queue=q", "", 200,
			`{"queue":"q","partition":"Default","node":"n1","url":"http://n1:6632"}`, ""},
	} {
		r := b.do(t, c.method, c.path, body(c.body))
		if r.status != c.status || r.body != c.want {
			t.Errorf("%s %s: %d %s\nwant %d %s", c.method, c.path, r.status, r.body, c.status, c.want)
		}
		if got := fmt.Sprint(b.take()); c.call != "" && got != "["+c.call+"]" || c.call == "" && got != "[]" {
			t.Errorf("%s %s: calls %s, want %s", c.method, c.path, got, c.call)
		}
		if r.header.Get("Content-Type") != "application/json" || r.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: headers %v", c.method, c.path, r.header)
		}
	}
}
