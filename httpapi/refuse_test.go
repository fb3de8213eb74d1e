package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/queencell/queencell/engine"
)

const (
	pushURL = "/api/v1/ephemeral/push"
	ackURL  = "/api/v1/ephemeral/ack"
	popURL  = "/api/v1/ephemeral/pop"
	confURL = "/api/v1/ephemeral/configure"
)

// Cases HE-02, HE-03, HE-05: what is not well formed is refused, and nothing of it is stored.
func TestBadBodiesReachNobody(t *testing.T) {
	b := start(t, newFake(), nil)
	one := `{"queue":"q","messages":[{"payload":1}]}`
	deep := func(n int) string { // n levels, counted from the body's first bracket
		return `{"queue":"q","messages":[{"payload":` + strings.Repeat("[", n-3) + strings.Repeat("]", n-3) + `}]}`
	}
	items := func(item string, n int) string { return strings.Repeat(item+",", n-1) + item }
	unknown := func(n int) string {
		s := `{"queue":"q","messages":[]`
		for i := range n {
			s += fmt.Sprintf(`,"u%d":0`, i)
		}
		return s + "}"
	}
	long := strings.Repeat("n", 513)
	for _, c := range []struct{ path, body string }{
		{pushURL, ""}, {pushURL, " "}, {pushURL, "{"}, {pushURL, "null"}, {pushURL, "[]"}, {pushURL, `"x"`}, {pushURL, "{}"},
		{pushURL, one + one}, {pushURL, one + "garbage"}, {pushURL, one + "]"}, {pushURL, one + "\x00"}, {pushURL, one + "\x0b"},
		{pushURL, "[1][2]"}, {pushURL, "\ufeff" + one}, {pushURL, "\x00" + one}, {pushURL, one[:len(one)-1]},
		{pushURL, `{"queue":"q","queue":"q","messages":[]}`}, {pushURL, `{"queue":"q","qu\u0065ue":"r","messages":[]}`},
		{pushURL, `{"queue":"q","messages":[],"messages":[]}`}, {pushURL, `{"queue":"q","x":1,"x":1,"messages":[]}`},
		{pushURL, `{"queue":"q","x":1,"\u0078":1,"messages":[]}`}, {pushURL, `{"queue":"q","partition":"a","partition":"a","messages":[]}`},
		{pushURL, `{"queue":"q","messages":[{"payload":1,"payload":1}]}`}, {pushURL, `{"queue":"q","messages":[{"payload":1,"y":1,"y":2}]}`},
		{pushURL, `{"QUEUE":"q","messages":[{"payload":1}]}`}, {pushURL, `{"queue":"q","Messages":[{"payload":1}]}`},
		{pushURL, `{"queue\u0000":"q","messages":[{"payload":1}]}`},
		{pushURL, `{"queue":"q"}`}, {pushURL, `{"queue":"q","messages":null}`}, {pushURL, `{"queue":"q","messages":{}}`},
		{pushURL, `{"queue":"q","messages":[1]}`}, {pushURL, `{"queue":"q","messages":[null]}`}, {pushURL, `{"queue":"q","messages":[{}]}`},
		{pushURL, `{"queue":"q","messages":[{"Payload":1}]}`}, {pushURL, `{"queue":"q","messages":[{"payload":1},]}`},
		{pushURL, `{"queue":"q","messages":[{"payload":1,}]}`}, {pushURL, `{"queue":"q","messages":[{"payload":}]}`},
		{pushURL, `{"queue":"q","messages":[{"payload":1}{"payload":1}]}`}, {pushURL, `{"queue":"q","messages":[{"payload":1]}`},
		{pushURL, `{"queue":null,"messages":[]}`}, {pushURL, `{"queue":"","messages":[]}`}, {pushURL, `{"queue":5,"messages":[]}`},
		{pushURL, `{"queue":".","messages":[]}`}, {pushURL, `{"queue":"..","messages":[]}`}, {pushURL, `{"queue":"a\u0000","messages":[]}`},
		{pushURL, `{"queue":"a\n","messages":[]}`}, {pushURL, `{"queue":"\u007f","messages":[]}`}, {pushURL, `{"queue":"` + long + `","messages":[]}`},
		{pushURL, `{"queue":"q","partition":"` + long + `","messages":[]}`}, {pushURL, `{"queue":"q","partition":7,"messages":[]}`},
		{pushURL, `{"queue":"q","partition":"a\tb","messages":[]}`},
		{pushURL, `{"queue":"a\ud800","messages":[]}`}, {pushURL, `{"queue":"\udc49\u0430","messages":[]}`},
		{pushURL, `{"queue":"q","partition":"\ud800\ud800","messages":[]}`}, {pushURL, `{"queue":"q","\ud800":1,"messages":[]}`},
		{pushURL, "{\"queue\":\"\xff\",\"messages\":[]}"}, {pushURL, "{\"queue\":\"q\",\"messages\":[{\"payload\":\"\xff\"}]}"},
		{pushURL, "{\"queue\":\"q\",\"messages\":[{\"payload\":\"\xc0\xaf\"}]}"}, {pushURL, "{\"queue\":\"q\",\"messages\":[{\"payload\":\"\xed\xa0\x80\"}]}"},
		{pushURL, "{\"queue\":\"q\",\"messages\":[{\"payload\":\"plain text, long \xe2\x82\"}]}"},
		{pushURL, "{\"queue\":\"q\",\"x\xff\":1,\"messages\":[]}"}, {pushURL, "{\"queue\":\"q\",\"messages\":[{\"payload\":\"a\nb\"}]}"},
		{pushURL, `{"queue":"q","messages":[{"payload":"\x41"}]}`}, {pushURL, `{"queue":"q","messages":[{"payload":"\u00g0"}]}`},
		{pushURL, `{"queue":"q","messages":[{"payload":"\u00"}]}`}, {pushURL, `{"queue":"q","messages":[{"payload":01}]}`},
		{pushURL, `{"queue":"q","messages":[{"payload":+1}]}`}, {pushURL, `{"queue":"q","messages":[{"payload":.5}]}`},
		{pushURL, `{"queue":"q","messages":[{"payload":1.}]}`}, {pushURL, `{"queue":"q","messages":[{"payload":1e}]}`},
		{pushURL, `{"queue":"q","messages":[{"payload":-}]}`}, {pushURL, `{"queue":"q","messages":[{"payload":NaN}]}`},
		{pushURL, `{"queue":"q","messages":[{"payload":tru}]}`}, {pushURL, `{"queue":"q","messages":[{"payload":nulL}]}`},
		{pushURL, `{"queue":"q","messages":[{"payload":'a'}]}`}, {pushURL, `{"queue":"q","messages":[{"payload":{a:1}}]}`},
		{pushURL, `{"queue":"q","messages":[{"payload":{"a" 1}}]}`}, {pushURL, `{"queue":"q","messages":[{"payload":/**/1}]}`},
		{pushURL, deep(513)}, {pushURL, deep(900)}, {pushURL, strings.Repeat("[", 600)},
		{pushURL, `{"queue":"q","messages":[` + items(`{"payload":1}`, 10_001) + `]}`}, {pushURL, unknown(65)},
		{pushURL, `{"queue":"q","messages":[{"payload":"AAE=","encoding":"gzip"}]}`}, {pushURL, `{"queue":"q","messages":[{"payload":1,"encoding":"base64"}]}`},
		{pushURL, `{"queue":"q","messages":[{"payload":"AAE","encoding":"base64"}]}`}, {pushURL, `{"queue":"q","messages":[{"encoding":"base64","payload":"AA\nE="}]}`},
		{pushURL, `{"queue":"q","messages":[{"payload":"AAF=","encoding":"base64"}]}`}, {pushURL, `{"queue":"q","messages":[{"payload":"AA==AA==","encoding":"base64"}]}`},
		{pushURL, `{"queue":"q","messages":[{"payload":"__8=","encoding":"base64"}]}`}, {pushURL, `{"queue":"q","messages":[{"payload":"AAE=","encoding":7}]}`},
		{pushURL, `{"queue":"q","messages":[{"payload":"` + strings.Repeat("A", 4092) + "AA==" + `AAAA","encoding":"base64"}]}`},

		{ackURL, `{"queue":"q"}`}, {ackURL, `{"acks":[]}`}, {ackURL, `{"queue":"q","acks":null}`}, {ackURL, `{"queue":"q","acks":[{}]}`},
		{ackURL, `{"queue":"q","acks":[{"id":null}]}`}, {ackURL, `{"queue":"q","acks":[{"id":5}]}`}, {ackURL, `{"queue":"q","acks":["e:1"]}`},
		{ackURL, `{"queue":"q","acks":[{"status":"ok"}]}`}, {ackURL, `{"queue":"q","acks":[{"id":"a","id":"a"}]}`},
		{ackURL, `{"queue":"q","acks":[{"id":"a","status":5}]}`}, {ackURL, `{"queue":"q","acks":[{"id":"a","status":"ok","status":"ok"}]}`},
		{ackURL, `{"queue":"q","acks":[` + items(`{"id":"a"}`, 10_001) + `]}`}, {ackURL, `{"queue":"q","group":"\ud800","acks":[]}`},
		{ackURL, `{"queue":"q","group":"a\u0001","acks":[]}`}, {ackURL, `{"queue":"q","group":"g","group":"g","acks":[]}`},
		{ackURL, "{\"queue\":\"q\",\"acks\":[{\"id\":\"\xff\"}]}"}, {ackURL, `{"queue":"q","acks":[]}x`},

		{confURL, `{"queue":"q","options":null}`}, {confURL, `{"queue":"q","options":[]}`}, {confURL, `{"queue":"q","options":{"maxbytes":1}}`},
		{confURL, `{"queue":"q","options":{"maxBytes":1.5}}`}, {confURL, `{"queue":"q","options":{"windowBuffer":{"Ms":1}}}`},
		{confURL, `{"queue":"q","options":{"maxBytes":1,"maxBytes":1}}`}, {confURL, `{"queue":"q","options":{},"options":{}}`},
		{confURL, `{"options":{}}`}, {confURL, `{"queue":"q","options":{"leaseSeconds":-1}}`},
		{"/api/v1/ephemeral/reset", `{}`}, {"/api/v1/ephemeral/reset", `{"queue":".."}`}, {"/api/v1/ephemeral/reset", ``},
		{"/api/v1/system/ephemeral", `{}`}, {"/api/v1/system/ephemeral", `{"enabled":1}`}, {"/api/v1/system/ephemeral", `{"enabled":"true"}`},
		{"/api/v1/system/ephemeral", `{"enabled":true,"x":1}`}, {"/api/v1/system/ephemeral", `{"enabled":null}`},
		{"/api/v1/system/ephemeral", `{"enabled":true,"enabled":false}`}, {"/api/v1/system/ephemeral", `{"x":1}`},
	} {
		what := c.path + " " + c.body
		if len(what) > 200 {
			what = what[:200]
		}
		b.wantCode(t, what, b.post(t, c.path, c.body), 400, "ephemeral_bad_request")
		b.wantNoCalls(t, what)
	}
	// The other side of each bound.
	for _, body := range []string{one + "\n  \r\n\t", deep(512), `{"queue":"q","messages":[` + items(`{"payload":1}`, 10_000) + `]}`, unknown(64),
		`{"queue":"a\ufffd","messages":[]}`, `{"queue":"\ud83d\ude00","partition":null,"messages":[{"payload":1}]}`,
		`{"queue":"` + long[1:] + `","partition":"","messages":[{"payload":1,"encoding":null},{"encoding":"","payload":2}]}`,
		`{"\u0071ueue":"q","messages":[{"p\u0061yload":1}]}`} {
		if r := b.post(t, pushURL, body); r.status != 201 {
			t.Errorf("%.100s: %d %s", body, r.status, r.body)
		}
	}
}

