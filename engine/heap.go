package engine

// order tells a heap how to compare its elements and where each keeps its position, so that one element can sit in
// several heaps. Implementations are empty structs.
type order[T any] interface {
	less(a, b T) bool
	at(x T) *int32
}

// heap is a binary min-heap whose elements know their position: removal and repair of any element are O(log n).
// A position of -1 means "not in the heap"; elements start with it.
type heap[T any, O order[T]] struct {
	items []T
	o     O
}

func (h *heap[T, O]) len() int { return len(h.items) }

func (h *heap[T, O]) min() T { return h.items[0] }

func (h *heap[T, O]) push(x T) {
	h.items = append(h.items, x)
	*h.o.at(x) = int32(len(h.items) - 1)
	h.up(len(h.items) - 1)
}

// fix repairs the heap after x's key changed.
func (h *heap[T, O]) fix(x T) {
	i := int(*h.o.at(x))
	if !h.up(i) {
		h.down(i)
	}
}

func (h *heap[T, O]) remove(x T) {
	i := int(*h.o.at(x))
	last := len(h.items) - 1
	if i != last {
		h.place(h.items[last], i)
	}
	var zero T
	h.items[last] = zero
	h.items = h.items[:last]
	if i != last {
		y := h.items[i]
		if !h.up(i) {
			h.down(int(*h.o.at(y)))
		}
	}
	*h.o.at(x) = -1
	if cap(h.items) > 64 && last < cap(h.items)/8 {
		h.items = append([]T(nil), h.items...) // give the memory of a past peak back
	}
}

func (h *heap[T, O]) place(x T, i int) {
	h.items[i] = x
	*h.o.at(x) = int32(i)
}

func (h *heap[T, O]) up(i int) bool {
	x := h.items[i]
	start := i
	for i > 0 {
		parent := (i - 1) / 2
		if !h.o.less(x, h.items[parent]) {
			break
		}
		h.place(h.items[parent], i)
		i = parent
	}
	h.place(x, i)
	return i != start
}

func (h *heap[T, O]) down(i int) {
	x := h.items[i]
	n := len(h.items)
	for {
		child := 2*i + 1
		if child >= n {
			break
		}
		if right := child + 1; right < n && h.o.less(h.items[right], h.items[child]) {
			child = right
		}
		if !h.o.less(h.items[child], x) {
			break
		}
		h.place(h.items[child], i)
		i = child
	}
	h.place(x, i)
}
