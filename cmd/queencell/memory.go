package main

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// idleBytes is what the Go runtime of an idle broker holds. The pages of the program are as much again, and the
	// limit does not see them.
	idleBytes = 6 << 20
	// goroutineBytes is what a connection costs that is not in the budget: its stack, its buffers, its request.
	goroutineBytes = 12 << 10
	// minCollect and maxCollect bound the growth, in percent, at which the collector runs.
	minCollect, maxCollect = 100, 400
	// limitStep is the change of the limit that is worth setting it, which stops the world for a moment.
	limitStep = 8 << 20
)

// memoryLimit is the soft limit for the Go runtime's memory. The contract wants the process within 1.5 x the budget plus
// what the idle process takes (contract B6). The collector lets a heap grow to twice what lives in it, so it is this
// limit that keeps the promise:
//
//   - 1.2 x the budget: the queues at their fullest and a fifth for garbage. What is left up to 1.5 is for overshoot:
//     the limit is soft, and the bytes in flight, a quarter of the budget by default, may come while the collector runs.
//   - what the bytes in flight may take beyond that quarter, where an operator allowed them more.
//   - what the connections take, which no budget bounds. Without it a broker with very many of them would do nothing
//     but collect.
func memoryLimit(budget, inflight int64, goroutines int) int64 {
	limit := float64(budget)*1.2 + float64(max(0, inflight-budget/4)) + idleBytes + float64(goroutines)*goroutineBytes
	return int64(min(limit, math.MaxInt64/2))
}

// collectPercent is when the collector is to run next. Requests leave much garbage beside a small heap, and collecting
// it at twice the heap takes an eighth of the CPU of a broker with short queues. So garbage may come to a quarter of
// the budget, as long as that is at most four times the heap; a larger heap doubles.
func collectPercent(budget int64) int {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	heap := max(int64(live[0].Value.Uint64()), 1)
	return int(max(minCollect, min(budget/4*100/heap, maxCollect)))
}

// keepMemoryLimit sets the memory limit and follows the number of connections until ctx ends; it puts the limit of
// before back then. Where GOMEMLIMIT is set the operator knows better, and it is not called.
func keepMemoryLimit(ctx context.Context, budget, inflight int64) {
	set := memoryLimit(budget, inflight, runtime.NumGoroutine())
	before := debug.SetMemoryLimit(set)
	defer debug.SetMemoryLimit(before)
	percent := os.Getenv("GOGC") == ""
	if percent {
		defer debug.SetGCPercent(debug.SetGCPercent(maxCollect))
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if percent {
			debug.SetGCPercent(collectPercent(budget))
		}
		want := memoryLimit(budget, inflight, runtime.NumGoroutine())
		if want-set >= limitStep || set-want >= limitStep {
			debug.SetMemoryLimit(want)
			set = want
		}
	}
}
