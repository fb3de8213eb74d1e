package engine

import "errors"

// The refusals of the engine. Each transport maps them once to its own codes. A call that returns one of them has
// changed nothing.
var (
	// ErrClosed: this engine does not serve the slot of the named partition. The caller routed by an old table and
	// routes again.
	ErrClosed = errors.New("the partition is not served here")
	// ErrFull: the queue's maxBytes or maxLength is reached and its policy is reject (contract B3). Worth repeating.
	ErrFull = errors.New("the queue is full")
	// ErrNeverFits: the push is larger than the queue can ever hold (contract B4). Repeating cannot help.
	ErrNeverFits = errors.New("the push can never fit into the queue")
	// ErrTenantBytes: the tenant's allowance of bytes is used up (contract B1).
	ErrTenantBytes = errors.New("the tenant's allowance of bytes is used up")
	// ErrTenantQueues: the tenant has as many queues as it may have.
	ErrTenantQueues = errors.New("the tenant's allowance of queues is used up")
	// ErrGroups: the queue has as many groups as it may have (contract E6).
	ErrGroups = errors.New("the queue has too many groups")
	// ErrPartitions: the queue has as many partitions as it may have (contract E6).
	ErrPartitions = errors.New("the queue has too many partitions")
	// ErrBudget: the broker's memory budget is used up (contract B1, B6).
	ErrBudget = errors.New("the broker's memory budget is used up")
	// ErrLeases: the memory for the leases of further groups is used up (contract B6).
	ErrLeases = errors.New("the broker's memory for leases is used up")
	// ErrRoom: the memory for answers on their way to clients is used up (contract B8).
	ErrRoom = errors.New("too many answers are on their way")
)
