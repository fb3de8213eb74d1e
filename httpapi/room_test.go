package httpapi

import (
	"context"
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
