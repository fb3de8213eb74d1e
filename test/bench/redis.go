package main

import (
	"fmt"
	"io"
	"strconv"
)

// command appends a command of Redis's protocol.
func command(b []byte, args ...string) []byte {
	b = fmt.Appendf(b, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}

// reply reads one reply of Redis's protocol: string, int64, []any or nil.
func (c *client) reply() (any, error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, fmt.Errorf("redis: line %q", line)
	}
	kind, text := line[0], string(line[1:len(line)-2])
	switch kind {
	case '+':
		return text, nil
	case '-':
		return nil, fmt.Errorf("redis: %s", text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("redis: line %q", line)
	}
	switch kind {
	case ':':
		return n, nil
	case '$':
		if n < 0 {
			return nil, nil
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, b); err != nil {
			return nil, err
		}
		return string(b[:n]), nil
	case '*':
		if n < 0 {
			return nil, nil
		}
		items := make([]any, n)
		for i := range items {
			if items[i], err = c.reply(); err != nil {
				return nil, err
			}
		}
		return items, nil
	}
	return nil, fmt.Errorf("redis: a reply of kind %q", kind)
}

func (c *client) call(args ...string) (any, error) {
	if _, err := c.Write(command(nil, args...)); err != nil {
		return nil, err
	}
	return c.reply()
}

// redisList pushes at one end of a list and pops at the other. There is no ack: what is popped is gone.
type redisList struct {
	*client
	key string
}

func openRedisList(addr string, worker int) (driver, error) {
	c, err := dialPeer(addr)
	return &redisList{c, fmt.Sprintf("l%d", worker)}, err
}

func (d *redisList) produce(n, batch int) error {
	args := []string{"LPUSH", d.key}
	for range batch {
		args = append(args, payload())
	}
	request := command(nil, args...)
	for ; n > 0; n -= batch {
		if _, err := d.Write(request); err != nil {
			return err
		}
		if _, err := d.reply(); err != nil {
			return err
		}
	}
	return nil
}

func (d *redisList) consume(n, batch int) error {
	for n > 0 {
		r, err := d.call("RPOP", d.key, strconv.Itoa(batch))
		if err != nil {
			return err
		}
		items, ok := r.([]any)
		if !ok || len(items) == 0 {
			return fmt.Errorf("redis: %d messages are missing", n)
		}
		n -= len(items)
	}
	return nil
}

// redisStream adds to a stream and reads it as a group's consumer, with ack and delete.
type redisStream struct {
	*client
	key string
}

func openRedisStream(addr string, worker int) (driver, error) {
	c, err := dialPeer(addr)
	if err != nil {
		return nil, err
	}
	d := &redisStream{c, fmt.Sprintf("s%d", worker)}
	_, err = d.call("XGROUP", "CREATE", d.key, "g", "$", "MKSTREAM")
	return d, err
}

func (d *redisStream) produce(n, batch int) error {
	var request []byte
	for range batch {
		request = command(request, "XADD", d.key, "*", "p", payload())
	}
	for ; n > 0; n -= batch {
		if _, err := d.Write(request); err != nil {
			return err
		}
		for range batch {
			if _, err := d.reply(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *redisStream) consume(n, batch int) error {
	for n > 0 {
		r, err := d.call("XREADGROUP", "GROUP", "g", "c", "COUNT", strconv.Itoa(batch), "STREAMS", d.key, ">")
		if err != nil {
			return err
		}
		ids := streamIDs(r)
		if len(ids) == 0 {
			return fmt.Errorf("redis: %d messages are missing", n)
		}
		request := command(nil, append([]string{"XACK", d.key, "g"}, ids...)...)
		if _, err := d.Write(command(request, append([]string{"XDEL", d.key}, ids...)...)); err != nil {
			return err
		}
		for range 2 {
			if _, err := d.reply(); err != nil {
				return err
			}
		}
		n -= len(ids)
	}
	return nil
}

// streamIDs finds the ids in [[key, [[id, fields], ...]]].
func streamIDs(r any) []string {
	var ids []string
	streams, _ := r.([]any)
	for _, s := range streams {
		pair, _ := s.([]any)
		if len(pair) != 2 {
			continue
		}
		entries, _ := pair[1].([]any)
		for _, e := range entries {
			if entry, _ := e.([]any); len(entry) == 2 {
				if id, ok := entry[0].(string); ok {
					ids = append(ids, id)
				}
			}
		}
	}
	return ids
}