// The error of a bad name or option says which one it is.
func TestBadRequestsNameTheField(t *testing.T) {
	b := start(t, newFake(), nil)
	for _, c := range []struct{ method, path, body, says string }{
		{"POST", pushURL, `{"queue":"..","messages":[]}`, "queue must not be . or .."},
		{"POST", pushURL, `{"queue":"q","partition":"\u0000","messages":[]}`, "partition must not hold control"},
		{"POST", ackURL, `{"queue":"q","group":5,"acks":[]}`, "group must be a string"},
		{"POST", confURL, `{"queue":"q","options":{"ttl":5}}`, `unknown key \"ttl\"; the keys are maxBytes, maxLength, policy`},
		{"POST", confURL, `{"queue":"q","options":{"maxLength":1e3}}`, "maxLength must be"},
		{"GET", popURL + "?queue=q&batch=1.5", "", "batch must be"},
		{"GET", popURL + "?queue=q&group=%00", "", "group must not hold control"},
	} {
		r := b.do(t, c.method, c.path, body(c.body))
		b.wantCode(t, c.body, r, 400, "ephemeral_bad_request")
		if !strings.Contains(r.body, c.says) {
			t.Errorf("%s says %s, want %q", c.body, r.body, c.says)
		}
	}
}

// Case HE-17: numbers are clamped or refused, never misread.
func TestPopParameters(t *testing.T) {
	f := newFake()
	var got engine.PopRequest
	var waited time.Duration
	f.pop = func(_ context.Context, req *engine.PopRequest, wait time.Duration, _ *engine.Delivery) error {
		got, waited = *req, wait
		return nil
	}
	b := start(t, f, nil)
	for query, want := range map[string]struct {
		batch int
		wait  time.Duration
	}{
		"":                                      {1, 0},
		"batch=0":                               {1, 0},
		"batch=000000000000005":                 {5, 0},
		"batch=1000000000":                      {10_000, 0},
		"batch=" + strings.Repeat("9", 400):     {10_000, 0},
		"wait=true":                             {1, 30 * time.Second},
		"wait=false&timeout=5":                  {1, 0},
		"wait=true&timeout=0":                   {1, 0},
		"wait=true&timeout=1000000000000000000": {1, 300 * time.Second},
		"wait=true&timeout=300001":              {1, 300 * time.Second},
		"unknown=1&unknown=2&Batch=7":           {1, 0},
		"partition=&group=":                     {1, 0},
	} {
		r := b.get(t, popURL+"?queue=q&"+query)
		if r.status != 200 || r.body != `{"queue":"q","messages":[]}` || got.Batch != want.batch || waited != want.wait {
			t.Errorf("%s: %d %s, batch %d, wait %v", query, r.status, r.body, got.Batch, waited)
		}
		if r.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: Cache-Control is %q", query, r.header.Get("Cache-Control"))
		}
	}
	b.take()
	for _, query := range []string{"batch=", "batch=-1", `batch="10"`, "batch=1.5", "batch=null", "batch=1e3", "batch=+1", "batch=%201",
		"timeout=-1", "timeout=abc", "timeout=", "wait=", "wait=1", "wait=TRUE", "wait=yes", "autoAck=True", "autoAck=", "queue=r",
		"batch=1&batch=1", "group=a&gr%6fup=a", "group=%f", "group=%", "group=%zz", "x=%z1", "%zz=1", "group=%ff", "partition=%0a",
		"group=" + strings.Repeat("g", 513)} {
		b.wantCode(t, query, b.get(t, popURL+"?queue=q&"+query), 400, "ephemeral_bad_request")
		b.wantNoCalls(t, query)
	}
	for _, query := range []string{"", "?queue=", "?Queue=q", "?queue=.", "?queue=%2e%2e", "?queue=%83", "?queue=%00"} {
		b.wantCode(t, query, b.get(t, popURL+query), 400, "ephemeral_bad_request")
		b.wantNoCalls(t, query)
	}
	b.get(t, popURL+"?queue=a+b%2Bc;d")
	if got.Queue != "a b+c;d" {
		t.Errorf("the queue is %q", got.Queue)
	}
}

