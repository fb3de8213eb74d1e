package cell

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/queencell/queencell/engine"
)

// waiter is a pop that waits in this broker. A hundred thousand of them may wait at once, so there is one channel for
// all reasons to wake, and the timer is one that runs a function and has no channel of its own.
//
// A waiter is used again, and a timer that was stopped too late, or the second half of answer, may wake its next user.
// So a wake-up means nothing but "look again": what counts is answered, the clock, and whether the broker drains.
type waiter struct {
	parked engine.Waiter
	// wakeup has one place.
	wakeup chan struct{}
	// answered is set once the engine has answered the waiter in another goroutine's call.
	answered atomic.Bool
	timeout  *time.Timer

	next, prev *waiter // guarded by line.mu
}

// wake makes who waits look again.
func (w *waiter) wake() {
	select {
	case w.wakeup <- struct{}{}:
	default:
	}
}

// answer tells who waits that the engine has answered.
func (w *waiter) answer() {
	w.answered.Store(true)
	w.wake()
}

// takeWaiter returns a waiter that is not in use. releaseWaiter takes it back.
func (b *Broker) takeWaiter() *waiter {
	if w, ok := b.waiters.Get().(*waiter); ok {
		return w
	}
	w := &waiter{wakeup: make(chan struct{}, 1)}
	w.parked.Owner = w
	return w
}

// releaseWaiter may be called once nobody will call answer for w any more.
func (b *Broker) releaseWaiter(w *waiter) {
	if w.timeout != nil {
		w.timeout.Stop()
	}
	w.answered.Store(false)
	w.parked.Delivery, w.parked.Err = engine.Delivery{}, nil
	b.waiters.Put(w)
}

// wakeAfter wakes w once d has passed.
func (w *waiter) wakeAfter(d time.Duration) {
	if w.timeout == nil {
		w.timeout = time.AfterFunc(d, w.wake)
	} else {
		w.timeout.Reset(d)
	}
}

// line is everybody who waits in this broker, so that a drain finds them. Who gets a message first is the engine's
// affair.
type line struct {
	mu   sync.Mutex
	head *waiter // guarded by mu
	n    atomic.Int64
}

func (l *line) join(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.prev, w.next = nil, l.head
	if l.head != nil {
		l.head.prev = w
	}
	l.head = w
	l.n.Add(1)
}

func (l *line) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		l.head = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
	l.n.Add(-1)
}

// wakeAll makes everybody look again. It only fills places in channels, so the lock is not held for long.
func (l *line) wakeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := l.head; w != nil; w = w.next {
		w.wake()
	}
}

// len is how many wait.
func (l *line) len() int64 { return l.n.Load() }
