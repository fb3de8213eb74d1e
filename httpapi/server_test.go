package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/queencell/queencell/engine"
)

// Draining tells the load balancer and lets every connection end with its next answer; nothing is cut.
func TestDrain(t *testing.T) {
	f, parked, let := parking()
	b := start(t, f, nil)
	idle := b.dial(t)
	fmt.Fprint(idle, "GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
	if r := readReply(t, idle); r.status != 200 || r.closes {
		t.Errorf("%d, closes: %v", r.status, r.closes)
	}
	poll := b.dial(t)
	fmt.Fprintf(poll, "GET %s?queue=q&wait=true HTTP/1.1\r\nHost: a\r\n\r\n", popURL)
	within(t, "parking", parked)
	b.server.Drain()
	fmt.Fprint(idle, "GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
	r := readReply(t, idle)
	if r.status != 503 || !r.closes || r.header.Get("Retry-After") == "" ||
		r.body != `{"status":"draining","node":"n1","store":"up","reason":"the broker is shutting down"}` {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
	if r := b.post(t, pushURL, `{"queue":"q","messages":[{"payload":1}]}`); r.status != 201 {
		t.Errorf("a push while draining: %d", r.status)
	}
	let <- struct{}{}
	if r := readReply(t, poll); r.status != 200 {
		t.Errorf("the parked pop: %d", r.status)
	}
}

func TestHealthStates(t *testing.T) {
	f := newFake()
	f.state = Health{State: Starting, Reason: "the declarations are not loaded", Node: "n1"}
	b := start(t, f, nil)
	want := `{"status":"starting","node":"n1","store":"down","reason":"the declarations are not loaded"}`
	if r := b.get(t, "/health"); r.status != 503 || r.body != want {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// Close waits for what is under way, and cuts it off when its time is over. Every order of calls ends.
func TestClose(t *testing.T) {
	newServer := func(f *fake) (*Server, net.Listener) {
		s, err := New(testConfig(), f, f, f, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return s, l
	}
	s, l := newServer(newFake())
	for range 2 { // before Serve, and twice
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if err := s.Serve(l); err != nil {
		t.Errorf("Serve after Close: %v", err)
	}

	f, parked, _ := parking()
	s, l = newServer(f)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.Serve(l); err != nil {
			t.Error(err)
		}
	})
	dial := func(text string) net.Conn {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(conn, text)
		return conn
	}
	fresh := dial("")
	defer fresh.Close()
	poll := dial("GET " + popURL + "?queue=q&wait=true HTTP/1.1\r\nHost: a\r\n\r\n")
	defer poll.Close()
	within(t, "parking", parked)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("Close took %v: a connection without a request holds it", took)
	}
	if got, _ := io.ReadAll(poll); len(got) != 0 {
		t.Errorf("the pop that was cut off got %q", got)
	}
	serving.Wait()
}

// A connection on which nothing has come does not hold Close: net/http alone would wait for seconds.
func TestCloseWithAFreshConnection(t *testing.T) {
	b := start(t, newFake(), nil)
	conn := b.dial(t)
	eventually(t, "the connection is accepted", func() bool {
		b.server.conns.mu.Lock()
		defer b.server.conns.mu.Unlock()
		return len(b.server.conns.state) == 1
	})
	begin := time.Now()
	if err := b.server.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("Close took %v", took)
	}
	if _, err := io.ReadAll(conn); err != nil {
		t.Error(err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	f := newFake()
	for name, change := range map[string]func(*Config){
		"Node":              func(c *Config) { c.Node = "" },
		"MaxBodyBytes":      func(c *Config) { c.MaxBodyBytes = 0 },
		"InflightMaxBytes":  func(c *Config) { c.InflightMaxBytes = -1 },
		"PopDefaultTimeout": func(c *Config) { c.PopDefaultTimeout = 301 * time.Second },
		"IdleTimeout":       func(c *Config) { c.IdleTimeout = -1 },
		"duplicate": func(c *Config) {
			c.Collectors = []prometheus.Collector{newCollector(f, new(inflight))}
		},
	} {
		cfg := testConfig()
		change(&cfg)
		if _, err := New(cfg, f, f, f, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Case HE-12: large headers.
func TestHeaders(t *testing.T) {
	b := start(t, newFake(), nil)
	for n, want := range map[int]int{8 << 10: 200, 1 << 20: 431, 5 << 20: 431} {
		conn := b.dial(t)
		go func() {
			_, _ = io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: a\r\nX: "+strings.Repeat("x", n)+"\r\n\r\n")
		}()
		if r := readReply(t, conn); r.status != want {
			t.Errorf("a header of %d bytes: %d, want %d", n, r.status, want)
		}
	}
	many := strings.Repeat("X: y\r\n", 5000)
	if r := b.raw(t, "GET /health HTTP/1.1\r\nHost: a\r\n"+many+"\r\n"); r.status != 200 {
		t.Errorf("5,000 headers: %d", r.status)
	}
	if r := b.get(t, "/health"); r.status != 200 {
		t.Errorf("afterwards: %d", r.status)
	}
}

// The names of http.md, in text that parses; no label that a caller can choose (case SE-07).
func TestPrometheus(t *testing.T) {
	b := start(t, newFake(), nil)
	b.post(t, pushURL, `{"queue":"<script>","messages":[{"payload":1}]}`)
	r := b.get(t, "/metrics/prometheus")
	line := regexp.MustCompile(`^([a-z_]+)(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? [-+0-9.eEInfNa]+$`)
	families := make(map[string]int)
	for _, l := range strings.Split(strings.TrimSuffix(r.body, "\n"), "\n") {
		if strings.HasPrefix(l, "# HELP ") || strings.HasPrefix(l, "# TYPE ") {
			continue
		}
		m := line.FindStringSubmatch(l)
		if m == nil {
			t.Fatalf("not a line of the format: %q", l)
		}
		families[m[1]]++
	}
	for name, series := range map[string]int{
		"queen_ephemeral_messages_total": 3, "queen_ephemeral_dropped_total": 3, "queen_ephemeral_forwarded_total": 1,
		"queen_ephemeral_wipes_total": 1, "queen_ephemeral_bytes": 1, "queen_ephemeral_queues": 1,
		"queen_ephemeral_moved_messages_total": 1, "queen_ephemeral_groups_forgotten_total": 1, "queen_parked_long_polls": 1,
		"queen_parked_waiters": 1, "queen_uptime_seconds": 1, "go_goroutines": 1, "process_open_fds": 1,
	} {
		if families[name] != series {
			t.Errorf("%s: %d series, want %d", name, families[name], series)
		}
	}
	for _, line := range []string{`queen_ephemeral_messages_total{verb="push"} 5`, `queen_ephemeral_messages_total{verb="pop"} 6`,
		`queen_ephemeral_messages_total{verb="ack"} 7`, `queen_ephemeral_dropped_total{cause="bounds"} 0`, `queen_parked_long_polls 4`} {
		if !strings.Contains(r.body, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if strings.Contains(r.body, "<script") || r.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Error("a caller's name is shown, or sniffing is allowed")
	}
	if r := b.get(t, "/metrics"); !strings.HasPrefix(r.body, `{"node":"n1","uptimeSeconds":`) || r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// Case SE-07: names that would act in a page, a terminal or a log are data in every answer.
func TestHostileNames(t *testing.T) {
	f := newFake()
	f.pop = func(_ context.Context, req *engine.PopRequest, _ time.Duration, d *engine.Delivery) error {
		d.Messages = append(d.Messages, engine.Delivered{Partition: req.Partition, Incarnation: 1, Seq: 1, Attempts: 1, Payload: []byte("1")})
		return nil
	}
	b := start(t, f, nil)
	r := b.get(t, popURL+`?queue=%3Cscript%3E%22%5C&partition=javascript:%22%C2%9B31m`)
	want := `{"queue":"<script>\"\\","messages":[{"id":"e:0000000000000001:javascript:\"\u009b31m:1","partition":"javascript:\"\u009b31m","attempts":1,"payload":1}]}`
	if r.body != want || r.header.Get("Content-Type") != "application/json" || r.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%v %s", r.header, r.body)
	}
	b.wantCode(t, "CR LF", b.get(t, popURL+"?queue=a%0d%0aSet-Cookie:x"), 400, "ephemeral_bad_request")
}

// Case HE-04, HE-05 and contract R4: a payload is the bytes that were sent.
func TestPayloadsAreKept(t *testing.T) {
	f := newFake()
	f.push = nil
	b := start(t, f, nil)
	for _, p := range []string{"9007199254740993", "18446744073709551615", "1e400", "-0", "1.0", "1E+2", "0.1000000000000000055511151231257827",
		strings.Repeat("7", 400), `"\ud800"`, `"\udc49\u0430"`, `"\ud83d\ude00 é \u0000"`, `{"a":1,"a":2, "b" : [ ] }`, "null", "true", `""`,
		`{"queue":"other"}`, `"\/"`, "[\n\t1 ]"} {
		if r := b.post(t, pushURL, `{"queue":"q","messages":[{"payload": `+p+` }]}`); r.status != 201 {
			t.Errorf("%s: %d %s", p, r.status, r.body)
		}
		if calls := b.take(); len(calls) != 1 || calls[0] != "push "+DefaultTenant+"|q||"+p {
			t.Errorf("%s: %q", p, calls)
		}
	}
	raw := strings.Repeat("\x00\xff\x10", 3000)
	f.push = func(req *engine.PushRequest) {
		if m := req.Messages[0]; !m.Raw || string(m.Payload) != raw {
			t.Errorf("%d raw bytes of %d", len(m.Payload), len(raw))
		}
	}
	text := strings.ReplaceAll(strings.Repeat("AP8Q", 3000), "/", `\/`)
	b.post(t, pushURL, `{"queue":"q","messages":[{"encoding":"base64","payload":"`+text+`"}]}`)
}

// Contract D7, D8: ids and statuses.
func TestAckItems(t *testing.T) {
	f := newFake()
	b := start(t, f, nil)
	id := engine.ID{Incarnation: 7, Partition: "a:b", Seq: 9, Attempt: 2}
	text := string(id.Append(nil))
	for status, verb := range map[string]engine.Verb{
		"": engine.Complete, `,"status":null`: engine.Complete, `,"status":""`: engine.Complete, `,"status":"completed"`: engine.Complete,
		`,"status":"success"`: engine.Complete, `,"status":"acked"`: engine.Complete, `,"status":"ok"`: engine.Complete,
		`,"status":"failed"`: engine.Nack, `,"status":"retry"`: engine.Nack, `,"status":"complete"`: engine.Nack, `,"status":"OK"`: engine.Nack,
		`,"status":"\ud800"`: engine.Nack, `,"status":"\u006fk"`: engine.Complete, `,"status":"ok","error":{"a":[1]}`: engine.Complete,
	} {
		if r := b.post(t, ackURL, `{"queue":"q","acks":[{"id":"`+text+`"`+status+`}]}`); r.status != 200 {
			t.Errorf("%s: %d %s", status, r.status, r.body)
		}
		if len(f.acks) != 1 || f.acks[0] != (engine.Ack{ID: id, Verb: verb}) {
			t.Errorf("%s: %+v", status, f.acks)
		}
	}
	r := b.post(t, ackURL, `{"queue":"q","acks":[{"id":""},{"id":"nonsense"},{"id":"\ud800"},{"id":"e:0000000000000007:\u0061:1"}]}`)
	if len(f.acks) != 4 || !f.acks[0].Invalid || !f.acks[1].Invalid || !f.acks[2].Invalid || f.acks[3].Invalid || f.acks[3].ID.Partition != "a" {
		t.Errorf("%+v", f.acks)
	}
	if !strings.Contains(r.body, `{"id":"\ud800","outcome":"acked"}`) {
		t.Errorf("the ids do not come back as sent: %s", r.body)
	}
}

// What is empty reaches nobody and creates nothing.
func TestEmptyBatches(t *testing.T) {
	b := start(t, newFake(), nil)
	if r := b.post(t, pushURL, `{"queue":"q","messages":[]}`); r.status != 201 || r.body != `{"pushed":0}` {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := b.post(t, ackURL, `{"queue":"q","acks":[]}`); r.status != 200 || r.body != `{"results":[]}` {
		t.Errorf("%d %s", r.status, r.body)
	}
	b.wantNoCalls(t, "empty batches")
}

// The headers that tell where a request was served.
func TestServedHeaders(t *testing.T) {
	f := newFake()
	f.served = Served{Node: "n2", Incarnation: 0xab, OneRing: true}
	b := start(t, f, nil)
	r := b.post(t, pushURL, `{"queue":"q","messages":[{"payload":1}]}`)
	if r.header.Get("Queen-Served-By") != "n2" || r.header.Get("Queen-Incarnation") != "00000000000000ab" {
		t.Errorf("%v", r.header)
	}
	f.served = Served{Node: "n1", Incarnation: 5}
	r = b.get(t, popURL+"?queue=q")
	if r.header.Get("Queen-Served-By") != "n1" || r.header.Get("Queen-Incarnation") != "" {
		t.Errorf("%v", r.header)
	}
}