// Each error of the broker has its status and its code, on every route that can give it.
func TestErrorsOfTheBroker(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   string
		retry  string
	}{
		{engine.ErrNeverFits, 400, "ephemeral_bad_request", ""},
		{engine.ErrFull, 429, "queue_full", "1"},
		{engine.ErrTenantBytes, 403, "ephemeral_quota_exceeded", ""},
		{engine.ErrTenantQueues, 403, "ephemeral_quota_exceeded", ""},
		{engine.ErrGroups, 403, "ephemeral_quota_exceeded", ""},
		{engine.ErrPartitions, 403, "ephemeral_quota_exceeded", ""},
		{engine.ErrBudget, 503, "ephemeral_unavailable", "1"},
		{engine.ErrLeases, 503, "ephemeral_unavailable", "1"},
		{engine.ErrRoom, 503, "ephemeral_unavailable", "1"},
		{engine.ErrClosed, 503, "owner_moved", "1"},
		{ErrMoved, 503, "owner_moved", "1"},
		{ErrDisabled, 503, "ephemeral_disabled", "1"},
		{ErrStoreDown, 503, "ephemeral_unavailable", "1"},
		{ErrUnknownOutcome, 503, "ephemeral_forward_failed", ""},
		{ErrStoreFailed, 500, "ephemeral_configure_failed", ""},
		{errors.New("secret detail"), 500, "internal", ""},
	} {
		f := newFake()
		f.err = fmt.Errorf("at 10.0.0.1: %w", c.err)
		b := start(t, f, nil)
		for _, r := range []struct{ method, path, body string }{
			{"POST", pushURL, `{"queue":"q","messages":[{"payload":1}]}`},
			{"GET", popURL + "?queue=q", ""},
			{"POST", ackURL, `{"queue":"q","acks":[{"id":"a"}]}`},
			{"POST", confURL, `{"queue":"q"}`},
			{"POST", "/api/v1/ephemeral/reset", `{"queue":"q"}`},
			{"DELETE", "/api/v1/ephemeral/queue/q", ""},
			{"GET", "/api/v1/ephemeral/queues", ""},
			{"GET", "/api/v1/ephemeral/queues/q/depth", ""},
			{"POST", "/api/v1/system/ephemeral", `{"enabled":true}`},
		} {
			code := c.code
			if r.method == "DELETE" && c.err == ErrStoreFailed {
				code = "ephemeral_delete_failed"
			}
			got := b.do(t, r.method, r.path, body(r.body))
			b.wantCode(t, r.path+" "+c.err.Error(), got, c.status, code)
			if retry := got.header.Get("Retry-After"); retry != c.retry {
				t.Errorf("%s %v: Retry-After is %q", r.path, c.err, retry)
			}
			if strings.Contains(got.body, "10.0.0.1") || strings.Contains(got.body, "secret") {
				t.Errorf("%s %v: the answer tells what is inside: %s", r.path, c.err, got.body)
			}
			if family := strings.HasPrefix(r.path, family); family != (got.header.Get("Queen-Served-By") == "n1") {
				t.Errorf("%s %v: Queen-Served-By is %q", r.path, c.err, got.header.Get("Queen-Served-By"))
			}
			if c.status == 500 {
				id := got.header.Get("X-Request-Id")
				if len(id) != 16 || !strings.Contains(got.body, id) || strings.Count(b.logs.String(), id) != 1 ||
					!strings.Contains(b.logs.String(), "10.0.0.1") {
					t.Errorf("%s %v: id %q, body %s, log %s", r.path, c.err, id, got.body, b.logs)
				}
			}
		}
		if c.status != 500 && b.logs.String() != "" {
			t.Errorf("%v is logged: %s", c.err, b.logs)
		}
	}
}

