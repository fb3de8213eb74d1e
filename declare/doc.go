// Package declare keeps what outlives a broker: the declarations of queues and the kill switch. Messages are never in
// it, and push, pop and ack never wait for it.
//
// A Store is read whole when a broker starts and is written by configure, delete and the switch. Two implementations
// are here: OpenMemory, which forgets when its process ends, and OpenFile, one embedded file that one broker at a time
// may use. Package declaretest holds the tests that every implementation has to pass.
//
// # What a store guarantees
//
//   - Every write that changes something takes the store's next version number: one counter for the whole store, over
//     all tenants, queues and the switch. It only grows, also over a restart of a durable store. Writes become visible
//     in the order of their versions: who has seen version n has seen every write below n.
//   - Options come back byte for byte as they were put. A second Put of a queue replaces the first whole.
//   - Names are exact: two pairs of tenant and queue that differ in any byte are two declarations.
//   - A write that returned nil is there for every later Load, and with a durable store after a kill at any moment.
//   - An error of a write is exactly one of ErrUnavailable, ErrRefused (certainly nothing changed) and
//     ErrUnknownOutcome (the store decides: Load tells). An input that the store does not take is refused and changes
//     nothing.
//   - A context that has already ended changes nothing. One that ends during a call may end the wait; the error then
//     tells as above.
//   - Every method may be called from any number of goroutines at once. A Load holds up a writer no longer than it
//     takes to copy what it returns.
//
// # The file
//
// One bbolt database, made with mode 0600, held under an exclusive lock while it is open. Each write is one
// transaction with its own fsync. It holds a layout number; a file with a higher one is not touched. The buckets of
// layout 1, all integers big endian:
//
//	meta          "layout" → uint64, "version" → uint64, "switch" → enabled (0 or 1) uint8, version uint64
//	declarations  tenant length uint8, tenant, queue → version uint64, options
//	log           version uint64 → kind uint8 (1 put, 2 delete, 3 switch), then for 1 and 2 the declaration's key
//
// The log keeps the last ChangesKept writes, so that a reader that is a little behind reads what changed and no more.
package declare
