package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// client is one keep-alive connection. It does as little as it can, so that the CPU is the server's.
type client struct {
	net.Conn
	r *bufio.Reader
	// body is the last answer's; the next request overwrites it.
	body []byte
}

func dial(addr string) (*client, error) {
	c, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return nil, err
	}
	return &client{Conn: c, r: bufio.NewReaderSize(c, 64<<10)}, nil
}

// dialAll opens n connections; on an error none is left open.
func dialAll(addr string, n int) ([]*client, error) {
	var all []*client
	for range n {
		c, err := dial(addr)
		if err != nil {
			closeAll(all)
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func closeAll(all []*client) {
	for _, c := range all {
		c.Close()
	}
}

var (
	errChunked  = errors.New("an answer without a length")
	lengthField = []byte("Content-Length: ")
)

// receive reads one HTTP answer and returns its status.
func (c *client) receive() (int, error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 12 {
		return 0, fmt.Errorf("status line %q", line)
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return 0, fmt.Errorf("status line %q", line)
	}
	length := -1
	for {
		if line, err = c.r.ReadSlice('\n'); err != nil {
			return 0, err
		}
		if len(line) <= 2 {
			break
		}
		if value, ok := bytes.CutPrefix(line, lengthField); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		}
	}
	if length < 0 {
		return 0, errChunked
	}
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	c.body = c.body[:length]
	_, err = io.ReadFull(c.r, c.body)
	return status, err
}

// do sends a request that was built before and expects a status.
func (c *client) do(request []byte, want int) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	return c.expect(want)
}

func (c *client) expect(want int) error {
	status, err := c.receive()
	if err != nil {
		return err
	}
	if status != want {
		return fmt.Errorf("status %d, want %d: %.200s", status, want, c.body)
	}
	return nil
}

// get and post build requests.
func get(path string) []byte {
	return []byte("GET " + path + " HTTP/1.1\r\nHost: b\r\n\r\n")
}

func post(path string, body []byte) []byte {
	return append([]byte(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: b\r\nContent-Length: %d\r\n\r\n", path, len(body))), body...)
}

var idField = []byte(`"id":"`)

// ids calls f with each message's id in a pop's answer, as it stands in the JSON text, and returns how many there are.
func (c *client) ids(f func(id []byte)) int {
	rest, n := c.body, 0
	for {
		i := bytes.Index(rest, idField)
		if i < 0 {
			return n
		}
		rest = rest[i+len(idField):]
		end := bytes.IndexByte(rest, '"')
		if end < 0 {
			return n
		}
		f(rest[:end])
		rest = rest[end:]
		n++
	}
}
