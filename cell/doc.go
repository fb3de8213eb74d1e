// Package cell is the broker assembled: it puts an engine, a clock, a timer and a store together and carries out what
// the transports ask for.
//
// Who waits is here and not in the engine: a parked pop is a record in the engine and a goroutine with one channel in
// this package. A call into the engine may answer parked pops; it returns them, and this package signals each one
// after the engine's locks are released.
//
// # What holds
//
//   - A waiting pop has exactly one outcome. A message and a timeout that meet end as delivered, or the message is
//     still there (contract P4). A client that has gone gets nothing: what was claimed for it in the same moment is
//     given back without a trace (contract D9).
//   - An empty answer comes at the timeout and not before, but when the broker drains (rule G1), which answers every
//     parked pop at once.
//   - One goroutine and one time.Timer drive everything that becomes due. Nothing polls.
//   - Declarations and the switch are written to the store first and to memory second, one change at a time, so that
//     both see the same order. A change that the store did not take changes nothing.
//
// The package reads plain time and is tested in testing/synctest bubbles.
package cell
