package broker

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Configure declares a queue; options is a JSON object.
func (c *Client) Configure(queue, options string) Answer {
	return c.Post("/api/v1/ephemeral/configure", `{"queue":`+Quote(queue)+`,"options":`+options+`}`)
}

// ResetAnswer is the answer to a reset.
type ResetAnswer struct {
	Answer  `json:"-"`
	Queue   string `json:"queue"`
	Dropped int64  `json:"dropped"`
}

// Reset empties a queue.
func (c *Client) Reset(queue string) ResetAnswer {
	r := ResetAnswer{Answer: c.Post("/api/v1/ephemeral/reset", `{"queue":`+Quote(queue)+`}`)}
	r.decode(&r)
	return r
}

// DeleteAnswer is the answer to a delete.
type DeleteAnswer struct {
	Answer   `json:"-"`
	Queue    string `json:"queue"`
	Deleted  bool   `json:"deleted"`
	Declared bool   `json:"declared"`
}

// Delete removes a queue.
func (c *Client) Delete(queue string) DeleteAnswer {
	d := DeleteAnswer{Answer: c.Do(context.Background(), "DELETE", "/api/v1/ephemeral/queue/"+url.PathEscape(queue), nil)}
	d.decode(&d)
	return d
}

// GroupDepth are a group's gauges.
type GroupDepth struct {
	Group                    string
	Pending, Leased, Skipped int64
}

// Depth is the answer to the depth read.
type Depth struct {
	Answer            `json:"-"`
	Queue, Tier       string
	Group             *string
	Pending           int64
	PartitionsPending int64
	Bytes             int64
	OldestAgeMs       int64
	Partitions        []struct {
		Partition      string
		Pending, Bytes int64
	}
	Groups []GroupDepth
	Next   string
}

// InGroup are the gauges of a group; all zero when the queue does not know it. "" is the groupless pop's.
func (d Depth) InGroup(group string) GroupDepth {
	if group == "" {
		group = "__QUEUE_MODE__"
	}
	for _, g := range d.Groups {
		if g.Group == group {
			return g
		}
	}
	return GroupDepth{Group: group}
}

// Depth reads the depth of a queue; group "" leaves it out.
func (c *Client) Depth(queue, group string) Depth {
	path := "/api/v1/ephemeral/queues/" + url.PathEscape(queue) + "/depth"
	if group != "" {
		path += "?group=" + url.QueryEscape(group)
	}
	d := Depth{Answer: c.Get(path)}
	d.decode(&d)
	return d
}

// QueueInfo is one queue of the list.
type QueueInfo struct {
	Queue, Tier                      string
	Depth, Bytes, Partitions, Groups int64
	Drops                            struct{ Bounds, TTL, Retry int64 }
	Options                          map[string]any
}

// Queues is a page of the list.
type Queues struct {
	Answer                  `json:"-"`
	Queues                  []QueueInfo
	Count                   int64
	Next                    string
	CellBytes, CellMaxBytes int64
}

// Find is the queue of that name on the page, nil when it is not there.
func (q Queues) Find(name string) *QueueInfo {
	for i := range q.Queues {
		if q.Queues[i].Queue == name {
			return &q.Queues[i]
		}
	}
	return nil
}

// Queues lists queues; limit 0 leaves it out.
func (c *Client) Queues(prefix, after string, limit int) Queues {
	v := url.Values{}
	if prefix != "" {
		v.Set("prefix", prefix)
	}
	if after != "" {
		v.Set("after", after)
	}
	if limit > 0 {
		v.Set("limit", strconv.Itoa(limit))
	}
	q := Queues{Answer: c.Get("/api/v1/ephemeral/queues?" + v.Encode())}
	q.decode(&q)
	return q
}

// Metrics are the samples of the Prometheus text by name with labels, as written.
func (c *Client) Metrics() (map[string]float64, error) {
	a := c.Get("/metrics/prometheus")
	if a.Err != nil || a.Status != 200 {
		return nil, fmt.Errorf("metrics: %v", a)
	}
	samples := map[string]float64{}
	for line := range strings.Lines(string(a.Body)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		if i < 0 {
			return nil, fmt.Errorf("metrics: line %q", line)
		}
		value, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: line %q: %w", line, err)
		}
		samples[line[:i]] = value
	}
	return samples, nil
}

// Metric is one sample; an error when it is not there.
func (c *Client) Metric(name string) (float64, error) {
	all, err := c.Metrics()
	if err != nil {
		return 0, err
	}
	value, ok := all[name]
	if !ok {
		return 0, fmt.Errorf("metrics: no %s", name)
	}
	return value, nil
}
