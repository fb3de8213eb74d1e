package process

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/queencell/queencell/test/internal/broker"
)

// writeUntilCut writes head and then block again and again, at most limit bytes, until the broker answers or closes.
// It returns the answer and how much was written.
func writeUntilCut(c *broker.Conn, head, block string, limit int64) (broker.Answer, int64) {
	answers := make(chan broker.Answer, 1)
	go func() { answers <- c.Receive(60 * time.Second) }()
	written := int64(0)
	if _, err := io.WriteString(c, head); err == nil {
		for written < limit {
			n, err := io.WriteString(c, block)
			written += int64(n)
			if err != nil {
				break
			}
		}
	}
	return <-answers, written
}

// TestBodyLimit pins HE-01: a body over the limit is a 413 in every form, found without reading it all; nothing is
// stored and memory does not grow with what is sent.
func TestBodyLimit(t *testing.T) {
	const limit = 1 << 20
	b := broker.Start(t, map[string]string{"QUEEN_MAX_BODY_BYTES": fmt.Sprint(limit)})
	name := queue(t)
	valid := string(broker.PushBody(name, "", `1`))
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	spaces := chunk(strings.Repeat(" ", 32<<10))
	letters := chunk(strings.Repeat("a", 32<<10))
	const post = "POST /api/v1/ephemeral/push HTTP/1.1\r\nHost: broker\r\n"
	forms := []struct {
		name, head, block string
		send              int64
	}{
		{"content length", post + fmt.Sprintf("Content-Length: %d\r\n\r\n", limit+1) + valid, strings.Repeat(" ", limit+1-len(valid)), limit + 1 - int64(len(valid))},
		{"content length of 10 GiB", post + fmt.Sprintf("Content-Length: %d\r\n\r\n", int64(10<<30)), strings.Repeat(" ", 32<<10), 10 << 30},
		{"chunked padding after a whole object", post + "Transfer-Encoding: chunked\r\n\r\n" + chunk(valid), spaces, 20 * limit},
		{"chunked object", post + "Transfer-Encoding: chunked\r\n\r\n" + chunk(valid[:len(valid)-4]+`"`), letters, 5 * limit},
		{"chunked 10 GiB", post + "Transfer-Encoding: chunked\r\n\r\n" + chunk(`{"queue":"`), letters, 10 << 30},
	}
	// The first request pays for the buffers that every later one reuses.
	b.Push(name+"-warm", "", `"`+strings.Repeat("x", limit/2)+`"`).Want(t, 201)
	before, err := b.RSS()
	if err != nil {
		t.Fatal(err)
	}
	const clients = 4
	var wg sync.WaitGroup
	for _, form := range forms {
		for range clients {
			wg.Go(func() {
				c, err := b.Dial()
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				a, written := writeUntilCut(c, form.head, form.block, form.send)
				if a.Status != 413 || a.Code() != "body_too_large" {
					t.Errorf("%s: %v", form.name, a)
				}
				// The limit, what Go reads on before it closes, and the sockets' buffers.
				if written > limit+32<<20 {
					t.Errorf("%s: %d bytes were taken", form.name, written)
				}
			})
		}
	}
	wg.Wait()
	after, err := b.RSS()
	if err != nil {
		t.Fatal(err)
	}
	requests := int64(clients * len(forms))
	allowed := requests * 2 * limit
	if broker.RaceWanted() {
		allowed *= 3 // the detector keeps a shadow of the memory
	}
	if growth := after - before; growth > allowed {
		t.Errorf("memory grew by %d bytes over %d requests", growth, requests)
	}
	t.Logf("memory grew by %.1f MB over %d requests at once", float64(after-before)/1e6, requests)
	b.Depth(name, "").WantCode(t, 404, "ephemeral_queue_not_found")
	b.Push(name, "", `1`).Want(t, 201)
}

