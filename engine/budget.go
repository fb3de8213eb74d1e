package engine

import (
	"sync/atomic"
	"unsafe"
)

// What things cost, as the allocator rounds them and with their share of maps, indexes and heaps. A queue's cost
// includes its first group and a ring's its first cursor, and a range of messages pays for one lease block when its
// first message is pushed: so one group can always drain a full broker (contract B6).
const (
	entryCost   = int64(unsafe.Sizeof(entry{}))
	blockCost   = int64(unsafe.Sizeof(block{})) + 24
	segmentCost = int64(unsafe.Sizeof(segment{})) + 16
	chunkCost   = int64(unsafe.Sizeof(chunk{})) + 16
	groupCost   = int64(unsafe.Sizeof(group{})) + 48
	cursorCost  = int64(unsafe.Sizeof(cursor{})) + 96
	ringCost    = int64(unsafe.Sizeof(ring{})) + 64 + cursorCost
	bodyCost    = int64(unsafe.Sizeof(body{})) + 128 + groupCost
	queueCost   = int64(unsafe.Sizeof(queue{})) + 112
	waiterCost  = int64(unsafe.Sizeof(Waiter{})) + 64

	// messageCost is what a message costs beside its payload, once its segment is full.
	messageCost = entryCost + blockCost/rangeSize

	coldRingCost  = int64(unsafe.Sizeof(coldRing{})) + 8
	coldGroupCost = int64(unsafe.Sizeof(coldGroup{})) + 8
)

// bigCost is what a payload with an allocation of its own costs.
func bigCost(n int) int64 {
	if n > 32<<10 {
		return int64(n+8191)&^8191 + 32
	}
	return int64(n + n/8 + 32)
}

// nameCost is what the text of a name costs.
func nameCost(s string) int64 { return int64(len(s)+15) &^ 15 }

// account is a budget: what is used, and the most that may be.
type account struct {
	used  atomic.Int64
	limit atomic.Int64 // 0: none
}

// take adds n unless that passes the limit.
func (a *account) take(n int64) bool {
	used := a.used.Add(n)
	if limit := a.limit.Load(); limit > 0 && used > limit && n > 0 {
		a.used.Add(-n)
		return false
	}
	return true
}

// reserve asks the tenant's allowance and then the broker's budget for n bytes (contract B1). release undoes it.
func (e *Engine) reserve(t *tenant, n int64) error {
	if !t.bytes.take(n) {
		return ErrTenantBytes
	}
	if !e.bytes.take(n) {
		t.bytes.used.Add(-n)
		return ErrBudget
	}
	return nil
}

func (e *Engine) release(t *tenant, n int64) {
	t.bytes.used.Add(-n)
	e.bytes.used.Add(-n)
}

// takeLease asks for the memory of a lease block that the messages did not pay for: the leases of further groups may
// use another quarter of the budget (contract B6).
func (e *Engine) takeLease() bool {
	if e.leases.Add(blockCost) > e.cfg.MaxBytes/4 {
		e.leases.Add(-blockCost)
		return false
	}
	return true
}
