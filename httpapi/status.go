package httpapi

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/queencell/queencell/engine"
)

// maxPage is the most queues or partitions of one answer.
const maxPage = 10_000

var (
	queuesParameters = []string{"prefix", "after", "limit", "scope"}
	depthParameters  = []string{"group", "after", "limit", "scope"}
	ownerParameters  = []string{"queue", "partition"}
)

// page reads the parameters of a status read: the first is the read's own.
func (x *exchange) page(known []string) (first, after string, limit int, err error) {
	var values [4]string
	seen, err := parseQuery(x.r.URL.RawQuery, known, values[:])
	if err != nil {
		return "", "", 0, err
	}
	limit = maxPage
	if seen&(1<<2) != 0 {
		if limit, err = number("limit", values[2], 1, maxPage); err != nil {
			return "", "", 0, err
		}
	}
	if scope := values[3]; scope != "" && scope != "broker" && scope != "cell" {
		return "", "", 0, badRequest("scope must be broker or cell")
	}
	return values[0], values[1], limit, nil
}

// answerStatus writes an answer that may be long.
func (x *exchange) answerStatus(out []byte) error {
	x.mem.out = out
	if !x.hold(int64(len(out))) {
		return errInFlight
	}
	_ = x.answer(http.StatusOK, out)
	return nil
}

// queues lists the tenant's queues.
func (x *exchange) queues() error {
	prefix, after, limit, err := x.page(queuesParameters)
	if err != nil {
		return err
	}
	a, err := x.server.status.Queues(x.r.Context(), x.tenant, prefix, after, limit)
	x.served(a.Served)
	if err != nil {
		return err
	}
	x.mem = x.server.pools.scratch()
	return x.answerStatus(appendQueues(x.mem.out[:0], &a))
}

// depth tells the depth of a queue.
func (x *exchange) depth() error {
	queue, err := queueOf(x.r, depthPrefix, depthSuffix)
	if err != nil {
		return err
	}
	group, after, limit, err := x.page(depthParameters)
	if err != nil {
		return err
	}
	if err := checkOptionalName("group", group); err != nil {
		return err
	}
	a, found, err := x.server.status.Depth(x.r.Context(), x.tenant, queue, group, after, limit)
	x.served(a.Served)
	if err != nil {
		return err
	}
	if !found {
		return errUnknownQueue
	}
	x.mem = x.server.pools.scratch()
	return x.answerStatus(appendDepth(x.mem.out[:0], queue, group, &a))
}

// live answers while the process does.
func (x *exchange) live() error {
	_ = x.answer(http.StatusOK, []byte(`{"status":"ok"}`))
	return nil
}

// health tells a load balancer whether to send traffic.
func (x *exchange) health() error {
	h := x.server.status.Health()
	if x.server.draining.Load() && h.State != Draining {
		h.State, h.Reason = Draining, "the broker is shutting down"
	}
	store := "down"
	if h.StoreUp {
		store = "up"
	}
	out := appendText([]byte{'{'}, "status", string(h.State))
	out = appendText(out, "node", h.Node)
	out = appendText(out, "store", store)
	status := http.StatusOK
	if h.State != OK {
		status = http.StatusServiceUnavailable
		x.w.Header()["Retry-After"] = retryHeader
		out = appendText(out, "reason", h.Reason)
	}
	_ = x.answer(status, append(out, '}'))
	return nil
}

// cell shows the cell as this broker sees it.
func (x *exchange) cell() error {
	c := x.server.status.Cell()
	members := c.Members
	if members == nil {
		members = []Member{}
	}
	list, err := json.Marshal(members)
	if err != nil {
		return err
	}
	out := appendText([]byte{'{'}, "cell", c.Name)
	out = appendText(out, "node", c.Node)
	out = append(appendMember(out, "ring"), '{')
	out = appendText(out, "version", c.RingVersion)
	out = append(appendInt(out, "slots", int64(c.Slots)), '}')
	out = append(append(appendMember(out, "members"), list...), '}')
	_ = x.answer(http.StatusOK, out)
	return nil
}

// cellOwner tells who owns a partition.
func (x *exchange) cellOwner() error {
	var values [2]string
	if _, err := parseQuery(x.r.URL.RawQuery, ownerParameters, values[:]); err != nil {
		return err
	}
	queue, partition := values[0], values[1]
	if err := checkQueue(queue); err != nil {
		return err
	}
	if err := checkOptionalName("partition", partition); err != nil {
		return err
	}
	if partition == "" {
		partition = engine.DefaultPartition
	}
	owner := x.server.status.Cell().Owner(x.tenant, queue, partition)
	out := appendText([]byte{'{'}, "queue", queue)
	out = appendText(out, "partition", partition)
	out = appendText(out, "node", owner.Node)
	_ = x.answer(http.StatusOK, append(appendText(out, "url", owner.URL), '}'))
	return nil
}

// metrics is a small summary for people and scripts; /metrics/prometheus has all.
func (x *exchange) metrics() error {
	sys := x.server.status.System()
	e := &sys.Engine
	out := appendText([]byte{'{'}, "node", sys.Node)
	out = strconv.AppendFloat(appendMember(out, "uptimeSeconds"), uptime(&sys), 'f', 1, 64)
	out = append(appendMember(out, "messages"), '{')
	out = appendInt(out, "push", e.Pushed)
	out = appendInt(out, "pop", e.Popped)
	out = append(appendInt(out, "ack", e.Acked), '}')
	out = append(appendMember(out, "dropped"), '{')
	out = appendInt(out, "bounds", e.Drops.Bounds)
	out = appendInt(out, "ttl", e.Drops.TTL)
	out = append(appendInt(out, "retry", e.Drops.Retry), '}')
	out = appendInt(out, "queues", e.Queues)
	out = appendInt(out, "bytes", e.Bytes)
	out = appendInt(out, "maxBytes", e.MaxBytes)
	out = appendInt(out, "parkedLongPolls", sys.ParkedPolls)
	out = appendInt(out, "parkedWaiters", sys.ParkedWaiters)
	out = appendInt(out, "inflightBytes", x.server.inflight.used.Load())
	_ = x.answer(http.StatusOK, append(out, '}'))
	return nil
}
