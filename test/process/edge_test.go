package process

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/queencell/queencell/test/internal/broker"
)

// TestNamesInURLs pins HE-09 (N1): a name is refused where it would be created, or works on every route.
func TestNamesInURLs(t *testing.T) {
	t.Parallel()
	prefix := queue(t)
	for _, tail := range []string{"a/b", "a b", "100%", "é", "a;b", "a?b", "a#b", "a&b=c", "a+b", "%2F", "..", "../x", "<script>", "日本", "'\"\\", "a:b.c"} {
		name := prefix + tail
		shared.Push(name, name, broker.Quote(name)).Want(t, 201)
		p := shared.Pop(name, broker.PopOptions{Group: name, Partition: name})
		if p.Queue != name || p.Payloads() == "" || p.Messages[0].Partition != name {
			t.Errorf("%q: pop %v", name, p)
			continue
		}
		if d := shared.Depth(name, name); d.Status != 200 || d.Queue != name || d.InGroup(name).Leased != 1 {
			t.Errorf("%q: depth %v", name, d)
		}
		if a := shared.Ack(name, name, "", p.IDs()...); a.Outcomes() != "acked" {
			t.Errorf("%q: ack %v", name, a)
		}
		if r := shared.Reset(name); r.Status != 200 || r.Queue != name {
			t.Errorf("%q: reset %v", name, r)
		}
		if d := shared.Delete(name); d.Status != 200 || d.Queue != name || !d.Deleted || d.Declared {
			t.Errorf("%q: delete %v", name, d)
		}
	}
	long := prefix + strings.Repeat("x", 512-len(prefix))
	shared.Push(long, long, `1`).Want(t, 201)
	if p := shared.Pop(long, broker.PopOptions{Group: long, Partition: long}); p.Payloads() != "1" {
		t.Errorf("512 bytes: %v", p)
	}
	for _, name := range []string{".", "..", "", long + "x"} {
		shared.Push(name, "", `1`).WantCode(t, 400, "ephemeral_bad_request")
		shared.Get("/api/v1/ephemeral/pop?queue="+url.QueryEscape(name)).WantCode(t, 400, "ephemeral_bad_request")
	}
}

