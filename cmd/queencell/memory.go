package main

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

const (
	// idleBytes is what the Go runtime of an idle broker holds.
	idleBytes = 12 << 20
	// goroutineBytes is what a connection costs that is not in the budget: its stack, its buffers, its request.
	goroutineBytes = 12 << 10
	// collectAt is the growth, in percent, at which the collector runs. Requests leave much garbage beside a small heap,
	// and the limit bounds what a rare collection may let grow.
	collectAt = 400
	// limitStep is the change of the limit that is worth setting it, which stops the world for a moment.
	limitStep = 8 << 20
)

// memoryLimit is the soft limit for the Go runtime's memory. The contract wants the process within 1.5 x the budget plus
// what the idle process takes (contract B6). The collector lets a heap grow to twice what lives in it, so it is this
// limit that keeps the promise:
//
//   - 1.4 x the budget: the queues at their fullest, the bytes in flight, a quarter of the budget by default, and
//     room for the collector. The tenth that is left up to 1.5 is for what the limit does not see and for overshoot,
//     for the limit is soft.
//   - what the bytes in flight may take beyond that quarter, where an operator allowed them more.
//   - what the connections take, which no budget bounds. Without it a broker with very many of them would do nothing
//     but collect.
func memoryLimit(budget, inflight int64, goroutines int) int64 {
	limit := float64(budget)*1.4 + float64(max(0, inflight-budget/4)) + idleBytes + float64(goroutines)*goroutineBytes
	return int64(min(limit, math.MaxInt64/2))
}

// keepMemoryLimit sets the memory limit and follows the number of connections until ctx ends; it puts the limit of
// before back then. Where GOMEMLIMIT is set the operator knows better, and it is not called.
func keepMemoryLimit(ctx context.Context, budget, inflight int64) {
	set := memoryLimit(budget, inflight, runtime.NumGoroutine())
	before := debug.SetMemoryLimit(set)
	defer debug.SetMemoryLimit(before)
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(collectAt))
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		want := memoryLimit(budget, inflight, runtime.NumGoroutine())
		if want-set >= limitStep || set-want >= limitStep {
			debug.SetMemoryLimit(want)
			set = want
		}
	}
}
