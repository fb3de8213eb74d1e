package engine

import (
	"sync"

	"github.com/google/btree"
)

// tenant is one tenant's allowance and the index of its queues by name. Its lock is a leaf.
type tenant struct {
	name  string
	bytes account

	mu        sync.RWMutex
	byName    *btree.BTreeG[*queue] // guarded by mu
	maxQueues int64                 // guarded by mu; 0: no limit
	limited   bool                  // guarded by mu; limits were set
	dead      bool                  // guarded by mu
}

// indexDegree makes the nodes of the index large enough that a queue's share of them is little more than its pointer.
const indexDegree = 64

func lessName(a, b *queue) bool { return a.name < b.name }

// tenants are the tenants that have a queue or limits.
type tenants struct {
	mu     sync.RWMutex
	byName map[string]*tenant // guarded by mu
}

// get returns the tenant's record, making it when there is none.
func (t *tenants) get(name string) *tenant {
	t.mu.RLock()
	x := t.byName[name]
	t.mu.RUnlock()
	if x != nil {
		return x
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if x = t.byName[name]; x == nil {
		x = &tenant{name: name, byName: btree.NewG(indexDegree, lessName)}
		t.byName[name] = x
	}
	return x
}

func (t *tenants) peek(name string) *tenant {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byName[name]
}

// drop gives the record of a tenant up that has neither queues nor limits.
func (t *tenants) drop(x *tenant) {
	x.mu.RLock()
	keep := x.limited || x.byName.Len() > 0
	x.mu.RUnlock()
	if keep {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.limited || x.byName.Len() > 0 || x.dead || x.bytes.used.Load() != 0 {
		return
	}
	x.dead = true
	delete(t.byName, x.name)
}

// add puts a queue into the index. It answers false without an error when the record was given up meanwhile.
func (t *tenant) add(q *queue) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dead {
		return false, nil
	}
	if t.maxQueues > 0 && int64(t.byName.Len()) >= t.maxQueues {
		return false, ErrTenantQueues
	}
	t.byName.ReplaceOrInsert(q)
	return true, nil
}

func (t *tenant) remove(q *queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byName.Delete(q)
}

// SetLimits sets a tenant's allowances; nil takes them away. What is there already stays.
func (e *Engine) SetLimits(name string, l *Limits) {
	for {
		t := e.tenants.get(name)
		t.mu.Lock()
		if t.dead {
			t.mu.Unlock()
			continue
		}
		t.limited = l != nil
		if l == nil {
			l = &Limits{}
		}
		t.maxQueues = l.MaxQueues
		t.bytes.limit.Store(l.MaxBytes)
		t.mu.Unlock()
		e.tenants.drop(t)
		return
	}
}

// Usage is the tenant's footprint in bytes.
func (e *Engine) Usage(name string) int64 {
	if t := e.tenants.peek(name); t != nil {
		return t.bytes.used.Load()
	}
	return 0
}