// TestOddPaths pins HE-09: what does not decode, or climbs, reaches no other route.
func TestOddPaths(t *testing.T) {
	t.Parallel()
	c, err := shared.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, path := range []string{
		"/api/v1/ephemeral/queues/%83/depth", "/api/v1/ephemeral/queues/%00/depth", "/api/v1/ephemeral/queues/%2e%2e/depth",
		"/api/v1/ephemeral/queues/../depth", "/api/v1/ephemeral/queues/./depth", "/api/v1/ephemeral/queues//depth",
		"/api/v1/ephemeral/queues/a/../../queues", "/api/v1/ephemeral/pop?queue=%83", "/api/v1/ephemeral/pop?queue=a%00b",
		"/api/v1/ephemeral/pop?queue=a&group=%ff", "/api/v1/ephemeral/pop?queue=%zz", "/api/v1/ephemeral/pop?queue=a&partition=%0a",
		"/api/v1/ephemeral/pop?queue=a&queue=b&x=%zz",
	} {
		if err := c.Send("GET", path); err != nil {
			t.Fatal(err)
		}
		a := c.Receive(5 * time.Second)
		if a.Err != nil || a.Status != 400 && a.Status != 404 || a.Code() == "" {
			t.Errorf("%s: %v", path, a)
		}
		if a.Err != nil || a.Header.Get("Connection") == "close" {
			c.Close()
			if c, err = shared.Dial(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if q := shared.Queues("a", "", 0); q.Find("a") != nil {
		t.Errorf("a refused pop made a queue: %v", q)
	}
}

// TestMethodsAndHeaders pins HE-12.
func TestMethodsAndHeaders(t *testing.T) {
	t.Parallel()
	name := queue(t)
	shared.Push(name, "", `1`).Want(t, 201)
	type request struct {
		method, path string
		status       int
		code, allow  string
	}
	pop := broker.PopPath(name, broker.PopOptions{})
	for _, r := range []request{
		{"GET", "/api/v1/ephemeral/push", 405, "method_not_allowed", "POST"},
		{"PUT", "/api/v1/ephemeral/ack", 405, "method_not_allowed", "POST"},
		{"POST", pop, 405, "method_not_allowed", "GET"},
		{"TRACE", "/api/v1/ephemeral/push", 405, "method_not_allowed", "POST"},
		{"OPTIONS", "/api/v1/ephemeral/push", 405, "method_not_allowed", "POST"},
		{"BREW", "/api/v1/ephemeral/push", 405, "method_not_allowed", "POST"},
		{"POST", "/api/v1/ephemeral/queues/" + name + "/depth", 405, "method_not_allowed", "GET"},
		{"GET", "/api/v1/ephemeral/queue/" + name, 405, "method_not_allowed", "DELETE"},
		{"GET", "/api/v1/ephemeral/push/", 404, "not_found", ""},
		{"GET", "/api/v1/ephemeral/", 404, "not_found", ""},
		{"GET", "/", 404, "not_found", ""},
		{"GET", "/api/v1/nothing", 404, "not_found", ""},
		{"GET", "/debug/pprof/", 404, "not_found", ""},
		{"POST", "/api/v1/push", 404, "not_found", ""},
	} {
		a := shared.Do(context.Background(), r.method, r.path, nil)
		if a.Status != r.status || a.Code() != r.code || !strings.HasPrefix(a.Header.Get("Content-Type"), "application/json") {
			t.Errorf("%s %s: %v, want %d %s", r.method, r.path, a, r.status, r.code)
		}
		if r.allow != "" && !strings.Contains(a.Header.Get("Allow"), r.allow) {
			t.Errorf("%s %s: Allow is %q, want %s", r.method, r.path, a.Header.Get("Allow"), r.allow)
		}
	}
	// HEAD must not run a pop: its message would be lost.
	if a := shared.Do(context.Background(), "HEAD", pop, nil); a.Status != 405 {
		t.Errorf("HEAD of pop: %v", a)
	}
	if d := shared.Depth(name, ""); d.Pending != 1 || d.InGroup("").Leased != 0 {
		t.Errorf("after all that: %v", d)
	}
	for _, h := range []struct {
		name string
		size int
		want []int
	}{{"8 KB", 8 << 10, []int{200}}, {"5 MB", 5 << 20, []int{431}}} {
		c, err := shared.Dial()
		if err != nil {
			t.Fatal(err)
		}
		answers := make(chan broker.Answer, 1)
		go func() { answers <- c.Receive(20 * time.Second) }()
		_ = c.Send("GET", "/health/live", "X-Long: "+strings.Repeat("x", h.size)) // may be cut off while it writes
		if a := <-answers; a.Status != h.want[0] {
			t.Errorf("a header of %s: %v", h.name, a)
		}
		c.Close()
	}
	many := make([]string, 5000)
	for i := range many {
		many[i] = fmt.Sprintf("X-H-%d: v", i)
	}
	c, err := shared.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Send("GET", "/health/live", many...); err != nil {
		t.Fatal(err)
	}
	if a := c.Receive(10 * time.Second); a.Status != 200 && a.Status != 431 {
		t.Errorf("5,000 headers: %v", a)
	}
}

// TestParameterRanges pins HE-17: a number is clamped or refused by name; nothing overflows.
func TestParameterRanges(t *testing.T) {
	t.Parallel()
	name := queue(t)
	for _, query := range []string{"batch=0", "batch=1000000000", "batch=99999999999999999999999", "timeout=99999999999999999999", "timeout=0", "batch=007", "wait=false", "autoAck=false", "partition=", "group=", "unknown=1"} {
		if a := shared.Get("/api/v1/ephemeral/pop?queue=" + name + "&" + query); a.Status != 200 {
			t.Errorf("%s: %v", query, a)
		}
	}
	for _, query := range []string{"batch=-1", "batch=1e9", "batch=%2210%22", "batch=1.5", "batch=null", "batch=%2B1", "timeout=-1", "timeout=1e18", "wait=yes", "wait=1", "wait=TRUE", "autoAck=on"} {
		a := shared.Get("/api/v1/ephemeral/pop?queue=" + name + "&" + query)
		field, _, _ := strings.Cut(query, "=")
		if a.Status != 400 || a.Code() != "ephemeral_bad_request" || !strings.Contains(string(a.Body), field) {
			t.Errorf("%s: %v", query, a)
		}
	}
	for _, option := range []string{`"leaseSeconds":-1`, `"leaseSeconds":1e12`, `"leaseSeconds":"3"`, `"leaseSeconds":30.0`, `"ttlSeconds":0.1`, `"retryLimit":true`, `"maxLength":null1`, `"maxBytes":-0`, `"policy":"drop"`, `"policy":1`, `"retention":5`, `"windowBuffer":5`, `"windowBuffer":{"ms":1.5}`} {
		a := shared.Configure(name+"-bad", "{"+option+"}")
		field, _, _ := strings.Cut(option[1:], `"`)
		if a.Status != 400 || a.Code() != "ephemeral_bad_request" {
			t.Errorf("%s: %v", option, a)
		} else if option != `"maxLength":null1` && !strings.Contains(string(a.Body), field) {
			t.Errorf("%s: the error does not name the field: %v", option, a)
		}
	}
	if a := shared.Configure(name+"-bad", `{"retention":5}`); !strings.Contains(string(a.Body), "ttlSeconds") {
		t.Errorf("the error does not name the options that exist: %v", a)
	}
	shared.Depth(name+"-bad", "").WantCode(t, 404, "ephemeral_queue_not_found")
	sent := `{"leaseSeconds":0,"maxLength":0,"maxBytes":9223372036854775807,"retryLimit":1000000000000,"ttlSeconds":1000000000000,"windowBuffer":{"ms":100000,"count":100000}}`
	a := shared.Configure(name+"-clamped", sent)
	a.Want(t, 201)
	var echo struct{ Options json.RawMessage }
	if json.Unmarshal(a.Body, &echo) != nil || string(echo.Options) != sent {
		t.Errorf("the options are not echoed as sent: %v", a)
	}
	q := shared.Queues(name+"-clamped", "", 1).Find(name + "-clamped")
	if q == nil {
		t.Fatal("not listed")
	}
	window, _ := q.Options["windowBuffer"].(map[string]any)
	for field, want := range map[string]float64{"leaseSeconds": 1, "maxLength": 10000, "maxBytes": 16777216, "retryLimit": 1000, "ttlSeconds": 31536000} {
		if q.Options[field] != want {
			t.Errorf("%s is %v, want %v", field, q.Options[field], want)
		}
	}
	if window["ms"] != 60000.0 || window["count"] != 10000.0 {
		t.Errorf("windowBuffer is %v", window)
	}
}

// TestRetryAfter pins HE-17: backpressure says when to come back.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	name := queue(t)
	shared.Configure(name, `{"maxLength":1}`).Want(t, 201)
	shared.Push(name, "", `1`).Want(t, 201)
	a := shared.Push(name, "", `2`)
	a.WantCode(t, 429, "queue_full")
	if a.Header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q", a.Header.Get("Retry-After"))
	}
}
