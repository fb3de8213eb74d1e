package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/queencell/queencell/engine"
)

// fake records what reaches the broker and answers as it was told.
type fake struct {
	mu    sync.Mutex
	calls []string // guarded by mu
	// err is what every call returns.
	err      error
	served   Served
	disabled bool
	push     func(*engine.PushRequest)
	pop      func(ctx context.Context, req *engine.PopRequest, wait time.Duration, d *engine.Delivery) error
	acks     []engine.Ack
	outcomes []engine.Outcome
	settings engine.Settings
	sent     []byte
	enabled  []bool
	queues   QueuesAnswer
	depthOf  map[string]DepthAnswer
	state    Health
	given    chan bool // GiveBack's traced
}

func newFake() *fake {
	return &fake{served: Served{Node: "n1"}, state: Health{State: OK, Node: "n1", StoreUp: true}, given: make(chan bool, 100)}
}

func (f *fake) record(call string, parts ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call+" "+strings.Join(parts, "|"))
}

// take returns the calls since the last time.
func (f *fake) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

func (f *fake) Push(_ context.Context, req *engine.PushRequest) (Served, error) {
	parts := []string{req.Tenant, req.Queue, req.Partition}
	for _, m := range req.Messages {
		p := string(m.Payload)
		if m.Raw {
			p = "raw:" + p
		}
		if len(p) > 1000 {
			p = p[:1000]
		}
		parts = append(parts, p)
	}
	f.record("push", parts...)
	if f.push != nil {
		f.push(req)
	}
	return f.served, f.err
}

func (f *fake) Pop(ctx context.Context, req *engine.PopRequest, wait time.Duration, d *engine.Delivery) (Served, error) {
	f.record("pop", req.Tenant, req.Queue, req.Partition, req.Group)
	if f.pop != nil {
		if err := f.pop(ctx, req, wait, d); err != nil {
			return f.served, err
		}
	}
	return f.served, f.err
}

func (f *fake) Ack(_ context.Context, req *engine.AckRequest, outcomes []engine.Outcome) ([]engine.Outcome, Served, error) {
	f.record("ack", req.Tenant, req.Queue, req.Group)
	f.mu.Lock()
	f.acks = append([]engine.Ack(nil), req.Acks...)
	f.mu.Unlock()
	if f.outcomes != nil {
		return append(outcomes, f.outcomes...), f.served, f.err
	}
	for range req.Acks {
		outcomes = append(outcomes, engine.OutcomeAcked)
	}
	return outcomes, f.served, f.err
}

func (f *fake) GiveBack(_ *engine.Delivery, traced bool) { f.given <- traced }

func (f *fake) Configure(_ context.Context, tenant, queue string, s engine.Settings, sent []byte) (Served, error) {
	f.record("configure", tenant, queue, string(sent))
	f.settings, f.sent = s, sent
	return f.served, f.err
}

func (f *fake) Reset(_ context.Context, tenant, queue string) (int64, Served, error) {
	f.record("reset", tenant, queue)
	return 3, f.served, f.err
}

func (f *fake) Delete(_ context.Context, tenant, queue string) (bool, bool, Served, error) {
	f.record("delete", tenant, queue)
	return true, false, f.served, f.err
}

func (f *fake) SetEnabled(_ context.Context, enabled bool) error {
	f.record("switch")
	if f.err == nil {
		f.enabled = append(f.enabled, enabled)
	}
	return f.err
}

func (f *fake) Queues(_ context.Context, tenant, prefix, after string, limit int) (QueuesAnswer, error) {
	f.record("queues", tenant, prefix, after)
	return f.queues, f.err
}

func (f *fake) Depth(_ context.Context, tenant, queue, group, after string, limit int) (DepthAnswer, bool, error) {
	f.record("depth", tenant, queue, group, after)
	d, ok := f.depthOf[queue]
	return d, ok, f.err
}