// Case HE-12: unknown paths and wrong methods.
func TestPathsAndMethods(t *testing.T) {
	b := start(t, newFake(), nil)
	for path, allow := range map[string]string{
		pushURL: "POST", popURL: "GET", ackURL: "POST", confURL: "POST", "/api/v1/ephemeral/reset": "POST",
		"/api/v1/ephemeral/queue/a": "DELETE", "/api/v1/ephemeral/queues": "GET", "/api/v1/ephemeral/queues/a/depth": "GET",
		"/api/v1/ephemeral/queue/a%2Fb": "DELETE", "/api/v1/ephemeral/queues/a%2Fb/depth": "GET",
		"/api/v1/system/ephemeral": "GET, POST", "/health": "GET", "/health/live": "GET", "/api/v1/cell": "GET",
		"/api/v1/cell/owner": "GET", "/metrics": "GET", "/metrics/prometheus": "GET",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "BREW"} {
			if strings.Contains(allow, method) {
				continue
			}
			r := b.do(t, method, path, nil)
			if method == "HEAD" {
				if r.status != 405 || r.body != "" {
					t.Errorf("HEAD %s: %d %q", path, r.status, r.body)
				}
			} else {
				b.wantCode(t, method+" "+path, r, 405, "method_not_allowed")
			}
			if got := r.header.Get("Allow"); got != allow {
				t.Errorf("%s %s: Allow is %q, want %q", method, path, got, allow)
			}
		}
	}
	for _, path := range []string{"/", "", "/api", "/nothing", pushURL + "/", popURL + "/?queue=q", "/api/v1/ephemeral", "/api/v1/ephemeral/",
		"/api/v1/ephemeral/queue", "/api/v1/ephemeral/queue/", "/api/v1/ephemeral/queue/a/", "/api/v1/ephemeral/queue/a/b",
		"/api/v1/ephemeral/queue//", "/api/v1/ephemeral/queues/", "/api/v1/ephemeral/queues/a", "/api/v1/ephemeral/queues/a/",
		"/api/v1/ephemeral/queues//depth", "/api/v1/ephemeral/queues/a/depth/", "/api/v1/ephemeral/queues/a/b/depth",
		"/api/v1/ephemeral%2Fpush", "//api/v1/ephemeral/push", "/API/v1/ephemeral/push", "/health/", "/metrics/", "/health/live/x",
		"/api/v1/ephemeral/./push", "/api/v1/ephemeral/x/../push", "/api/v1/ephemeral/queue/x/../y", "/api/v1/ephemeral/pus%68/"} {
		for _, method := range []string{"GET", "POST", "DELETE", "OPTIONS"} {
			b.wantCode(t, method+" "+path, b.do(t, method, path, nil), 404, "not_found")
		}
	}
	b.wantNoCalls(t, "paths")
	b.wantCode(t, "OPTIONS *", b.raw(t, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), 404, "not_found")
}

