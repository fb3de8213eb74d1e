// Package engine is the state machine of ephemeral queues: rings, groups, leases, parked pops and budgets. It has no
// clock, no goroutine and no I/O, and knows nothing of HTTP or of other brokers. Time is an argument of every call;
// what became due before a call has happened before it.
//
// # Structures
//
//	Engine ── 64 shards ── queue ──┬─ ring ──┬─ segment ⇄ segment ⇄ …     256 messages and their payload chunks
//	  │        timers, idle list   │         ├─ cursor (one per group) ── block  leases over 16 messages
//	  └─ tenant ── index by name   ├─ group ─┴─ rotation over rings with something deliverable
//	               allowance       └─ line ── Waiter ⇄ Waiter ⇄ …         parked pops, longest waiting first
//
// A queue is the unit of locking: one mutex guards all of it, because bounds, order of arrival, turns and idleness are
// the queue's. A slot is the unit of ownership: one atomic flag, looked at under the queue's lock. Under that lock
// only leaf locks are taken, first the shard's, then the tenant's; never two queues at once.
//
// A queue that holds nothing and that nobody waits for comes to rest after a second: of its body some hundred bytes
// stay (rest.go). Payloads are copied into chunks when pushed and out of them when handed out, so no answer ever reads
// memory that was used again; a chunk goes when its last payload does, a segment when its last message does.
//
// # The states of a message
//
// For each group:
//
//	          pop                    ack completed, or a nack or expiry with the attempts used up
//	unseen ────────► leased ──────────────────────────────────────────────────► settled
//	   │               │ ▲                                                         ▲
//	   │  nack, expiry,│ │ pop: attempts+1                                         │
//	   │  give-back    ▼ │                                                         │
//	   │             waiting ──── late ack: the lease ran out, not delivered again ┤
//	   └──── pop with autoAck ─────────────────────────────────────────────────────┘
//
// For the ring:
//
//	held ──► settled by every group: lingers, 1 to 2 s or until its room is needed ──► gone
//	  │                      ▲ held again when a group comes that has not seen it
//	  └──► dropped by bounds, ttl, reset, delete, or a closed slot ──► gone
//
// A message has a count of pins, the groups that have it leased or waiting. It is settled when that is zero and it
// lies below the lowest cursor. A ring's heap holds the cursors that have seen something; a known group that is not in
// it stands at the base, and then nothing is settled. That is also how a group joins the whole queue in O(1): it is
// counted, and the next touch of a ring finds that what was settled there no longer is.
//
// A group's skipped messages are counted by differences: a ring and a body count their drops, a cursor that a drop
// passes leaves the heap and remembers the count (contract B5).
//
// # Costs
//
// In the messages held, leases, groups, rings, waiters and queues; n is what is handed in or out.
//
//	push                 O(n), O(log rings); a waiter or a caught-up group that it reaches: O(1) each
//	pop                  O(n), O(log groups) for the heap of cursors; O(log rings) amortised without a partition
//	ack, nack, give-back O(n log blocks)
//	expiry, ttl, drop    O(log blocks) or O(log rings) per message
//	park, withdraw       O(1)
//	join, forget         O(1) under one hold of the lock; forgetting goes on in steps
//	reset, close         by ring: O(groups of the ring) and O(segments)
//	reclaim              O(1) per message or per whole segment, once in a message's life
//
// Work that may be large, such as expiry, reset, a forgotten group or a closed slot, gives the lock up at least every
// thousand messages. body.visits counts what is looked at; tests hold it against contract R5.
//
// # Budgets
//
// Every structure is charged with what it really costs, to the tenant and to the broker. A queue pays for its first
// group, a ring for its first cursor and a range of sixteen messages for its first lease block when they are made: one
// group can always drain a full broker. Blocks of further groups have a budget of their own (contract B6).
package engine
