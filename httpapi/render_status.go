package httpapi

import (
	"time"

	"github.com/queencell/queencell/engine"
)

// appendQueues appends a page of the queues.
func appendQueues(b []byte, a *QueuesAnswer) []byte {
	b = append(b, `{"queues":[`...)
	for i := range a.Queues {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendQueue(b, &a.Queues[i])
	}
	b = append(b, ']')
	b = appendInt(b, "count", int64(a.Count))
	if n := len(a.Queues); a.More && n > 0 {
		b = appendText(b, "next", a.Queues[n-1].Queue)
	}
	b = appendInt(b, "cellBytes", a.CellBytes)
	b = appendInt(b, "cellMaxBytes", a.CellMaxBytes)
	b = appendMissing(b, a.Missing)
	return append(b, '}')
}

func appendQueue(b []byte, q *engine.QueueInfo) []byte {
	b = append(b, '{')
	b = appendText(b, "queue", q.Queue)
	b = appendText(b, "tier", tier(q.Declared))
	b = appendInt(b, "depth", q.Depth)
	b = appendInt(b, "bytes", q.Bytes)
	b = appendInt(b, "partitions", int64(q.Partitions))
	b = appendInt(b, "groups", int64(q.Groups))
	b = append(appendMember(b, "drops"), '{')
	b = appendInt(b, "bounds", q.Drops.Bounds)
	b = appendInt(b, "ttl", q.Drops.TTL)
	b = appendInt(b, "retry", q.Drops.Retry)
	b = append(b, '}')
	b = append(appendMember(b, "options"), '{')
	b = appendInt(b, "maxBytes", q.Options.MaxBytes)
	b = appendInt(b, "maxLength", q.Options.MaxLength)
	b = appendText(b, "policy", q.Options.Policy.String())
	b = appendInt(b, "ttlSeconds", int64(q.Options.TTL/time.Second))
	b = appendInt(b, "leaseSeconds", int64(q.Options.Lease/time.Second))
	b = appendInt(b, "retryLimit", int64(q.Options.RetryLimit))
	b = append(appendMember(b, "windowBuffer"), '{')
	b = appendInt(b, "ms", q.Options.Window.Milliseconds())
	b = appendInt(b, "count", int64(q.Options.WindowCount))
	return append(b, '}', '}', '}')
}

// appendDepth appends the depth of a queue; group "" is none asked for.
func appendDepth(b []byte, queue, group string, a *DepthAnswer) []byte {
	b = append(b, '{')
	b = appendText(b, "queue", queue)
	b = appendMember(b, "group")
	if group == "" {
		b = append(b, "null"...)
	} else {
		b = appendString(b, group)
	}
	b = appendText(b, "tier", tier(a.Declared))
	b = appendInt(b, "pending", a.Pending)
	b = appendInt(b, "partitionsPending", int64(a.PartitionsPending))
	b = appendInt(b, "bytes", a.Bytes)
	b = appendInt(b, "oldestAgeMs", time.Duration(a.OldestAge).Milliseconds())
	b = append(appendMember(b, "partitions"), '[')
	for i, p := range a.Partitions {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		b = appendText(b, "partition", p.Partition)
		b = appendInt(b, "pending", p.Pending)
		b = append(appendInt(b, "bytes", p.Bytes), '}')
	}
	b = append(b, ']')
	if n := len(a.Partitions); a.More && n > 0 {
		b = appendText(b, "next", a.Partitions[n-1].Partition)
	}
	b = append(appendMember(b, "groups"), '[')
	for i, g := range a.Groups {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		b = appendText(b, "group", g.Group)
		b = appendInt(b, "pending", g.Pending)
		b = appendInt(b, "leased", g.Leased)
		b = append(appendInt(b, "skipped", g.Skipped), '}')
	}
	b = append(b, ']')
	b = appendMissing(b, a.Missing)
	return append(b, '}')
}

// appendMissing says which brokers did not answer, if any.
func appendMissing(b []byte, missing []string) []byte {
	if len(missing) == 0 {
		return b
	}
	b = appendBool(b, "partial", true)
	b = append(appendMember(b, "missing"), '[')
	for i, node := range missing {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, node)
	}
	return append(b, ']')
}

func tier(declared bool) string {
	if declared {
		return "declared"
	}
	return "implicit"
}