// Case HE-09: a queue in a path is one percent-decoded segment, the same queue as in a body or a query.
func TestNamesInPaths(t *testing.T) {
	f := newFake()
	b := start(t, f, nil)
	for escaped, name := range map[string]string{
		"a%2Fb": "a/b", "a%2fb": "a/b", "a%20b": "a b", "100%25": "100%", "%C3%A9": "é", "a;b": "a;b", "a%3Bb": "a;b", "a%3Fb": "a?b",
		"a+b": "a+b", "a%2Bb": "a+b", "...": "...", "%61": "a", "a%252Fb": "a%2Fb", "push": "push", "%2e%2e%2Fpush": "../push",
		"a%23b": "a#b", ":queue": ":queue", "*": "*", "depth": "depth", "%2F": "/", "a%2Fdepth": "a/depth",
		"%3Cscript%3Ealert(1)%3C%2Fscript%3E": "<script>alert(1)</script>", strings.Repeat("x", 512): strings.Repeat("x", 512),
	} {
		if r := b.do(t, "DELETE", "/api/v1/ephemeral/queue/"+escaped, nil); r.status != 200 {
			t.Errorf("delete %s: %d %s", escaped, r.status, r.body)
		}
		f.depthOf = map[string]DepthAnswer{name: {}}
		if r := b.get(t, "/api/v1/ephemeral/queues/"+escaped+"/depth"); r.status != 200 {
			t.Errorf("depth %s: %d %s", escaped, r.status, r.body)
		}
		want := []string{"delete " + DefaultTenant + "|" + name, "depth " + DefaultTenant + "|" + name + "||"}
		if calls := b.take(); fmt.Sprint(calls) != fmt.Sprint(want) {
			t.Errorf("%s: %q, want %q", escaped, calls, want)
		}
	}
	for _, escaped := range []string{"%83", "%00", ".", "..", "%2e", "%2e%2e", "%2E.", "%0a", "%7f", "a%ff", strings.Repeat("x", 513)} {
		for _, c := range [][2]string{{"DELETE", "/api/v1/ephemeral/queue/" + escaped}, {"GET", "/api/v1/ephemeral/queues/" + escaped + "/depth"}} {
			b.wantCode(t, c[1], b.raw(t, c[0]+" "+c[1]+" HTTP/1.1\r\nHost: a\r\n\r\n"), 400, "ephemeral_bad_request")
			b.wantNoCalls(t, c[1])
		}
	}
	if r := b.raw(t, "DELETE /api/v1/ephemeral/queue/100% HTTP/1.1\r\nHost: a\r\n\r\n"); r.status != 400 {
		t.Errorf("a bad escape: %d", r.status)
	}
	b.wantNoCalls(t, "a bad escape")
	b.wantCode(t, "unknown queue", b.get(t, "/api/v1/ephemeral/queues/other/depth"), 404, "ephemeral_queue_not_found")
}

