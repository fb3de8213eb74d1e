package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestModel compares the engine with the model over many seeds: random operations of few names with small bounds, so
// that everything meets everything.
func TestModel(t *testing.T) {
	seeds, steps := 200, 1500
	if testing.Short() {
		seeds = 40
	}
	for seed := range seeds {
		x := newMachine(&choice{rng: rand.New(rand.NewPCG(uint64(seed), 1))})
		if text := x.run(steps); text != "" {
			t.Fatalf("seed %d, %s", seed, text)
		}
	}
}

// FuzzEngine is TestModel with the fuzzer's bytes as the choices.
func FuzzEngine(f *testing.F) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 2))
		data := make([]byte, 600)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4000 {
			return
		}
		x := newMachine(&choice{data: data})
		if text := x.run(1000); text != "" {
			t.Fatal(text)
		}
	})
}

// FuzzParseID: what ParseID accepts is exactly what Append writes (contract D6).
func FuzzParseID(f *testing.F) {
	for _, s := range []string{
		"", "e:", "e:0123456789abcdef:p:1", "e:0123456789abcdef:a:b.c:7.2", "e:0123456789ABCDEF:p:1",
		"e:0123456789abcdef:p:01", "e:0123456789abcdef:p:1.1", "e:0123456789abcdef:p:1.02", "e:0123456789abcdef:p:1.65535",
		"e:0123456789abcdef:p:1.65536", "e:0123456789abcdef::1", "e:0123456789abcdef:p:9223372036854775807",
		"e:0123456789abcdef:p:9223372036854775808", "e:0123456789abcdef:p\n:1", "e:0123456789abcdef:p:1.2.3",
		"e:0123456789abcdef:p:", "e:0123456789abcdef:p:+1", "e:0123456789abcdef:\xff:1", "x:0123456789abcdef:p:1",
	} {
		f.Add(s, uint64(1), "p", uint64(1), uint16(1))
	}
	f.Fuzz(func(t *testing.T, s string, inc uint64, partition string, seq uint64, attempt uint16) {
		if id, ok := ParseID(s); ok {
			if back := string(id.Append(nil)); back != s {
				t.Fatalf("%q reads as %+v, which writes %q", s, id, back)
			}
			if id.Attempt < 1 || ValidName(id.Partition) != nil {
				t.Fatalf("%q reads as %+v", s, id)
			}
		}
		if ValidName(partition) != nil || attempt == 0 {
			return
		}
		id := ID{inc, partition, seq >> 1, int(attempt)}
		text := string(id.Append(nil))
		if back, ok := ParseID(text); !ok || back != id {
			t.Fatalf("%+v writes %q, which reads as %+v %v", id, text, back, ok)
		}
		if want := fmt.Sprintf("e:%016x:%s:%d", inc, partition, seq>>1); attempt == 1 && text != want {
			t.Fatalf("the id of a first delivery is %q, want %q", text, want)
		}
	})
}
