package broker

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Conn is one connection of a client that writes its requests as text: for what net/http's client will not send, and
// for tens of thousands of parked requests at one goroutine each.
type Conn struct {
	*net.TCPConn
	r *bufio.Reader
}

// Dial connects to the broker.
func (p *Process) Dial() (*Conn, error) {
	c, err := net.DialTimeout("tcp", p.Addr, 20*time.Second)
	if err != nil {
		return nil, err
	}
	return &Conn{c.(*net.TCPConn), bufio.NewReaderSize(c, 1<<10)}, nil
}

// Send writes a request without a body. Each header is a whole line without its end.
func (c *Conn) Send(method, path string, headers ...string) error {
	text := method + " " + path + " HTTP/1.1\r\nHost: broker\r\n"
	for _, h := range headers {
		text += h + "\r\n"
	}
	_, err := io.WriteString(c, text+"\r\n")
	return err
}

// Receive reads one answer.
func (c *Conn) Receive(limit time.Duration) Answer {
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return Answer{Err: err}
	}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return Answer{Err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{Err: fmt.Errorf("read the answer's body: %w", err)}
	}
	if resp.Close {
		resp.Header.Set("Connection", "close") // ReadResponse takes it out
	}
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: body}
}

// Pop sends a pop and reads its answer.
func (c *Conn) Pop(queue string, o PopOptions, limit time.Duration) Popped {
	if err := c.Send("GET", PopPath(queue, o)); err != nil {
		return Popped{Answer: Answer{Err: err}}
	}
	return AsPop(c.Receive(limit))
}

// Reset closes the connection with a reset instead of an orderly end.
func (c *Conn) Reset() error {
	if err := c.SetLinger(0); err != nil {
		return err
	}
	return c.Close()
}

// AsPop reads an answer as a pop's.
func AsPop(a Answer) Popped {
	p := Popped{Answer: a}
	p.decode(&p)
	return p
}