// Case HE-08: the query of a POST and the content type count for nothing.
func TestOnlyTheBodyCounts(t *testing.T) {
	b := start(t, newFake(), nil)
	for _, ct := range []string{"", "text/plain", "application/json;charset=utf-8", "application/vnd.x+json", "application/x-www-form-urlencoded", ";;;"} {
		r := b.do(t, "POST", pushURL+"?queue=other&queue=x&maxLength=1&%zz", strings.NewReader(`{"queue":"a","messages":[{"payload":1}]}`), "Content-Type", ct)
		if calls := b.take(); r.status != 201 || len(calls) != 1 || calls[0] != "push "+DefaultTenant+"|a||1" {
			t.Errorf("%q: %d %s, calls %q", ct, r.status, r.body, calls)
		}
	}
}

// Case HE-16: an encoding that is not served is refused before anything is read.
func TestContentEncodings(t *testing.T) {
	b := start(t, newFake(), nil)
	one := `{"queue":"q","messages":[{"payload":1}]}`
	for _, encoding := range []string{"gzip", "gzip, gzip", "br", "zstd", "x", "identity, gzip", "identity,identity"} {
		for _, path := range []string{pushURL, ackURL, confURL, "/api/v1/ephemeral/reset", "/api/v1/system/ephemeral"} {
			r := b.do(t, "POST", path, strings.NewReader(one), "Content-Encoding", encoding)
			b.wantCode(t, encoding, r, 415, "unsupported_media")
		}
	}
	b.wantNoCalls(t, "encodings")
	for _, encoding := range []string{"identity", "Identity"} {
		if r := b.do(t, "POST", pushURL, strings.NewReader(one), "Content-Encoding", encoding); r.status != 201 {
			t.Errorf("%s: %d", encoding, r.status)
		}
	}
}

