package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/queencell/queencell/engine"
)

// one fills a delivery with a message.
func one(d *engine.Delivery, payload []byte) {
	d.Messages = append(d.Messages, engine.Delivered{Partition: "p", Incarnation: 1, Seq: 1, Attempts: 1, Payload: payload})
}

// parking makes a fake whose pops stay until their context ends or let is received from.
func parking() (f *fake, parked chan context.Context, let chan struct{}) {
	f = newFake()
	parked, let = make(chan context.Context, 10), make(chan struct{})
	f.pop = func(ctx context.Context, _ *engine.PopRequest, _ time.Duration, d *engine.Delivery) error {
		parked <- ctx
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-let:
			one(d, []byte("1"))
			return nil
		}
	}
	return f, parked, let
}

func within[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(5 * time.Second):
		t.Fatalf("%s: nothing within 5 s", what)
		panic("unreachable")
	}
}

// eventually waits for a condition that another goroutine is about to make true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 5 s", what)
		}
	}
}

// Case LP-02: that the client of a parked pop has gone is seen at once, whatever body its request had.
func TestDisconnectOfAParkedPop(t *testing.T) {
	f, parked, _ := parking()
	b := start(t, f, nil)
	head := "GET " + popURL + "?queue=q&wait=true HTTP/1.1\r\nHost: a\r\n"
	for what, request := range map[string]string{
		"no body":  head + "\r\n",
		"length":   head + "Content-Length: 5\r\n\r\nhello",
		"chunked":  head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"trailing": head + "Content-Length: 9\r\n\r\n{} trail ",
		"expect":   head + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
	} {
		for _, reset := range []bool{false, true} {
			conn := b.dial(t)
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			ctx := within(t, what, parked)
			if reset {
				_ = conn.SetLinger(0)
			}
			conn.Close()
			within(t, what+": the end of the context", ctx.Done())
		}
	}
	// A body that is larger than anybody needs is not read to the end, and the pop does not park.
	r := b.raw(t, head+"Content-Length: 99999999\r\n\r\n")
	b.wantCode(t, "huge", r, 413, "body_too_large")
	if len(parked) != 0 {
		t.Error("a pop with a huge body has parked")
	}
}

// Contract D9: a client that is seen to have gone gets nothing, not even an empty 200 for the half of it that still reads.
func TestHalfClosedPopIsCut(t *testing.T) {
	f, parked, _ := parking()
	b := start(t, f, nil)
	conn := b.dial(t)
	fmt.Fprintf(conn, "GET %s?queue=q&wait=true HTTP/1.1\r\nHost: a\r\n\r\n", popURL)
	within(t, "parking", parked)
	_ = conn.CloseWrite()
	if got, err := io.ReadAll(conn); len(got) != 0 {
		t.Errorf("got %q, %v", got, err)
	}
}

