package engine

// links are an element's place in one list.
type links[T any] struct {
	prev, next *T
	in         bool
}

// linked tells a list where its elements keep their links, so that one element can sit in several lists.
// Implementations are empty structs.
type linked[T any] interface {
	links(x *T) *links[T]
}

// list is a doubly linked list through its elements: every operation is O(1) and allocates nothing.
type list[T any, L linked[T]] struct {
	head, tail *T
	n          int
	l          L
}

func (l *list[T, L]) pushBack(x *T) {
	k := l.l.links(x)
	k.prev, k.next, k.in = l.tail, nil, true
	if l.tail != nil {
		l.l.links(l.tail).next = x
	} else {
		l.head = x
	}
	l.tail = x
	l.n++
}

func (l *list[T, L]) pushFront(x *T) {
	k := l.l.links(x)
	k.prev, k.next, k.in = nil, l.head, true
	if l.head != nil {
		l.l.links(l.head).prev = x
	} else {
		l.tail = x
	}
	l.head = x
	l.n++
}

func (l *list[T, L]) remove(x *T) {
	k := l.l.links(x)
	if k.prev != nil {
		l.l.links(k.prev).next = k.next
	} else {
		l.head = k.next
	}
	if k.next != nil {
		l.l.links(k.next).prev = k.prev
	} else {
		l.tail = k.prev
	}
	*k = links[T]{}
	l.n--
}

func (l *list[T, L]) moveToBack(x *T) {
	if l.tail != x {
		l.remove(x)
		l.pushBack(x)
	}
}

func (l *list[T, L]) has(x *T) bool { return l.l.links(x).in }