// endless is a body that never ends: head, then white space.
type endless struct {
	head io.Reader
	sent int64
}

func (e *endless) Read(p []byte) (int, error) {
	n, _ := e.head.Read(p)
	if n == 0 {
		n = len(p)
		copy(p, bytes.Repeat([]byte{' '}, n))
	}
	e.sent += int64(n)
	return n, nil
}

// Case HE-01: the body's limit, with a length and without, is found without reading it all.
func TestBodyLimit(t *testing.T) {
	b := start(t, newFake(), func(c *Config) { c.MaxBodyBytes = 100_000 })
	one := `{"queue":"q","messages":[{"payload":1}]}`
	pad := func(n int) string { return one + strings.Repeat(" ", n-len(one)) }
	object := `{"queue":"q","messages":[{"payload":"` + strings.Repeat("x", 500_000) + `"}]}`
	chunked := func(s string) io.Reader { return io.MultiReader(strings.NewReader(s)) } // no length is known of it
	for what, body := range map[string]io.Reader{
		"length L+1": strings.NewReader(pad(100_001)), "length 20 L": strings.NewReader(pad(2_000_000)),
		"chunked L+1": chunked(pad(100_001)), "chunked 20 L": chunked(pad(2_000_000)), "chunked object of 5 L": chunked(object),
	} {
		b.wantCode(t, what, b.do(t, "POST", pushURL, body), 413, "body_too_large")
		b.wantNoCalls(t, what)
	}
	e := &endless{head: strings.NewReader(one)}
	req, _ := http.NewRequest("POST", b.url+pushURL, e)
	resp, err := b.client.Do(req)
	if err == nil {
		if resp.StatusCode != 413 {
			t.Errorf("an endless body: %d", resp.StatusCode)
		}
		resp.Body.Close()
	}
	b.wantNoCalls(t, "an endless body")
	for what, body := range map[string]io.Reader{"length L": strings.NewReader(pad(100_000)), "chunked L": chunked(pad(100_000))} {
		if r := b.do(t, "POST", pushURL, body); r.status != 201 {
			t.Errorf("%s: %d %s", what, r.status, r.body)
		}
	}
	// A length that is announced and never sent is refused at once.
	b.wantCode(t, "announced", b.raw(t, "POST "+pushURL+" HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n"), 413, "body_too_large")
	b.wantCode(t, "announced", b.raw(t, "POST "+pushURL+" HTTP/1.1\r\nHost: a\r\nContent-Length: 100001\r\n\r\n"), 413, "body_too_large")
}