// TestBodyAtTheLimit: the limit itself is allowed.
func TestBodyAtTheLimit(t *testing.T) {
	t.Parallel()
	const limit = 100_000
	b := broker.Start(t, map[string]string{"QUEEN_MAX_BODY_BYTES": fmt.Sprint(limit)})
	empty := len(broker.PushBody("q", "", `""`))
	for _, extra := range []int{-1, 0, 1} {
		a := b.Push("q", "", `"`+strings.Repeat("x", limit-empty+extra)+`"`)
		if extra <= 0 {
			a.Want(t, 201)
		} else {
			a.WantCode(t, 413, "body_too_large")
		}
	}
}

// TestTrailingData pins HE-02: one JSON value, nothing after it but white space.
func TestTrailingData(t *testing.T) {
	t.Parallel()
	name := queue(t)
	valid := string(broker.PushBody(name, "", `1`))
	for _, body := range []string{
		valid + valid, valid + " garbage", valid + "]", valid + "\x00", valid + "{}", "[1][2]", "[" + valid + "]",
		"\xef\xbb\xbf" + valid, "", " ", "null", `"text"`, "{", valid[:len(valid)-1], valid + ",",
	} {
		a := shared.Post("/api/v1/ephemeral/push", body)
		if a.Status != 400 || a.Code() != "ephemeral_bad_request" {
			t.Errorf("%q: %v", body, a)
		}
	}
	shared.Depth(name, "").WantCode(t, 404, "ephemeral_queue_not_found")
	shared.Post("/api/v1/ephemeral/push", valid+"\n \t\r\n ").Want(t, 201)
	if p := shared.Pop(name, broker.PopOptions{Batch: 10}); p.Payloads() != "1" {
		t.Errorf("pop: %v", p)
	}
}

// TestKeysAreExact pins HE-03: field names are compared as they are, and a duplicate is refused.
func TestKeysAreExact(t *testing.T) {
	t.Parallel()
	name := queue(t)
	a, b := broker.Quote(name+"-a"), broker.Quote(name+"-b")
	// Other spellings are unknown fields, which are ignored: the message is stored in a, never in b.
	shared.Post("/api/v1/ephemeral/push", `{"queue":`+a+`,"QUEUE":`+b+`,"Queue":`+b+`,"messages":[{"payload":1,"PAYLOAD":2,"Payload":3}]}`).Want(t, 201)
	if p := shared.Pop(name+"-a", broker.PopOptions{Batch: 10, AutoAck: true}); p.Payloads() != "1" {
		t.Errorf("pop: %v", p)
	}
	// An escaped name is the same name.
	shared.Post("/api/v1/ephemeral/push", `{"\u0071ueue":`+a+`,"messages":[{"pa\u0079load":2}]}`).Want(t, 201)
	if p := shared.Pop(name+"-a", broker.PopOptions{Batch: 10, AutoAck: true}); p.Payloads() != "2" {
		t.Errorf("pop: %v", p)
	}
	bad := map[string][]string{
		"/api/v1/ephemeral/push": {
			`{"queue":` + a + `,"queue":` + b + `,"messages":[{"payload":1}]}`,
			`{"queue":` + a + `,"\u0071ueue":` + b + `,"messages":[{"payload":1}]}`,
			`{"queue":` + a + `,"partition":"x","partition":"y","messages":[{"payload":1}]}`,
			`{"queue":` + a + `,"messages":[{"payload":1}],"messages":[{"payload":2}]}`,
			`{"queue":` + a + `,"messages":[{"payload":1,"payload":2}]}`,
			`{"QUEUE":` + a + `,"messages":[{"payload":1}]}`,
			`{"queue\u0000":` + a + `,"messages":[{"payload":1}]}`,
			`{"queue":` + a + `,"me\u017f\u017fages":[{"payload":1}],"messages":[{"Payload":1}]}`,
			`{"queue":` + a + `,"messages":{"payload":1}}`,
			`{"queue":` + a + `,"messages":[1]}`,
			`{"queue":7,"messages":[{"payload":1}]}`,
			`{"queue":` + a + `,"partition":7,"messages":[{"payload":1}]}`,
		},
		"/api/v1/ephemeral/ack": {
			`{"queue":` + a + `,"group":"x","group":"y","acks":[]}`,
			`{"queue":` + a + `,"acks":[{"id":"x","id":"y"}]}`,
			`{"queue":` + a + `,"acks":[{"status":"completed"}]}`,
			`{"queue":` + a + `,"acks":[{"id":7}]}`,
			`{"queue":` + a + `,"acks":[{"id":null}]}`,
		},
		"/api/v1/ephemeral/configure": {
			`{"queue":` + b + `,"options":{},"options":{}}`,
			`{"queue":` + b + `,"options":{"maxLength":1,"maxLength":2}}`,
			`{"queue":` + b + `,"options":{"maxlength":1}}`,
			`{"queue":` + b + `,"options":{"windowBuffer":{"ms":1,"size":2}}}`,
			`{"queue":` + b + `,"options":[]}`,
		},
		"/api/v1/ephemeral/reset": {`{"queue":` + a + `,"queue":` + b + `}`, `{}`, `[]`},
	}
	for path, bodies := range bad {
		for _, body := range bodies {
			if got := shared.Post(path, body); got.Status != 400 || got.Code() != "ephemeral_bad_request" {
				t.Errorf("%s %s: %v", path, body, got)
			}
		}
	}
	if p := shared.Pop(name+"-a", broker.PopOptions{Batch: 10}); len(p.Messages) != 0 {
		t.Errorf("a refused push stored %v", p)
	}
	shared.Depth(name+"-b", "").WantCode(t, 404, "ephemeral_queue_not_found")
}

