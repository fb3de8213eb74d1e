package owner

import (
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// Version names a set of members: 16 hex digits that are a function of the set alone. The order in which the members
// come, and one that comes twice, change nothing. Members are node ids and hold no control characters.
func Version(members []string) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(members)))
	var d xxhash.Digest
	d.Reset()
	for _, m := range sorted {
		_, _ = d.WriteString(m)
		_, _ = d.WriteString(separator)
	}
	const digits = 16
	s := strconv.FormatUint(d.Sum64(), 16)
	for len(s) < digits {
		s = "0" + s
	}
	return s
}
