package engine

// Waiter is a pop that is parked: a record in the engine, without a goroutine. The caller makes it, hands it to Park
// and may use it again after it was withdrawn or answered.
type Waiter struct {
	// Owner is the caller's: how to reach who waits.
	Owner any
	// Watch asks only to be told that something is deliverable. Nothing is claimed for it.
	Watch bool
	// Delivery is the answer. It belongs to the waiter's owner once the waiter was answered.
	Delivery Delivery
	// Moved is set when the waiter was answered without a delivery because its partition is not served here any more.
	Moved bool
}
