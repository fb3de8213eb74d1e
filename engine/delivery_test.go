package engine

import "testing"

func TestOneRing(t *testing.T) {
	for _, c := range []struct {
		incarnations []uint64
		want         uint64
	}{{nil, 0}, {[]uint64{7}, 7}, {[]uint64{7, 7}, 7}, {[]uint64{7, 8}, 0}} {
		var d Delivery
		for _, inc := range c.incarnations {
			d.Messages = append(d.Messages, Delivered{Incarnation: inc})
		}
		if got := d.OneRing(); got != c.want {
			t.Errorf("%v: %d, want %d", c.incarnations, got, c.want)
		}
	}
}
