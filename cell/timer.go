package cell

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/queencell/queencell/engine"
)

// never is the due time of nothing.
const never = engine.Time(math.MaxInt64)

// minTick is the shortest time between two looks at what is due: many queues have their own times, close together.
const minTick = engine.Time(time.Millisecond)

// timer is how the engine tells the ticking goroutine that something is due earlier than it knew.
type timer struct {
	// due is the earliest time the engine has told since it was last taken.
	due *atomic.Int64
	// ring has one place: a bell that was not heard yet need not be rung again.
	ring chan struct{}
}

func newTimer() timer {
	t := timer{due: new(atomic.Int64), ring: make(chan struct{}, 1)}
	t.due.Store(int64(never))
	return t
}

// alarm is the engine's Config.Alarm. It does not block: the engine's locks are held.
func (t timer) alarm(due engine.Time) {
	for {
		known := t.due.Load()
		if int64(due) >= known {
			return // the bell was rung for an earlier time, and that one was not taken yet
		}
		if t.due.CompareAndSwap(known, int64(due)) {
			break
		}
	}
	select {
	case t.ring <- struct{}{}:
	default:
	}
}

// take returns the earliest time told since the last call.
func (t timer) take() engine.Time { return engine.Time(t.due.Swap(int64(never))) }

// tick does what is due when it is due, until the broker is closed.
func (b *Broker) tick() {
	clock := time.NewTimer(time.Hour)
	defer clock.Stop()
	next, last := b.now(), b.now()-minTick
	for {
		if next == never {
			clock.Stop()
		} else {
			clock.Reset(time.Duration(max(next, last+minTick) - b.now()))
		}
		select {
		case <-b.done:
			return
		case <-clock.C:
			// What is told from here on may or may not be seen by this tick; it stays told, and so is never missed.
			last = b.now()
			next = b.tickOnce()
		case <-b.timer.ring:
		}
		next = min(next, b.timer.take())
	}
}

// tickOnce does what is due now and returns when the next thing is. There may be more due at once than the engine does
// in one call; between the calls others get the engine's locks, and closing is looked for.
func (b *Broker) tickOnce() engine.Time {
	wakes := b.takeWakes()
	next := b.engine.Tick(b.now(), wakes)
	b.signal(wakes)
	return next
}