// The kill switch is asked before anything else of the family, and stops nothing but the family.
func TestKillSwitch(t *testing.T) {
	f := newFake()
	f.disabled = true
	b := start(t, f, nil)
	for _, c := range [][2]string{{"POST", pushURL}, {"GET", popURL}, {"POST", ackURL}, {"POST", confURL}, {"POST", "/api/v1/ephemeral/reset"},
		{"DELETE", "/api/v1/ephemeral/queue/.."}, {"GET", "/api/v1/ephemeral/queues"}, {"GET", "/api/v1/ephemeral/queues/q/depth"},
		{"GET", pushURL}, {"GET", "/api/v1/ephemeral/nothing"}} {
		r := b.do(t, c[0], c[1], strings.NewReader("not json"), "Content-Encoding", "gzip")
		b.wantCode(t, c[1], r, 503, "ephemeral_disabled")
		if r.header.Get("Retry-After") != "1" {
			t.Errorf("%s: no Retry-After", c[1])
		}
	}
	b.wantNoCalls(t, "disabled")
	for _, path := range []string{"/health", "/health/live", "/api/v1/cell", "/api/v1/system/ephemeral", "/metrics", "/metrics/prometheus"} {
		if r := b.get(t, path); r.status != 200 {
			t.Errorf("%s: %d", path, r.status)
		}
	}
	if r := b.post(t, "/api/v1/system/ephemeral", ` {"enabled" : true} `); r.status != 200 || len(f.enabled) != 1 || !f.enabled[0] {
		t.Errorf("%d %s, %v", r.status, r.body, f.enabled)
	}
}

// What Admit refuses has reached nobody; whom it names is the tenant.
func TestAdmit(t *testing.T) {
	var level Level
	refuse := error(nil)
	b := start(t, newFake(), func(c *Config) {
		c.Admit = func(r *http.Request, l Level) (string, error) { level = l; return r.Header.Get("T"), refuse }
	})
	b.do(t, "POST", pushURL, strings.NewReader(`{"queue":"q","messages":[{"payload":1}]}`), "T", "t1")
	if calls := b.take(); level != WriteOnly || len(calls) != 1 || calls[0] != "push t1|q||1" {
		t.Errorf("level %d, calls %q", level, calls)
	}
	refuse = ErrDisabled
	b.wantCode(t, "refused", b.post(t, pushURL, `not json`), 503, "ephemeral_disabled")
	b.wantNoCalls(t, "refused")
}
