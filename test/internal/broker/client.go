package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client sends requests to one broker. Its methods never fail a test: an Answer tells what became of the request, and a
// test decides.
type Client struct {
	URL  string
	HTTP *http.Client
}

// NewClient makes a client that opens as many connections as it has requests under way. No request takes longer than
// the longest wait.
func NewClient(url string) *Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return &Client{URL: url, HTTP: &http.Client{
		Timeout: 320 * time.Second,
		Transport: &http.Transport{
			DialContext:         dialer.DialContext,
			MaxIdleConns:        0,
			MaxIdleConnsPerHost: 256,
			DisableCompression:  true,
		},
	}}
}

// Close closes the idle connections.
func (c *Client) Close() { c.HTTP.CloseIdleConnections() }

// Answer is a complete answer, or the error that came instead (Status 0).
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Err    error
}

// Code is the code of a failure.
func (a Answer) Code() string {
	var failure struct{ Error, Code string }
	if json.Unmarshal(a.Body, &failure) != nil {
		return ""
	}
	return failure.Code
}

// String is for messages of failed tests.
func (a Answer) String() string {
	if a.Err != nil {
		return a.Err.Error()
	}
	return fmt.Sprintf("%d %.300s", a.Status, a.Body)
}

// Do sends one request. body may be nil.
func (c *Client) Do(ctx context.Context, method, path string, body io.Reader, header ...string) Answer {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, body)
	if err != nil {
		return Answer{Err: err}
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return Answer{Err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{Err: fmt.Errorf("read the answer's body: %w", err)}
	}
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: text}
}

// Get and Post are Do without a deadline of their own.
func (c *Client) Get(path string) Answer { return c.Do(context.Background(), "GET", path, nil) }

// Post sends a JSON text.
func (c *Client) Post(path, body string) Answer {
	return c.Do(context.Background(), "POST", path, strings.NewReader(body))
}

// PushBody is the body of a push of JSON texts.
func PushBody(queue, partition string, payloads ...string) []byte {
	var b bytes.Buffer
	b.WriteString(`{"queue":` + Quote(queue))
	if partition != "" {
		b.WriteString(`,"partition":` + Quote(partition))
	}
	b.WriteString(`,"messages":[`)
	for i, payload := range payloads {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"payload":` + payload + `}`)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

// Quote is s as a JSON string.
func Quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		return `""` // a string always marshals
	}
	return string(text)
}

// Push pushes JSON texts.
func (c *Client) Push(queue, partition string, payloads ...string) Answer {
	return c.Do(context.Background(), "POST", "/api/v1/ephemeral/push", bytes.NewReader(PushBody(queue, partition, payloads...)))
}

// PopOptions are the query of a pop; zero values are left out.
type PopOptions struct {
	Partition, Group string
	Batch            int
	// Wait makes it wait, for Timeout when that is above zero, else for the broker's default.
	Wait    bool
	Timeout time.Duration
	AutoAck bool
	// Context is the client's patience; nil is forever.
	Context context.Context
}

// PopPath is the path and query of a pop.
func PopPath(queue string, o PopOptions) string {
	q := url.Values{"queue": {queue}}
	for name, value := range map[string]string{"partition": o.Partition, "group": o.Group} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if o.Batch != 0 {
		q.Set("batch", strconv.Itoa(o.Batch))
	}
	if o.Wait {
		q.Set("wait", "true")
		if o.Timeout > 0 {
			q.Set("timeout", strconv.FormatInt(o.Timeout.Milliseconds(), 10))
		}
	}
	if o.AutoAck {
		q.Set("autoAck", "true")
	}
	return "/api/v1/ephemeral/pop?" + q.Encode()
}

// Message is one delivered message.
type Message struct {
	ID        string          `json:"id"`
	Partition string          `json:"partition"`
	Attempts  int             `json:"attempts"`
	Payload   json.RawMessage `json:"payload"`
}

// Popped is the answer to a pop.
type Popped struct {
	Answer   `json:"-"`
	Queue    string    `json:"queue"`
	Messages []Message `json:"messages"`
}

// IDs are the ids of the messages, in order.
func (p Popped) IDs() []string {
	ids := make([]string, len(p.Messages))
	for i, m := range p.Messages {
		ids[i] = m.ID
	}
	return ids
}

// Payloads are the payloads, in order, joined by a space.
func (p Popped) Payloads() string {
	texts := make([]string, len(p.Messages))
	for i, m := range p.Messages {
		texts[i] = string(m.Payload)
	}
	return strings.Join(texts, " ")
}

// Pop pops.
func (c *Client) Pop(queue string, o PopOptions) Popped {
	ctx := o.Context
	if ctx == nil {
		ctx = context.Background()
	}
	p := Popped{Answer: c.Do(ctx, "GET", PopPath(queue, o), nil)}
	p.decode(&p)
	return p
}

// decode reads the body of a success into v; a body of another form becomes the answer's error.
func (a *Answer) decode(v any) {
	if a.Err != nil || a.Status < 200 || a.Status > 299 {
		return
	}
	if err := json.Unmarshal(a.Body, v); err != nil {
		a.Err = fmt.Errorf("answer %.200q: %w", a.Body, err)
	}
}

// Acked is the answer to an ack.
type Acked struct {
	Answer  `json:"-"`
	Results []struct{ ID, Outcome string } `json:"results"`
}

// Outcomes are the outcomes, in order, joined by a space.
func (a Acked) Outcomes() string {
	words := make([]string, len(a.Results))
	for i, r := range a.Results {
		words[i] = r.Outcome
	}
	return strings.Join(words, " ")
}

// Ack acks ids with one status; the status "" is left out.
func (c *Client) Ack(queue, group, status string, ids ...string) Acked {
	type item struct {
		ID     string `json:"id"`
		Status string `json:"status,omitempty"`
	}
	body := struct {
		Queue string `json:"queue"`
		Group string `json:"group,omitempty"`
		Acks  []item `json:"acks"`
	}{queue, group, []item{}}
	for _, id := range ids {
		body.Acks = append(body.Acks, item{id, status})
	}
	text, err := json.Marshal(body)
	if err != nil {
		return Acked{Answer: Answer{Err: err}}
	}
	a := Acked{Answer: c.Post("/api/v1/ephemeral/ack", string(text))}
	a.decode(&a)
	return a
}
