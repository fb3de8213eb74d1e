package owner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// The values are pinned: brokers of different versions in one cell must agree on them (case CL-08).
func TestSlotIsPinned(t *testing.T) {
	for _, c := range []struct {
		tenant, queue, partition string
		want                     int
	}{
		{"00000000-0000-0000-0000-000000000001", "orders", "Default", 1839},
		{"00000000-0000-0000-0000-000000000001", "orders", "a/b:c.d", 1993},
		{"t", "größe", "ключ", 2930},
		{"", "", "", 1997},
	} {
		joined := c.tenant + "\x00" + c.queue + "\x00" + c.partition
		if got, want := SlotOf(c.tenant, c.queue, c.partition), int(xxhash.Sum64String(joined)%Slots); got != want {
			t.Errorf("SlotOf(%q, %q, %q) = %d, the hash of the joined key gives %d", c.tenant, c.queue, c.partition, got, want)
		}
		if got := SlotOf(c.tenant, c.queue, c.partition); got != c.want {
			t.Errorf("SlotOf(%q, %q, %q) = %d, want %d", c.tenant, c.queue, c.partition, got, c.want)
		}
	}
}

// Moving a byte from one name to the next gives another key, and so, but for chance, another slot.
func TestKeysAreJoinedUnambiguously(t *testing.T) {
	same := 0
	for i := range 1000 {
		whole := fmt.Sprintf("queue-%d-abc", i)
		if SlotOf("t", whole, "p") == SlotOf("t", whole[:len(whole)-1], whole[len(whole)-1:]+"p") {
			same++
		}
		if SlotOf("t"+whole, "q", "p") == SlotOf("t", whole+"q", "p") {
			same++
		}
	}
	if same > 10 {
		t.Errorf("%d of 2000 pairs of different keys share a slot, chance gives about one", same)
	}
}

// Many keys with names as people choose them spread evenly: no slot has twice its share.
func TestSlotsAreEven(t *testing.T) {
	const keys = 400_000
	var count [Slots]int
	for i := range keys {
		count[SlotOf("tenant", fmt.Sprintf("inbox-%d", i), "Default")]++
	}
	for slot, n := range count {
		if n < keys/Slots/2 || n > keys/Slots*2 {
			t.Fatalf("slot %d has %d keys, its share is %d", slot, n, keys/Slots)
		}
	}
}

func TestSlotOfAllocatesNothing(t *testing.T) {
	long := strings.Repeat("n", 512)
	if n := testing.AllocsPerRun(1000, func() { SlotOf(long, long, long) }); n != 0 {
		t.Errorf("SlotOf allocates %v times", n)
	}
}

func BenchmarkSlotOf(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		SlotOf("00000000-0000-0000-0000-000000000001", "inbox.4f2a9c", "Default")
	}
}
