// Package owner tells where a partition belongs.
//
// Every (tenant, queue, partition) hashes to one of a fixed number of slots, and a slot is what a broker owns. The
// hash is the same in every broker and in every version: two brokers that disagree about it would both serve the
// same partition. The package has no clock, no goroutine and no state.
package owner
