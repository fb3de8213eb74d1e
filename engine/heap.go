package engine

// placed tells a heap where its elements keep their position, so that one element can sit in several heaps.
// Implementations are empty structs.
type placed[T any] interface {
	at(x T) *int32
}

// heap is a binary min-heap whose elements know their position: removal and repair of any element are O(log n). Keys
// lie beside the elements, so that comparing touches no other memory. A position of -1 means "not in the heap";
// elements start with it.
type heap[T any, P placed[T]] struct {
	items []heapItem[T]
	p     P
}

type heapItem[T any] struct {
	key Time
	x   T
}

func (h *heap[T, P]) len() int { return len(h.items) }

func (h *heap[T, P]) min() T { return h.items[0].x }

func (h *heap[T, P]) minKey() Time { return h.items[0].key }

func (h *heap[T, P]) push(x T, key Time) {
	h.items = append(h.items, heapItem[T]{key, x})
	h.up(len(h.items)-1, heapItem[T]{key, x})
}

// fix gives x another key.
func (h *heap[T, P]) fix(x T, key Time) {
	i := int(*h.p.at(x))
	it := heapItem[T]{key, x}
	if len(h.items) == 1 {
		h.items[0] = it
		return
	}
	if i > 0 && key < h.items[(i-1)/2].key {
		h.up(i, it)
	} else {
		h.down(i, it)
	}
}

func (h *heap[T, P]) remove(x T) {
	p := h.p.at(x)
	i := int(*p)
	*p = -1
	last := len(h.items) - 1
	it := h.items[last]
	h.items[last] = heapItem[T]{}
	h.items = h.items[:last]
	if i != last {
		if i > 0 && it.key < h.items[(i-1)/2].key {
			h.up(i, it)
		} else {
			h.down(i, it)
		}
	}
	if cap(h.items) > 64 && last < cap(h.items)/8 {
		h.items = append([]heapItem[T](nil), h.items...) // give the memory of a past peak back
	}
}

func (h *heap[T, P]) place(it heapItem[T], i int) {
	h.items[i] = it
	*h.p.at(it.x) = int32(i)
}

func (h *heap[T, P]) up(i int, it heapItem[T]) {
	for i > 0 {
		parent := (i - 1) / 2
		if it.key >= h.items[parent].key {
			break
		}
		h.place(h.items[parent], i)
		i = parent
	}
	h.place(it, i)
}

func (h *heap[T, P]) down(i int, it heapItem[T]) {
	n := len(h.items)
	for {
		child := 2*i + 1
		if child >= n {
			break
		}
		if right := child + 1; right < n && h.items[right].key < h.items[child].key {
			child = right
		}
		if h.items[child].key >= it.key {
			break
		}
		h.place(h.items[child], i)
		i = child
	}
	h.place(it, i)
}
