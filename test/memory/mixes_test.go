package memory

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/queencell/queencell/test/internal/broker"
)

// emptyInboxes: a million names that were asked once.
func emptyInboxes(l *load) {
	l.each(16, func(i int) bool {
		return l.took(l.Pop(fmt.Sprintf("inbox-%d", i), broker.PopOptions{Context: l.ctx}).Answer)
	})
}

// oneByteMessages: what a message costs beside its payload.
func oneByteMessages(l *load) {
	body := broker.PushBody("bytes", "", slices.Repeat([]string{"1"}, 10_000)...)
	l.each(2, func(int) bool {
		return l.took(l.Do(l.ctx, "POST", "/api/v1/ephemeral/push", bytes.NewReader(body)))
	})
}

// manyGroups: each group costs in the queue and in each partition it reads.
func manyGroups(l *load) {
	for _, partition := range []string{"a", "b", "c", "d"} {
		l.took(l.Push("groups", partition, `1`, `2`, `3`))
	}
	l.each(16, func(i int) bool {
		return l.took(l.Pop("groups", broker.PopOptions{Group: fmt.Sprintf("g-%d", i), Batch: 2, AutoAck: i%2 == 0, Context: l.ctx}).Answer)
	})
}

// manyLeases: one backlog, held by group after group.
func manyLeases(l *load) {
	body := broker.PushBody("leases", "", slices.Repeat([]string{`"` + strings.Repeat("x", 60) + `"`}, 5000)...)
	for range 20 { // a part of the budget only
		l.took(l.Do(l.ctx, "POST", "/api/v1/ephemeral/push", bytes.NewReader(body)))
	}
	l.each(4, func(i int) bool {
		return l.took(l.Pop("leases", broker.PopOptions{Group: fmt.Sprintf("g-%d", i/100), Batch: 1000, Context: l.ctx}).Answer)
	})
}

// slowReaders: clients that ask for all there is and take nothing of the answer.
func slowReaders(l *load) {
	body := broker.PushBody("read", "", slices.Repeat([]string{`"` + strings.Repeat("r", 10_000) + `"`}, 100)...)
	for range 16 {
		l.took(l.Do(l.ctx, "POST", "/api/v1/ephemeral/push", bytes.NewReader(body)))
	}
	var conns []*broker.Conn
	for i := range 200 {
		c, err := l.Dial()
		if err != nil {
			break
		}
		conns = append(conns, c)
		_ = c.SetReadBuffer(4096) // the kernel must not take the answer in the client's place
		if c.Send("GET", broker.PopPath("read", broker.PopOptions{Group: fmt.Sprintf("g-%d", i), Batch: 10_000})) != nil {
			break
		}
		if i%10 == 9 {
			l.took(l.Get("/api/v1/ephemeral/queues?limit=1"))
		}
	}
	select {
	case <-l.ctx.Done():
	case <-time.After(mixTime * 2 / 3):
	}
	for _, c := range conns {
		c.Close()
	}
}

// bigBodies: bodies that begin and do not end, and bodies as large as they may be.
func bigBodies(l *load) {
	var conns []*broker.Conn
	part := strings.Repeat("b", 1<<20)
	for range 150 {
		c, err := l.Dial()
		if err != nil {
			break
		}
		conns = append(conns, c)
		if c.Send("POST", "/api/v1/ephemeral/push", "Content-Length: 2000000") != nil {
			continue
		}
		_ = c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)) // a refused body is not read
		_, _ = io.WriteString(c, `{"queue":"bodies","messages":[{"payload":"`+part)
	}
	bodies := [][]byte{
		broker.PushBody("bodies", "", `"`+strings.Repeat("B", 60<<20)+`"`),
		broker.PushBody("bodies", "", `"`+strings.Repeat("B", 12<<20)+`"`),
		broker.PushBody("bodies", "", `"`+strings.Repeat("B", 3<<20)+`"`),
	}
	push := func(i int) bool {
		a := l.Do(l.ctx, "POST", "/api/v1/ephemeral/push", bytes.NewReader(bodies[i%len(bodies)]))
		if a.Err != nil && strings.Contains(a.Err.Error(), "connection") {
			return true // the refusal of a body that is not read can end the connection before it is seen
		}
		return l.took(a)
	}
	// First beside the bodies that do not end, then without them.
	for i := range 30 {
		push(i)
	}
	for _, c := range conns {
		c.Close()
	}
	l.each(6, push)
	l.took(l.Get("/api/v1/ephemeral/queues?limit=1"))
}

// survivors: of each 256 messages one is never acked, which holds its whole segment.
func survivors(l *load) {
	const segment = 256
	body := broker.PushBody("survivors", "", slices.Repeat([]string{`"` + strings.Repeat("s", 200) + `"`}, segment)...)
	l.each(4, func(i int) bool {
		name := fmt.Sprintf("survivors-%d", i%4)
		if l.took(l.Do(l.ctx, "POST", "/api/v1/ephemeral/push", bytes.NewReader(bytes.Replace(body, []byte(`"survivors"`), []byte(broker.Quote(name)), 1)))) {
			return true
		}
		p := l.Pop(name, broker.PopOptions{Batch: segment, Context: l.ctx})
		if l.took(p.Answer) || len(p.Messages) == 0 {
			return true
		}
		l.took(l.Ack(name, "", "", p.IDs()[1:]...).Answer)
		return false
	})
}
