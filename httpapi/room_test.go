package httpapi

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/queencell/queencell/engine"
)

// Contract B8: an answer takes of the bytes in flight as it grows, and gives all of it back once it is written, also
// when nothing was claimed after all.
func TestAnswerTakesRoom(t *testing.T) {
	f := newFake()
	var server *Server
	var took int64
	f.pop = func(_ context.Context, req *engine.PopRequest, _ time.Duration, d *engine.Delivery) error {
		if req.Room == nil {
			t.Error("the answer is not bounded")
			return nil
		}
		if !req.Room.Take(1 << 10) {
			return engine.ErrRoom
		}
		d.Taken = 1 << 10
		took = server.inflight.used.Load()
		return nil
	}
	b := start(t, f, nil)
	server = b.server
	for range 3 {
		if res := b.get(t, "/api/v1/ephemeral/pop?queue=q"); res.status != 200 {
			t.Fatalf("pop answered %d", res.status)
		}
		if took < 1<<10 {
			t.Fatalf("only %d bytes were in flight while the answer was made", took)
		}
	}
	eventually(t, "the bytes in flight are given back", func() bool { return server.inflight.used.Load() == 0 })
}

// Contract B8, B4: options that the store would refuse for their length are a bad request, found before they are parsed.
func TestOptionsHaveABound(t *testing.T) {
	f := newFake()
	b := start(t, f, nil)
	long := `{"queue":"q","options":{"maxLength":` + strings.Repeat(" ", maxOptions) + `1}}`
	b.wantCode(t, "long options", b.post(t, "/api/v1/ephemeral/configure", long), 400, "ephemeral_bad_request")
	b.wantNoCalls(t, "long options")
}

// Contract B8: an answer that is alone may pass the limit, for what was pushed must be able to go out; beside others it
// may not.
func TestAnAnswerAloneMayPassTheLimit(t *testing.T) {
	f := inflight{limit: 100}
	if !f.Take(150) {
		t.Fatal("alone it was refused")
	}
	if f.Take(10) || f.take(10) {
		t.Fatal("beside it another was taken")
	}
	f.release(150)
	if !f.take(60) || f.Take(150) || f.used.Load() != 60 {
		t.Fatalf("%d bytes are in flight", f.used.Load())
	}
}
