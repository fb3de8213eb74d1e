package httpapi

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// largeBytes is from when a request's memory is not kept for the next one but left to the garbage collector.
const largeBytes = keepBytes

// inflight counts the bytes of bodies that are being read and of answers that the sockets have not taken yet (contract
// B8).
type inflight struct {
	limit int64
	used  atomic.Int64
	// garbage is what large requests have left behind since it was last collected. It is memory of the process as much
	// as used is, so both together are kept within the limit.
	garbage    atomic.Int64
	collecting sync.Mutex
}

// take adds n bytes, or none and answers false where they would go beyond the limit.
func (f *inflight) take(n int64) bool {
	if f.used.Add(n) > f.limit {
		f.used.Add(-n)
		return false
	}
	return true
}

// Take is take, as the engine asks for the room of an answer. An answer that is alone may pass the limit: a message
// that came in must be able to go out.
func (f *inflight) Take(n int64) bool {
	if used := f.used.Add(n); used > f.limit && used != n {
		f.used.Add(-n)
		return false
	}
	return true
}

// force adds n bytes whatever the limit is: for what can't be refused any more.
func (f *inflight) force(n int64) { f.used.Add(n) }

// full says that nothing more would be taken.
func (f *inflight) full() bool { return f.used.Load() >= f.limit }

// release gives back what a request took.
func (f *inflight) release(n int64) {
	f.used.Add(-n)
	if n >= largeBytes {
		f.garbage.Add(n)
	}
}

// tidy makes sure, before a large piece of memory is made, that what large requests left behind is collected when there
// is too much of it: left to itself the collector may run only once several more such pieces were made.
func (f *inflight) tidy() {
	if f.garbage.Load()+f.used.Load() <= f.limit {
		return
	}
	f.collecting.Lock()
	defer f.collecting.Unlock()
	if n := f.garbage.Load(); n > 0 && n+f.used.Load() > f.limit { // nobody else did it meanwhile
		runtime.GC()
		f.garbage.Add(-n)
	}
}
