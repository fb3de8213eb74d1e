package owner

import "github.com/cespare/xxhash/v2"

// Slots is the number of slots of the ring. It is a prime, so that it has no factor in common with the patterns in
// the names that people give to queues. It can never change in a live cell.
const Slots = 4093

// separator stands between the names of a key. No name can hold it, because names hold no control characters
// (contract N1), so two different keys never join to the same bytes.
const separator = "\x00"

// SlotOf tells the slot of a partition, from 0 to Slots-1. It allocates nothing and takes no lock. The names are
// taken as they are: a push without a partition goes to the one named Default, and it is for the caller to say so.
func SlotOf(tenant, queue, partition string) int {
	// The digest stays on the stack. Its methods return no error.
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(tenant)
	_, _ = d.WriteString(separator)
	_, _ = d.WriteString(queue)
	_, _ = d.WriteString(separator)
	_, _ = d.WriteString(partition)
	return int(d.Sum64() % Slots)
}