// Contract D9: what was claimed for a client that goes meanwhile is given back without a trace, and after a byte may have
// been written with one; what it took is not given back.
func TestGiveBack(t *testing.T) {
	f := newFake()
	ctx, cancel := context.WithCancel(context.Background())
	autoAck := false
	f.pop = func(_ context.Context, _ *engine.PopRequest, _ time.Duration, d *engine.Delivery) error {
		one(d, []byte("1"))
		d.AutoAck = autoAck
		return nil
	}
	b := start(t, f, nil)
	serve := func(w http.ResponseWriter) {
		t.Helper()
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				t.Fatal(p)
			}
		}()
		b.server.Handler().ServeHTTP(w, httptest.NewRequest("GET", popURL+"?queue=q", nil).WithContext(ctx))
	}
	given := func(want string) {
		t.Helper()
		got := "none"
		select {
		case traced := <-f.given:
			got = fmt.Sprint(traced)
		default:
		}
		if got != want {
			t.Errorf("given back, traced: %s, want %s", got, want)
		}
	}
	w := httptest.NewRecorder()
	serve(w)
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"payload":1`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	given("none")
	serve(&faulty{ResponseRecorder: httptest.NewRecorder(), writeErr: io.ErrShortWrite})
	given("true")
	serve(&faulty{ResponseRecorder: httptest.NewRecorder(), flushErr: net.ErrClosed})
	given("true")
	serve(&faulty{ResponseRecorder: httptest.NewRecorder(), flushed: cancel})
	given("true")
	ctx, cancel = context.WithCancel(context.Background())
	claim := f.pop
	f.pop = func(c context.Context, r *engine.PopRequest, wait time.Duration, d *engine.Delivery) error {
		cancel()
		return claim(c, r, wait, d)
	}
	w = httptest.NewRecorder()
	serve(w)
	given("false")
	if w.Body.Len() != 0 {
		t.Errorf("written to a client that has gone: %s", w.Body)
	}
	f.take()
	serve(httptest.NewRecorder()) // it has gone before the pop
	b.wantNoCalls(t, "gone before")
	given("none")
	ctx, cancel = context.WithCancel(context.Background())
	autoAck = true
	serve(&faulty{ResponseRecorder: httptest.NewRecorder(), writeErr: io.ErrShortWrite})
	given("none")
	cancel()
}

// faulty is an answer that fails.
type faulty struct {
	*httptest.ResponseRecorder
	writeErr, flushErr error
	flushed            func()
}

func (f *faulty) Write(p []byte) (int, error) {
	if f.writeErr != nil {
		return len(p) / 2, f.writeErr
	}
	return f.ResponseRecorder.Write(p)
}

func (f *faulty) FlushError() error {
	if f.flushed != nil {
		f.flushed()
	}
	return f.flushErr
}

// Case LP-06: a long poll outlives every deadline of the server.
func TestLongPollOutlivesDeadlines(t *testing.T) {
	f, parked, let := parking()
	short := 100 * time.Millisecond
	b := start(t, f, func(c *Config) {
		c.HeaderTimeout, c.BodyTimeout, c.WriteTimeout, c.IdleTimeout = short, short, short, short
	})
	for _, body := range []string{"", "Content-Length: 2\r\n\r\nab"} {
		conn := b.dial(t)
		if body == "" {
			body = "\r\n"
		}
		// A first answer leaves its own write deadline behind.
		fmt.Fprintf(conn, "GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n")
		readReply(t, conn)
		fmt.Fprintf(conn, "GET %s?queue=q&wait=true HTTP/1.1\r\nHost: a\r\n%s", popURL, body)
		ctx := within(t, "parking", parked)
		select {
		case <-ctx.Done():
			t.Fatal("a deadline has ended the pop")
		case <-time.After(5 * short):
		}
		let <- struct{}{}
		if r := readReply(t, conn); r.status != 200 || !strings.Contains(r.body, `"payload":1`) {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
}

// Slow headers and slow bodies are cut off, and have reached nobody.
func TestSlowClientsAreCut(t *testing.T) {
	b := start(t, newFake(), func(c *Config) { c.HeaderTimeout, c.BodyTimeout = 100*time.Millisecond, 100*time.Millisecond })
	conn := b.dial(t)
	io.WriteString(conn, "GET /health HTTP/1.1\r\nHost:")
	if _, err := io.ReadAll(conn); err != nil {
		t.Errorf("slow headers: %v", err)
	}
	for _, head := range []string{"Content-Length: 50", "Transfer-Encoding: chunked"} {
		r := b.raw(t, "POST "+pushURL+" HTTP/1.1\r\nHost: a\r\n"+head+"\r\n\r\n")
		b.wantCode(t, head, r, 400, "ephemeral_bad_request")
	}
	// Also where the route does not want the body.
	if r := b.raw(t, "GET /health HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n"); r.status != 200 {
		t.Errorf("%d", r.status)
	}
	for _, cut := range []string{"Content-Length: 50\r\n\r\n{}", "Transfer-Encoding: chunked\r\n\r\n5\r\nab", "Transfer-Encoding: chunked\r\n\r\nzz\r\n"} {
		conn := b.dial(t)
		io.WriteString(conn, "POST "+pushURL+" HTTP/1.1\r\nHost: a\r\n"+cut)
		_ = conn.CloseWrite()
		b.wantCode(t, cut, readReply(t, conn), 400, "ephemeral_bad_request")
	}
	b.wantNoCalls(t, "slow and cut bodies")
}

// A reader that does not read is cut off after the time that its answer may take, and its messages go back.
func TestSlowReaderIsCut(t *testing.T) {
	f := newFake()
	big := []byte(`"` + strings.Repeat("x", 900_000) + `"`)
	f.pop = func(_ context.Context, _ *engine.PopRequest, _ time.Duration, d *engine.Delivery) error {
		one(d, big)
		return nil
	}
	// The answer's size adds 1 s for each 64 KiB, so the time for it is some seconds below zero here.
	b := start(t, f, func(c *Config) { c.WriteTimeout = time.Millisecond })
	b.server.cfg.WriteTimeout = -13 * time.Second
	conn := b.dial(t)
	_ = conn.SetReadBuffer(4 << 10)
	for range 20 { // more than the sockets take
		fmt.Fprintf(conn, "GET %s?queue=q HTTP/1.1\r\nHost: a\r\n\r\n", popURL)
	}
	if traced := within(t, "the give-back", f.given); !traced {
		t.Error("given back without a trace")
	}
}

// Contract B8: beyond the bound on bytes in flight a body is refused before it is read, and a pop claims nothing or gives
// back what it claimed.
func TestBytesInFlight(t *testing.T) {
	f := newFake()
	f.pop = func(_ context.Context, req *engine.PopRequest, _ time.Duration, d *engine.Delivery) error {
		one(d, []byte(`"`+strings.Repeat("x", 50_000)+`"`))
		d.AutoAck = req.AutoAck
		return nil
	}
	b := start(t, f, func(c *Config) { c.InflightMaxBytes = 100_000 })
	in := &b.server.inflight
	body := func(n int) io.Reader {
		return strings.NewReader(`{"queue":"q","messages":[{"payload":1}]}` + strings.Repeat(" ", n-40))
	}
	refused := func(what string, r reply) {
		t.Helper()
		b.wantCode(t, what, r, 503, "ephemeral_unavailable")
		if r.header.Get("Retry-After") != "1" {
			t.Errorf("%s: no Retry-After", what)
		}
	}
	refused("length", b.do(t, "POST", pushURL, body(100_001)))
	refused("chunked", b.do(t, "POST", pushURL, io.MultiReader(body(200_000))))
	// Refused by its length alone: not a byte of it was sent.
	refused("announced", b.raw(t, "POST "+pushURL+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 100001\r\n\r\n"))
	b.wantNoCalls(t, "refused bodies")
	if r := b.do(t, "POST", pushURL, body(100_000)); r.status != 201 {
		t.Errorf("at the bound: %d", r.status)
	}
	f.take()
	in.force(100_000)
	refused("a pop beyond", b.get(t, popURL+"?queue=q"))
	b.wantNoCalls(t, "a pop beyond")
	in.release(50_001)
	refused("a pop's answer", b.get(t, popURL+"?queue=q"))
	if traced := within(t, "the give-back", f.given); traced {
		t.Error("given back with a trace")
	}
	if r := b.get(t, popURL+"?queue=q&autoAck=true"); r.status != 200 {
		t.Errorf("what is settled is not written: %d", r.status)
	}
	eventually(t, "the answer's bytes are released", func() bool { return in.used.Load() == 49_999 })
	in.release(49_999)
	if r := b.get(t, popURL+"?queue=q"); r.status != 200 || len(f.given) != 0 {
		t.Errorf("%d, %d given back", r.status, len(f.given))
	}
}

// A bug is answered with the id of its log line, once, and without a stack; an answer that has begun is cut off.
func TestPanics(t *testing.T) {
	f := newFake()
	f.push = func(*engine.PushRequest) { panic(errors.New("secret bug")) }
	b := start(t, f, nil)
	for range 3 {
		r := b.do(t, "POST", pushURL, strings.NewReader(`{"queue":"q","messages":[{"payload":1}]}`), "X-Request-Id", "my-id.7")
		b.wantCode(t, "a panic", r, 500, "internal")
		if r.header.Get("X-Request-Id") != "my-id.7" || !strings.Contains(r.body, "my-id.7") ||
			strings.Contains(r.body, "secret") || strings.Contains(r.body, "goroutine") {
			t.Errorf("%v %s", r.header, r.body)
		}
	}
	if n := strings.Count(b.logs.String(), "my-id.7"); n != 3 || !strings.Contains(b.logs.String(), "secret bug") {
		t.Errorf("%d log lines: %s", n, b.logs)
	}
	if strings.Count(b.logs.String(), "\n") != 3 {
		t.Errorf("an event is not one line: %s", b.logs)
	}
	for _, id := range []string{"", "a b", `a"b`, "é", strings.Repeat("x", 129), "a\tb"} {
		r := b.do(t, "POST", pushURL, strings.NewReader(`{"queue":"q","messages":[{"payload":1}]}`), "X-Request-Id", id)
		if got := r.header.Get("X-Request-Id"); len(got) != 16 {
			t.Errorf("%q: the id is %q", id, got)
		}
	}
}
