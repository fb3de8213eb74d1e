package httpapi

import "sync/atomic"

// inflight counts the bytes of bodies that are being read and of answers that the sockets have not taken yet (contract
// B8).
type inflight struct {
	limit int64
	used  atomic.Int64
}

// take adds n bytes, or none and answers false where they would go beyond the limit.
func (f *inflight) take(n int64) bool {
	if f.used.Add(n) > f.limit {
		f.used.Add(-n)
		return false
	}
	return true
}

// Take is take, as the engine asks for the room of an answer.
func (f *inflight) Take(n int64) bool { return f.take(n) }

// force adds n bytes whatever the limit is: for what can't be refused any more.
func (f *inflight) force(n int64) { f.used.Add(n) }

// full says that nothing more would be taken.
func (f *inflight) full() bool { return f.used.Load() >= f.limit }

func (f *inflight) release(n int64) { f.used.Add(-n) }
