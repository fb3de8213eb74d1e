package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/queencell/queencell/engine"
)

// DefaultTenant owns everything while tenancy is off.
const DefaultTenant = "00000000-0000-0000-0000-000000000001"

// Served tells which broker answered a request, and which ring where one ring did.
type Served struct {
	Node string
	// Incarnation is the ring's number; it means nothing unless OneRing.
	Incarnation uint64
	OneRing     bool
}

// Broker carries the traffic: what clients push, pop and ack. Its errors are the engine's sentinels and this
// package's; anything else is answered as an internal error. Requests, and the payloads in them, are memory that is used
// again: nothing of them may be kept after the call has returned. Only the names and ids, which are strings, may.
type Broker interface {
	Push(ctx context.Context, req *engine.PushRequest) (Served, error)
	// Pop fills d. With wait above zero it stays until a message is there or wait has passed, and then answers with
	// an empty d. When ctx ends first it returns ctx's error, and nothing is claimed.
	Pop(ctx context.Context, req *engine.PopRequest, wait time.Duration, d *engine.Delivery) (Served, error)
	// Ack appends one outcome per ack, in order.
	Ack(ctx context.Context, req *engine.AckRequest, outcomes []engine.Outcome) ([]engine.Outcome, Served, error)
	// GiveBack returns what Pop delivered and the client did not take (contract D9). traced says that a byte of it may
	// have reached the client.
	GiveBack(d *engine.Delivery, traced bool)
}

// Admin changes what is declared.
type Admin interface {
	// Configure declares a queue. sent is the options object as it came, which is what is stored.
	Configure(ctx context.Context, tenant, queue string, s engine.Settings, sent []byte) (Served, error)
	Reset(ctx context.Context, tenant, queue string) (dropped int64, served Served, err error)
	Delete(ctx context.Context, tenant, queue string) (deleted, declared bool, served Served, err error)
	// SetEnabled turns the kill switch.
	SetEnabled(ctx context.Context, enabled bool) error
}

// Status answers the reads. None of them touches the store.
type Status interface {
	Queues(ctx context.Context, tenant, prefix, after string, limit int) (QueuesAnswer, error)
	// Depth answers false for an unknown queue.
	Depth(ctx context.Context, tenant, queue, group, after string, limit int) (DepthAnswer, bool, error)
	System() System
	Health() Health
	Cell() Cell
}

// QueuesAnswer is a page of a tenant's queues.
type QueuesAnswer struct {
	Served
	engine.QueuePage
	// CellBytes is what the tenant uses, CellMaxBytes what it may use.
	CellBytes, CellMaxBytes int64
	// Missing are the brokers of the cell that did not answer.
	Missing []string
}

// DepthAnswer is the depth of one queue.
type DepthAnswer struct {
	Served
	engine.Depth
	// Missing are the brokers of the cell that did not answer.
	Missing []string
}

// System is the state behind the kill switch's route and the metrics.
type System struct {
	Node    string
	Enabled bool
	// Epoch is the version of the stored switch: it grows with each change.
	Epoch uint64
	// RequireGrant and GrantedTenants are the tenancy's.
	RequireGrant   bool
	GrantedTenants int
	// ParkedWaiters is how many pops wait on this broker's rings; ParkedPolls how many long polls arrived here.
	ParkedWaiters, ParkedPolls int64
	// Forwarded is how many requests were sent on to their owner.
	Forwarded int64
	StoreUp   bool
	Started   time.Time
	Engine    engine.Stats
}

// HealthState is what /health says of the broker.
type HealthState string

// The states of a broker.
const (
	Starting HealthState = "starting"
	OK       HealthState = "ok"
	Draining HealthState = "draining"
)

// Health is the answer for a load balancer. Reason completes "not ok because"; it is empty when State is OK.
type Health struct {
	State   HealthState
	Reason  string
	Node    string
	StoreUp bool
}

// Member is one broker of the cell.
type Member struct {
	Node  string  `json:"node"`
	URL   string  `json:"url"`
	Epoch string  `json:"epoch"`
	Share float64 `json:"share"`
	Self  bool    `json:"self"`
}

// Cell is the cell as this broker sees it.
type Cell struct {
	Name string
	Node string
	// RingVersion is a function of the members alone; Slots the number of slots.
	RingVersion string
	Slots       int
	// Members are sorted by node.
	Members []Member
	// Owner tells the member that owns a partition.
	Owner func(tenant, queue, partition string) Member
}

// The refusals that a broker adds to the engine's.
var (
	// ErrStoreDown: the store can't be reached; nothing changed. 503 ephemeral_unavailable.
	ErrStoreDown = errors.New("the store cannot be reached")
	// ErrStoreFailed: the store refused a write. 500 ephemeral_configure_failed or ephemeral_delete_failed.
	ErrStoreFailed = errors.New("the store refused the change")
	// ErrDisabled: the kill switch is off. 503 ephemeral_disabled.
	ErrDisabled = errors.New("ephemeral queues are disabled")
	// ErrMoved: certainly not served, the partition is changing hands or its owner cannot be reached. 503 owner_moved.
	ErrMoved = errors.New("the owner of the partition has moved")
	// ErrUnknownOutcome: the owner may have served the request or not. 503 ephemeral_forward_failed.
	ErrUnknownOutcome = errors.New("the outcome of the request is unknown")
)