// TestPayloadsComeBackVerbatim pins HE-04 and HE-05 (R4): no number is rewritten, no space, key or escape changed.
func TestPayloadsComeBackVerbatim(t *testing.T) {
	t.Parallel()
	name := queue(t)
	payloads := []string{
		"9007199254740993", "18446744073709551615", "1e400", "-0", "1.0", "1E+2", "0.1000000000000000055511151231257827",
		strings.Repeat("1234567890", 40), "null", "true", `""`, "[]", "{}", `{"b":1,"a":2,"b":3}`, "{ \"a\" :\t[ 1 , 2 ] }",
		`"\ud800"`, `"\udc49\u0430"`, `"\u0000"`, `"\/\u00e9é"`, `{"\ud800":1}`, `"<script>&\u003c"`, "\"\u2028\u2029\"",
	}
	shared.Push(name, "", payloads...).Want(t, 201)
	p := shared.Pop(name, broker.PopOptions{Batch: 100, AutoAck: true})
	if len(p.Messages) != len(payloads) {
		t.Fatalf("got %d of %d", len(p.Messages), len(payloads))
	}
	for i, payload := range payloads {
		// The decoder of the test keeps a raw value as it came, so this compares the bytes on the wire.
		if !bytes.Equal(p.Messages[i].Payload, []byte(payload)) {
			t.Errorf("pushed %s, got %s", payload, p.Messages[i].Payload)
		}
	}
	for _, payload := range payloads {
		shared.Push(name, "", payload).Want(t, 201)
		if p := shared.Pop(name, broker.PopOptions{AutoAck: true}); p.Payloads() != payload {
			t.Errorf("alone: pushed %s, got %s", payload, p.Payloads())
		}
	}
	for _, payload := range []string{"\"\xff\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\n\"", "01", "1.", "+1", "NaN", `"\x"`, "'a'", "tru", "{1:2}", "[1,]", "/**/1", ""} {
		if a := shared.Push(name, "", payload); a.Status != 400 {
			t.Errorf("payload %q: %v", payload, a)
		}
	}
	if d := shared.Depth(name, ""); d.Pending != 0 {
		t.Errorf("a refused push left %v", d)
	}
}

