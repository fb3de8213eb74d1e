package declare

import (
	"bytes"
	"context"
	"sync"
)

// Memory is a store that lives and dies with its process.
type Memory struct {
	mu           sync.RWMutex
	closed       bool                 // guarded by mu
	version      uint64               // guarded by mu
	sw           Switch               // guarded by mu
	declarations map[name]Declaration // guarded by mu; their Options are never written again
	// log is the last ChangesKept writes: the one at index i took version-len(log)+1+i.
	log []change // guarded by mu
}

type name struct{ tenant, queue string }

type changeKind uint8

const (
	changePut changeKind = iota + 1
	changeDelete
	changeSwitch
)

type change struct {
	kind changeKind
	name name // not of a switch
}

// OpenMemory returns an empty store.
func OpenMemory() *Memory {
	return &Memory{sw: Switch{Enabled: true}, declarations: make(map[name]Declaration)}
}

// Load implements Store.
func (m *Memory) Load(ctx context.Context, since uint64) (Snapshot, error) {
	s, err := m.copySince(ctx, since)
	if err != nil {
		return Snapshot{}, err
	}
	// Outside the lock: what takes time must not hold up writers.
	for i := range s.Declarations {
		s.Declarations[i].Options = bytes.Clone(s.Declarations[i].Options)
	}
	sortByVersion(s.Declarations)
	return s, nil
}

func (m *Memory) copySince(ctx context.Context, since uint64) (Snapshot, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.usable(ctx); err != nil {
		return Snapshot{}, err
	}
	s := Snapshot{Version: m.version, Switch: m.sw}
	if !canTell(since, m.version) {
		s.Full = true
		s.Declarations = make([]Declaration, 0, len(m.declarations))
		for _, d := range m.declarations {
			s.Declarations = append(s.Declarations, d)
		}
		return s, nil
	}
	first := m.version - uint64(len(m.log)) + 1
	for v := since + 1; v <= m.version; v++ {
		c := m.log[v-first]
		switch c.kind {
		case changePut:
			// A later write to the same queue stands further on in the log.
			if d := m.declarations[c.name]; d.Version == v {
				s.Declarations = append(s.Declarations, d)
			}
		case changeDelete:
			s.Deleted = append(s.Deleted, Deletion{Tenant: c.name.tenant, Queue: c.name.queue, Version: v})
		}
	}
	return s, nil
}

// Put implements Store.
func (m *Memory) Put(ctx context.Context, tenant, queue string, options []byte) (uint64, error) {
	if err := checkNames(tenant, queue); err != nil {
		return 0, err
	}
	if err := checkOptions(options); err != nil {
		return 0, err
	}
	d := Declaration{Tenant: tenant, Queue: queue, Options: bytes.Clone(options)}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(ctx); err != nil {
		return 0, err
	}
	n := name{tenant, queue}
	d.Version = m.record(change{changePut, n})
	m.declarations[n] = d
	return d.Version, nil
}

// Delete implements Store.
func (m *Memory) Delete(ctx context.Context, tenant, queue string) (bool, uint64, error) {
	if err := checkNames(tenant, queue); err != nil {
		return false, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(ctx); err != nil {
		return false, 0, err
	}
	n := name{tenant, queue}
	if _, ok := m.declarations[n]; !ok {
		return false, m.version, nil
	}
	delete(m.declarations, n)
	return true, m.record(change{changeDelete, n}), nil
}

// SetSwitch implements Store.
func (m *Memory) SetSwitch(ctx context.Context, enabled bool) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(ctx); err != nil {
		return 0, err
	}
	m.sw = Switch{Enabled: enabled, Version: m.record(change{kind: changeSwitch})}
	return m.sw.Version, nil
}

// Close implements Store and lets go of the contents. It never fails.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.declarations, m.log = true, nil, nil
	return nil
}

// record takes the next version for c. The caller holds mu.
func (m *Memory) record(c change) uint64 {
	if len(m.log) == ChangesKept {
		copy(m.log, m.log[1:])
		m.log = m.log[:ChangesKept-1]
	}
	m.log = append(m.log, c)
	m.version++
	return m.version
}

// usable is asked under mu, so that a context that ended during the wait for it changes nothing.
func (m *Memory) usable(ctx context.Context) error {
	if m.closed {
		return unavailable(errClosed)
	}
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	return nil
}
