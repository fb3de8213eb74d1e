package engine

import (
	"testing"
	"time"
)

// limitedRoom grants so many bytes.
type limitedRoom struct{ left int64 }

func (r *limitedRoom) Take(n int64) bool {
	if n > r.left {
		return false
	}
	r.left -= n
	return true
}

// Contract B8: an answer ends where its room does, the rest stays deliverable, and a first message without room is a
// refusal that claims nothing.
func TestB8_AnAnswerEndsWithItsRoom(t *testing.T) {
	f := newEngine(t, func(c *Config) { c.QueueMaxBytes, c.MaxBytes = 1<<26, 1<<28 })
	big := make([]byte, 100<<10)
	for range 5 {
		if _, err := f.Push(f.now, &PushRequest{Tenant: "t", Queue: "q", Messages: []Message{{Payload: big}}}, &f.wakes); err != nil {
			t.Fatal(err)
		}
	}
	pop := func(room Room) (*Delivery, error) {
		d := new(Delivery)
		_, err := f.Pop(f.now, &PopRequest{Tenant: "t", Queue: "q", Batch: 9, Room: room}, d, &f.wakes)
		return d, err
	}
	room := &limitedRoom{600 << 10}
	d, err := pop(room)
	if err != nil || len(d.Messages) != 3 {
		t.Fatalf("got %d messages, %v", len(d.Messages), err)
	}
	if d.Taken != 600<<10-room.left {
		t.Fatalf("took %d, says %d", 600<<10-room.left, d.Taken)
	}
	if d, err = pop(&limitedRoom{}); err != ErrRoom || len(d.Messages) != 0 {
		t.Fatalf("without room: %d messages, %v", len(d.Messages), err)
	}
	if d, err = pop(nil); err != nil || len(d.Messages) != 2 || d.Messages[0].Attempts != 1 {
		t.Fatalf("the rest: %d messages, %v", len(d.Messages), err)
	}
	// A parked pop that cannot have what comes is told so.
	w := &Waiter{}
	if parked, _, err := f.Park(f.now, &PopRequest{Tenant: "t", Queue: "q", Room: &limitedRoom{}}, w, &f.wakes); !parked || err != nil {
		t.Fatal(parked, err)
	}
	if _, err := f.Push(f.now, &PushRequest{Tenant: "t", Queue: "q", Messages: []Message{{Payload: big}}}, &f.wakes); err != nil {
		t.Fatal(err)
	}
	if !w.Woken() || w.Err != ErrRoom {
		t.Fatalf("woken %v with %v", w.Woken(), w.Err)
	}
	f.advance(time.Second)
	if d, err = pop(nil); err != nil || len(d.Messages) != 1 || d.Messages[0].Attempts != 1 {
		t.Fatalf("what was refused: %d messages, %v", len(d.Messages), err)
	}
}