// TestNestingLimit: deep nesting is refused before it costs anything; what is within 512 levels passes.
func TestNestingLimit(t *testing.T) {
	t.Parallel()
	name := queue(t)
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	shared.Push(name, "", nested(500)).Want(t, 201)
	shared.Push(name, "", nested(513)).WantCode(t, 400, "ephemeral_bad_request")
	shared.Push(name, "", strings.Repeat("[", 1_000_000)).WantCode(t, 400, "ephemeral_bad_request")
}

// TestNamesAreNotMended pins HE-05: a name that is no text is refused and never merged with another.
func TestNamesAreNotMended(t *testing.T) {
	t.Parallel()
	name := queue(t)
	for _, bad := range []string{`"a\ud800"`, `"a\udc00b"`, "\"a\xff\"", "\"a\xc0\xaf\"", `"a\u0000"`, `"a\n"`, `"\u007f"`, `""`, `"` + strings.Repeat("n", 513) + `"`} {
		for _, body := range []string{
			`{"queue":` + bad + `,"messages":[{"payload":1}]}`,
			`{"queue":"` + name + `","partition":` + bad + `,"messages":[{"payload":1}]}`,
		} {
			if bad == `""` && strings.Contains(body, "partition") {
				continue // an empty partition is an absent one
			}
			if a := shared.Post("/api/v1/ephemeral/push", body); a.Status != 400 || a.Code() != "ephemeral_bad_request" {
				t.Errorf("%q: %v", body, a)
			}
		}
		if a := shared.Post("/api/v1/ephemeral/configure", `{"queue":`+bad+`,"options":{}}`); a.Status != 400 {
			t.Errorf("configure %q: %v", bad, a)
		}
	}
	shared.Depth(name, "").WantCode(t, 404, "ephemeral_queue_not_found")
	replaced := name + "\ufffd"
	shared.Push(replaced, "", `1`).Want(t, 201)
	if d := shared.Depth(replaced, ""); d.Pending != 1 {
		t.Errorf("depth: %v", d)
	}
}

// TestCompressedBodies pins HE-16: a compressed body is refused before it is expanded.
func TestCompressedBodies(t *testing.T) {
	t.Parallel()
	name := queue(t)
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(broker.PushBody(name, "", `"`+strings.Repeat("a", 8<<20)+`"`)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, encoding := range []string{"gzip", "gzip, gzip", "br", "deflate", "zstd", "unknown", "GZIP"} {
		a := shared.Do(context.Background(), "POST", "/api/v1/ephemeral/push", bytes.NewReader(zipped.Bytes()), "Content-Encoding", encoding)
		if a.Status != 415 || a.Code() != "unsupported_media" {
			t.Errorf("%s: %v", encoding, a)
		}
	}
	shared.Depth(name, "").WantCode(t, 404, "ephemeral_queue_not_found")
}

// TestContentTypeIsIgnored pins HE-08: only the body counts for a push, whatever its type and the query say.
func TestContentTypeIsIgnored(t *testing.T) {
	t.Parallel()
	name := queue(t)
	for i, kind := range []string{"", "text/plain", "application/json;charset=utf-8", "application/vnd.x+json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "nonsense"} {
		var header []string
		if kind != "" {
			header = []string{"Content-Type", kind}
		}
		path := "/api/v1/ephemeral/push?queue=" + name + "-other&maxLength=1&partition=x"
		shared.Do(context.Background(), "POST", path, bytes.NewReader(broker.PushBody(name, "", fmt.Sprint(i))), header...).Want(t, 201)
	}
	if d := shared.Depth(name, ""); d.Pending != 7 || len(d.Partitions) != 1 || d.Partitions[0].Partition != "Default" {
		t.Errorf("depth: %v", d)
	}
	shared.Depth(name+"-other", "").WantCode(t, 404, "ephemeral_queue_not_found")
}
