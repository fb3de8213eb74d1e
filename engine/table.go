package engine

// keyed is an element of a table: it has a key and keeps its position.
type keyed[K comparable] interface {
	key() K
	place() *int32
}

// table finds elements by key and lists them in no order. It is a plain slice while it is small, as almost all are,
// and has a map beside it when it is not.
type table[K comparable, V keyed[K]] struct {
	items []V
	m     map[K]V
	peak  int
}

// tableLinear is how many elements are searched one by one.
const tableLinear = 8

func (t *table[K, V]) len() int { return len(t.items) }

func (t *table[K, V]) get(k K) (v V, ok bool) {
	if t.m != nil {
		v, ok = t.m[k]
		return v, ok
	}
	for _, x := range t.items {
		if x.key() == k {
			return x, true
		}
	}
	return v, false
}

func (t *table[K, V]) add(v V) {
	*v.place() = int32(len(t.items))
	t.items = append(t.items, v)
	if t.m == nil && len(t.items) > tableLinear {
		t.rebuild()
	} else if t.m != nil {
		t.m[v.key()] = v
	}
	t.peak = max(t.peak, len(t.items))
}

// remove moves the last element into v's position: a loop from the last position to the first may remove as it goes.
func (t *table[K, V]) remove(v V) {
	i, last := int(*v.place()), len(t.items)-1
	t.items[i] = t.items[last]
	*t.items[i].place() = int32(i)
	var zero V
	t.items[last] = zero
	t.items = t.items[:last]
	*v.place() = -1
	if t.m == nil {
		return
	}
	delete(t.m, v.key())
	// A Go map never gives memory back: make it anew when it is mostly empty.
	if last < t.peak/4 {
		t.items = append(make([]V, 0, max(last, 1)), t.items...)
		t.rebuild()
	}
}

func (t *table[K, V]) rebuild() {
	t.m, t.peak = nil, len(t.items)
	if len(t.items) <= tableLinear {
		return
	}
	t.m = make(map[K]V, len(t.items))
	for _, v := range t.items {
		t.m[v.key()] = v
	}
}