func (f *fake) System() System {
	return System{Node: "n1", Enabled: !f.disabled, Epoch: 7, StoreUp: true, Started: time.Now(), ParkedPolls: 4,
		Engine: engine.Stats{Bytes: 10, MaxBytes: 20, Queues: 2, Pushed: 5, Popped: 6, Acked: 7}}
}

func (f *fake) Health() Health { return f.state }

func (f *fake) Cell() Cell {
	self := Member{Node: "n1", URL: "http://n1:6632", Epoch: "ab", Share: 1, Self: true}
	return Cell{Name: "c", Node: "n1", RingVersion: "v", Slots: 4093, Members: []Member{self},
		Owner: func(_, _, _ string) Member { return self }}
}

// logs collects log lines.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// bench is a server on a socket in front of a fake.
type bench struct {
	*fake
	server *Server
	addr   string
	url    string
	logs   *logs
	client *http.Client
}

func testConfig() Config {
	return Config{Node: "n1", MaxBodyBytes: 1 << 20, InflightMaxBytes: 64 << 20, PopDefaultTimeout: 30 * time.Second}
}

func start(t testing.TB, f *fake, change func(*Config), broker ...Broker) *bench {
	t.Helper()
	var traffic Broker = f
	if len(broker) > 0 {
		traffic = broker[0]
	}
	cfg := testConfig()
	if change != nil {
		change(&cfg)
	}
	l := new(logs)
	s, err := New(cfg, traffic, f, f, slog.New(slog.NewTextHandler(l, nil)))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(listener) }()
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if used := s.inflight.used.Load(); used != 0 {
			t.Errorf("%d bytes are still in flight", used)
		}
	})
	return &bench{fake: f, server: s, addr: listener.Addr().String(), url: "http://" + listener.Addr().String(), logs: l,
		client: &http.Client{Transport: transport, Timeout: 20 * time.Second}}
}

// reply is an answer that has been read.
type reply struct {
	status int
	header http.Header
	body   string
	closes bool // the connection ends with it
}

func (b *bench) do(t testing.TB, method, path string, body io.Reader, headers ...string) reply {
	t.Helper()
	req, err := http.NewRequest(method, b.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return reply{resp.StatusCode, resp.Header, string(text), resp.Close}
}

func (b *bench) post(t testing.TB, path, body string) reply {
	t.Helper()
	return b.do(t, "POST", path, strings.NewReader(body))
}

func (b *bench) get(t testing.TB, path string) reply {
	t.Helper()
	return b.do(t, "GET", path, nil)
}

// wantCode checks a failure: its status, its code, its form, and that nothing reached the broker.
func (b *bench) wantCode(t testing.TB, what string, r reply, status int, code string) {
	t.Helper()
	var e map[string]string
	if err := json.Unmarshal([]byte(r.body), &e); err != nil || len(e) != 2 || e["error"] == "" {
		t.Errorf("%s: the body is %q", what, r.body)
	}
	if r.status != status || e["code"] != code {
		t.Errorf("%s: %d %s, want %d %s", what, r.status, r.body, status, code)
	}
	if ct := r.header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("%s: Content-Type is %q", what, ct)
	}
	if r.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s: no nosniff", what)
	}
}

func (b *bench) wantNoCalls(t testing.TB, what string) {
	t.Helper()
	if calls := b.take(); calls != nil {
		t.Errorf("%s: reached the broker: %q", what, calls)
	}
}

// body is nil for "", so that no body is sent at all.
func body(s string) io.Reader {
	if s == "" {
		return nil
	}
	return strings.NewReader(s)
}

// raw sends text as it is over a connection of its own and reads the answer.
func (b *bench) raw(t testing.TB, text string) reply {
	t.Helper()
	conn := b.dial(t)
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return readReply(t, conn)
}

// dial opens a connection that does not outlive the test.
func (b *bench) dial(t testing.TB) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	return conn.(*net.TCPConn)
}

func readReply(t testing.TB, conn net.Conn) reply {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("no whole answer: %v", err)
	}
	return reply{resp.StatusCode, resp.Header, string(text), resp.Close}
}
