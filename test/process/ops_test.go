package process

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/queencell/queencell/test/internal/broker"
)

// createQueues makes n implicit queues named prefix-00000 and so on, by pushes when payload is not empty.
func createQueues(t *testing.T, b *broker.Broker, prefix string, n int, payload string) {
	t.Helper()
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := w; i < n; i += 16 {
				name := fmt.Sprintf("%s-%06d", prefix, i)
				var a broker.Answer
				if payload == "" {
					a = b.Pop(name, broker.PopOptions{Group: fmt.Sprintf("g%d", i%5000)}).Answer
				} else {
					a = b.Push(name, "", payload)
				}
				if a.Status/100 != 2 {
					t.Errorf("make %s: %v", name, a)
					return
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// TestManyQueues pins OP-03 and OP-05: the number of metric series does not depend on the number of queues, the list is
// paged and sorted and quick, and the totals do not go back when the queues are collected.
func TestManyQueues(t *testing.T) {
	n := scaled(50_000, 12_000)
	b := broker.Start(t, map[string]string{"QUEEN_EPHEMERAL_IMPLICIT_IDLE_S": "20"})
	b.Push("used", "", `1`).Want(t, 201)
	b.Pop("used", broker.PopOptions{AutoAck: true})
	before, err := b.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	createQueues(t, b, "many", n, "")
	start := time.Now()
	during, err := b.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	between(t, "scraped", time.Since(start), 0, slow(time.Second))
	if len(during) > len(before)+40 {
		t.Errorf("%d series before, %d with %d queues", len(before), len(during), n)
	}
	for series := range during {
		if strings.Contains(series, "many-") {
			t.Errorf("a queue's name is a label: %s", series)
		}
	}
	if got := during["queen_ephemeral_queues"]; got < float64(n) {
		t.Errorf("%v queues in the metrics, want %d", got, n)
	}
	listAll(t, b, n)
	broker.Eventually(t, 60*time.Second, func() string {
		m, err := b.Metrics()
		if err != nil {
			return err.Error()
		}
		for name, value := range during {
			if strings.HasPrefix(name, "queen_") && strings.Contains(name, "_total") && m[name] < value {
				t.Errorf("%s went from %v to %v", name, value, m[name])
			}
		}
		if m["queen_ephemeral_queues"] != 0 || m["queen_ephemeral_bytes"] != 0 {
			return fmt.Sprintf("%v queues, %v bytes", m["queen_ephemeral_queues"], m["queen_ephemeral_bytes"])
		}
		return ""
	})
}

// listAll reads the list in pages and compares it with what there must be.
func listAll(t *testing.T, b *broker.Broker, n int) {
	t.Helper()
	start := time.Now()
	first := b.Queues("many-", "", 0)
	between(t, "listed", time.Since(start), 0, slow(2*time.Second))
	if len(first.Queues) != 10_000 || first.Count != int64(n) || first.Next != first.Queues[9_999].Queue {
		t.Errorf("the first page has %d of %d, next %q", len(first.Queues), first.Count, first.Next)
	}
	var names []string
	after := ""
	for pages := 0; pages < n/7000+2; pages++ {
		q := b.Queues("many-", after, 7000)
		if q.Status != 200 || q.Count != int64(n) {
			t.Fatalf("page after %q: %d queues of %d", after, len(q.Queues), q.Count)
		}
		for _, info := range q.Queues {
			names = append(names, info.Queue)
		}
		if after = q.Next; after == "" {
			break
		}
	}
	if len(names) != n || !slices.IsSorted(names) || len(slices.Compact(names)) != n {
		t.Errorf("%d names in pages, want %d, sorted and once each", len(names), n)
	}
	// In pages of a small prefix it is quick, too.
	start = time.Now()
	if q := b.Queues("many-0001", "", 0); q.Count != 100 || len(q.Queues) != 100 {
		t.Errorf("a prefix lists %d of %d", len(q.Queues), q.Count)
	}
	between(t, "listed a prefix", time.Since(start), 0, slow(time.Second))
}

// TestMemoryComesBack pins OP-04 in a short form: a drained backlog is given back.
func TestMemoryComesBack(t *testing.T) {
	total, block := scaled(100<<20, 40<<20), 64<<10
	b := broker.Start(t, map[string]string{
		"QUEEN_EPHEMERAL_QUEUE_MAX_BYTES": "268435456", "QUEEN_EPHEMERAL_MAX_BYTES": "268435456",
	})
	payload := `"` + strings.Repeat("x", block-2) + `"`
	pass := func() { // work that costs the collector something and leaves nothing
		b.Push("warm", "", payload).Want(t, 201)
		if p := b.Pop("warm", broker.PopOptions{AutoAck: true}); len(p.Messages) != 1 {
			t.Fatalf("pop: %v", p)
		}
	}
	for range 200 {
		pass()
	}
	memory := func() (heap, rss, held float64) {
		m, err := b.Metrics()
		if err != nil {
			t.Fatal(err)
		}
		return m["go_memstats_heap_inuse_bytes"], m["process_resident_memory_bytes"], m["queen_ephemeral_bytes"]
	}
	heapBefore, rssBefore, _ := memory()
	batch := slices.Repeat([]string{payload}, 16)
	for pushed := 0; pushed < total; pushed += 16 * block {
		b.Push("q", "", batch...).Want(t, 201)
	}
	heapFull, rssFull, held := memory()
	if held < float64(total) || held > 1.1*float64(total) {
		t.Errorf("%.1f MB are held, the broker counts %.1f MB", float64(total)/1e6, held/1e6)
	}
	for {
		p := b.Pop("q", broker.PopOptions{Batch: 100, AutoAck: true})
		if p.Status != 200 {
			t.Fatalf("pop: %v", p)
		}
		if len(p.Messages) == 0 {
			break
		}
	}
	broker.Eventually(t, slow(40*time.Second), func() string {
		for range 20 {
			pass()
		}
		heap, rss, held := memory()
		// The race detector never gives its shadow of the memory back.
		resident := !broker.RaceWanted() && rss > rssBefore+0.3*float64(total)
		if heap > heapBefore+0.1*float64(total) || resident || held > 1<<20 {
			return fmt.Sprintf("MB: heap %.1f → %.1f → %.1f, resident %.1f → %.1f → %.1f, held %.1f", heapBefore/1e6,
				heapFull/1e6, heap/1e6, rssBefore/1e6, rssFull/1e6, rss/1e6, held/1e6)
		}
		return ""
	})
}

// TestLogsHoldNoPayload pins OP-10: neither traffic nor refusals write what clients sent, nor a line per request.
func TestLogsHoldNoPayload(t *testing.T) {
	t.Parallel()
	const marker = "MARKER-51b0d2"
	b := broker.Start(t, nil)
	for range 50 {
		b.Push("q", "", `"`+marker+`"`).Want(t, 201)
		p := b.Pop("q", broker.PopOptions{})
		b.Ack("q", "", "failed", p.IDs()...)
		for _, body := range []string{
			`{"queue":"q","messages":[{"payload":"` + marker + `"}]} trailing`,
			`{"queue":"q","messages":[{"payload":"` + marker + "\xff" + `"}]}`,
			`{"queue":"q","messages":[{"payload":"` + marker,
			marker,
		} {
			a := b.Post("/api/v1/ephemeral/push", body)
			a.WantCode(t, 400, "ephemeral_bad_request")
			if bytes.Contains(a.Body, []byte(marker)) {
				t.Errorf("a refusal repeats the payload: %v", a)
			}
		}
		b.Post("/api/v1/ephemeral/ack", `{"queue":"q","acks":[{"id":"x","error":"`+marker+`"}]}`).Want(t, 200)
	}
	b.Push("q\x1b[31m", "", `1`).WantCode(t, 400, "ephemeral_bad_request")
	logs := b.Logs()
	if strings.Contains(logs, marker) {
		t.Errorf("the log holds a payload:\n%s", logs)
	}
	if n := strings.Count(logs, "\n"); n > 20 {
		t.Errorf("%d lines for a start and ordinary traffic:\n%s", n, logs)
	}
}

// TestProbesUnderPressure pins OP-08: a full broker is alive and answers its probes quickly.
func TestProbesUnderPressure(t *testing.T) {
	t.Parallel()
	b := broker.Start(t, map[string]string{"QUEEN_EPHEMERAL_MAX_BYTES": "16777216"})
	payload := `"` + strings.Repeat("x", 100_000) + `"`
	refused := false
	for i := 0; i < 400 && !refused; i++ {
		switch a := b.Push("q", "", payload); a.Status {
		case 201:
		case 503, 429:
			refused = true
			if a.Header.Get("Retry-After") == "" {
				t.Errorf("no Retry-After: %v", a)
			}
		default:
			t.Fatalf("push: %v", a)
		}
	}
	if !refused {
		t.Fatal("40 MB fitted into 16 MiB")
	}
	for _, path := range []string{"/health", "/health/live", "/metrics", "/metrics/prometheus", "/api/v1/ephemeral/queues"} {
		start := time.Now()
		b.Get(path).Want(t, 200)
		between(t, path+" answered", time.Since(start), 0, slow(200*time.Millisecond))
	}
	// One group can always drain a full broker, and there is room again at once (B2).
	p := b.Pop("q", broker.PopOptions{Batch: 10})
	if len(p.Messages) == 0 {
		t.Fatalf("pop: %v", p)
	}
	b.Ack("q", "", "", p.IDs()...).Want(t, 200)
	b.Push("q", "", payload).Want(t, 201)
}

// TestKillSwitch: paused traffic is refused, a parked pop stays and gets nothing, status goes on.
func TestKillSwitch(t *testing.T) {
	t.Parallel()
	b := broker.Start(t, nil)
	c := park(t, b, 1, "q", broker.PopOptions{Wait: true, Timeout: 1500 * time.Millisecond})[0]
	b.Post("/api/v1/system/ephemeral", `{"enabled":false}`).Want(t, 200)
	a := b.Push("q", "", `1`)
	a.WantCode(t, 503, "ephemeral_disabled")
	if a.Header.Get("Retry-After") == "" {
		t.Errorf("no Retry-After: %v", a)
	}
	b.Pop("q", broker.PopOptions{}).WantCode(t, 503, "ephemeral_disabled")
	b.Configure("q", `{}`).WantCode(t, 503, "ephemeral_disabled")
	b.Get("/health").Want(t, 200)
	b.Get("/api/v1/system/ephemeral").Want(t, 200)
	if p := broker.AsPop(c.Receive(5 * time.Second)); p.Status != 200 || len(p.Messages) != 0 {
		t.Errorf("the parked pop: %v", p)
	}
	b.Post("/api/v1/system/ephemeral", `{"enabled":"yes"}`).WantCode(t, 400, "ephemeral_bad_request")
	b.Post("/api/v1/system/ephemeral", `{"enabled":true}`).Want(t, 200)
	b.Push("q", "", `1`).Want(t, 201)
}

// TestQuotas pins E6: one group and one partition more than allowed are refused, and change nothing.
func TestQuotas(t *testing.T) {
	t.Parallel()
	b := broker.Start(t, map[string]string{"QUEEN_EPHEMERAL_MAX_GROUPS": "2", "QUEEN_EPHEMERAL_MAX_PARTITIONS": "2"})
	b.Push("q", "a", `1`).Want(t, 201)
	b.Push("q", "b", `1`).Want(t, 201)
	b.Push("q", "c", `1`).WantCode(t, 403, "ephemeral_quota_exceeded")
	b.Pop("q", broker.PopOptions{Group: "1"}).Want(t, 200)
	b.Pop("q", broker.PopOptions{Group: "2"}).Want(t, 200)
	b.Pop("q", broker.PopOptions{Group: "3"}).WantCode(t, 403, "ephemeral_quota_exceeded")
	if q := b.Queues("", "", 0).Find("q"); q == nil || q.Groups != 2 || q.Partitions != 2 || q.Depth != 2 {
		t.Errorf("listed: %+v", q)
	}
}
