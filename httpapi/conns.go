package httpapi

import (
	"net"
	"net/http"
	"sync"
)

// conns are the open connections of a server: net/http can't be asked to wait until their goroutines have ended.
type conns struct {
	mu    sync.Mutex
	state map[net.Conn]bool // guarded by mu; true: nothing has been read yet
	none  chan struct{}     // guarded by mu; closed when state is empty, nil while nobody waits
}

// changed is the server's ConnState.
func (c *conns) changed(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew, http.StateClosed, http.StateHijacked:
	case http.StateActive:
		// Called for each request; only the first one of a connection changes anything.
	default:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		if c.state == nil {
			c.state = make(map[net.Conn]bool)
		}
		c.state[conn] = true
	case http.StateActive:
		if c.state[conn] {
			c.state[conn] = false
		}
	default:
		delete(c.state, conn)
		if len(c.state) == 0 && c.none != nil {
			close(c.none)
			c.none = nil
		}
	}
}

// closeNew closes the connections on which nothing has come.
func (c *conns) closeNew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn, fresh := range c.state {
		if fresh {
			_ = conn.Close()
		}
	}
}

// wait blocks until there is no connection.
func (c *conns) wait() {
	c.mu.Lock()
	if len(c.state) == 0 {
		c.mu.Unlock()
		return
	}
	if c.none == nil {
		c.none = make(chan struct{})
	}
	none := c.none
	c.mu.Unlock()
	<-none
}
