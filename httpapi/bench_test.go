package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/queencell/queencell/engine"
)

// payload is a JSON object of 256 bytes, as a program would send it.
var payload = func() string {
	head := `{"id":12345678,"type":"order.created","at":"2026-01-02T03:04:05Z","items":[{"sku":"A-1","n":2},{"sku":"B-7","n":1}],"note":"`
	return head + strings.Repeat("x", 256-len(head)-2) + `"}`
}()

func pushOf(n int) []byte {
	return []byte(`{"queue":"bench","partition":"p1","messages":[` + strings.Repeat(`{"payload":`+payload+`},`, n-1) + `{"payload":` + payload + `}]}`)
}

func ackOf(n int) []byte {
	item := `{"id":"e:0123456789abcdef:p1:123456","status":"completed"}`
	return []byte(`{"queue":"bench","group":"g","acks":[` + strings.Repeat(item+",", n-1) + item + `]}`)
}

func deliveryOf(n int) *engine.Delivery {
	d := new(engine.Delivery)
	for i := range n {
		d.Messages = append(d.Messages, engine.Delivered{Partition: "p1", Incarnation: 0x123456789abcdef, Seq: uint64(i), Attempts: 1, Payload: []byte(payload)})
	}
	return d
}

// perMessage reports the time for one of n messages.
func perMessage(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/message")
}

func BenchmarkDecodePush(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			body := pushOf(n)
			var s scanner
			var p push
			b.ReportAllocs()
			for b.Loop() {
				if err := p.decode(&s, body); err != nil {
					b.Fatal(err)
				}
			}
			perMessage(b, n)
		})
	}
}

// BenchmarkValid is the standard library's check of the same body, to compare with in one run.
func BenchmarkValid(b *testing.B) {
	body := pushOf(100)
	for b.Loop() {
		if !json.Valid(body) {
			b.Fatal()
		}
	}
	perMessage(b, 100)
}

func BenchmarkDecodeAck(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			body := ackOf(n)
			var s scanner
			var a ack
			b.ReportAllocs()
			for b.Loop() {
				if err := a.decode(&s, body); err != nil {
					b.Fatal(err)
				}
			}
			perMessage(b, n)
		})
	}
}

func BenchmarkRenderPop(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := deliveryOf(n)
			var out []byte
			b.ReportAllocs()
			for b.Loop() {
				out = appendPop(out[:0], "bench", d)
			}
			perMessage(b, n)
		})
	}
}

// nobody is a broker that does nothing.
type nobody struct {
	*fake
	d *engine.Delivery
}

func (*nobody) Push(context.Context, *engine.PushRequest) (Served, error) {
	return Served{Node: "n1", Incarnation: 1, OneRing: true}, nil
}

func (n *nobody) Pop(_ context.Context, _ *engine.PopRequest, _ time.Duration, d *engine.Delivery) (Served, error) {
	d.Messages = append(d.Messages, n.d.Messages...)
	return Served{Node: "n1"}, nil
}

func (*nobody) Ack(_ context.Context, req *engine.AckRequest, outcomes []engine.Outcome) ([]engine.Outcome, Served, error) {
	for range req.Acks {
		outcomes = append(outcomes, engine.OutcomeAcked)
	}
	return outcomes, Served{Node: "n1"}, nil
}

// sink is the cheapest answer.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(int)             {}
func (s *sink) FlushError() error           { return nil }

// BenchmarkHandler is the front-end without net/http and without a broker.
func BenchmarkHandler(b *testing.B) {
	for _, n := range []int{1, 100} {
		for _, c := range []struct {
			name, method, path string
			body               []byte
		}{
			{"push", "POST", pushURL, pushOf(n)},
			{"pop", "GET", popURL + "?queue=bench&group=g&batch=100&wait=true&timeout=1000", nil},
			{"ack", "POST", ackURL, ackOf(n)},
		} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				f := &nobody{newFake(), deliveryOf(n)}
				cfg := testConfig()
				cfg.Enabled = func() bool { return true }
				s, err := New(cfg, f, f, f, slog.New(slog.DiscardHandler))
				if err != nil {
					b.Fatal(err)
				}
				r := httptest.NewRequest(c.method, c.path, nil)
				r.ContentLength = int64(len(c.body))
				body := strings.NewReader(string(c.body))
				r.Body = io.NopCloser(body)
				w := &sink{make(http.Header)}
				b.ReportAllocs()
				for b.Loop() {
					body.Reset(string(c.body))
					clear(w.header)
					s.ServeHTTP(w, r)
				}
				perMessage(b, n)
			})
		}
	}
}

// Nothing is allocated for a message: the second thousand of a batch costs what the first did.
func TestNoAllocationPerMessage(t *testing.T) {
	var s scanner
	var p push
	var a ack
	var out []byte
	for name, run := range map[string]func(n int) func(){
		"push": func(n int) func() { body := pushOf(n); return func() { _ = p.decode(&s, body) } },
		"ack":  func(n int) func() { body := ackOf(n); return func() { _ = a.decode(&s, body) } },
		"pop":  func(n int) func() { d := deliveryOf(n); return func() { out = appendPop(out[:0], "q", d) } },
	} {
		small, large := testing.AllocsPerRun(20, run(10)), testing.AllocsPerRun(20, run(1000))
		if large > small {
			t.Errorf("%s: %v allocations for 10 messages, %v for 1,000", name, small, large)
		}
	}
}

func (s *sink) SetReadDeadline(time.Time) error  { return nil }
func (s *sink) SetWriteDeadline(time.Time) error { return nil }
