package cell

import "errors"

// The refusals that a broker adds to the engine's. Nothing has changed for a caller that gets one of them, but for
// ErrStoreFailed.
var (
	// ErrDisabled: the kill switch is off.
	ErrDisabled = errors.New("ephemeral queues are disabled")
	// ErrMoved: the request was certainly not served, because the partition is not owned here.
	ErrMoved = errors.New("the owner of the partition has moved")
	// ErrStoreDown: the store can't be reached.
	ErrStoreDown = errors.New("the store cannot be reached")
	// ErrStoreFailed: the store refused the change, or it is unknown whether the store took it. Memory is unchanged;
	// where the outcome is unknown the store decides, and what it holds is in force after the next start.
	ErrStoreFailed = errors.New("the store did not confirm the change")
)
