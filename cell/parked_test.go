package cell

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/queencell/queencell/declare"
	"github.com/queencell/queencell/engine"
)

// BenchmarkParked reports what a parked pop holds, heap and stack, above a goroutine that waits for its context alone
// (performance P9).
func BenchmarkParked(b *testing.B) {
	const n = 20_000
	broker := start(b, testConfig(declare.OpenMemory()))
	memory := func(parked int64, wait func(context.Context)) float64 {
		ctx, cancel := context.WithCancel(b.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		before := inUse()
		for range n {
			all.Go(func() { wait(ctx) })
		}
		for runtime.NumGoroutine() < n || broker.System().ParkedPolls < parked {
			runtime.Gosched()
		}
		return float64(inUse()-before) / n
	}
	req := request("q")
	for b.Loop() {
		nothing := memory(0, func(ctx context.Context) { <-ctx.Done() })
		parked := memory(n, func(ctx context.Context) {
			var d engine.Delivery
			_, _ = broker.Pop(ctx, req, time.Hour, &d)
		})
		b.ReportMetric(nothing, "goroutine-B")
		b.ReportMetric(parked-nothing, "more-when-parked-B")
	}
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
