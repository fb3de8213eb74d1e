package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Level is what a route asks of who calls it.
type Level uint8

// The levels of the routes.
const (
	Public Level = iota
	ReadOnly
	WriteOnly
	ReadWrite
	Administrator
)

// Config is what a Server is made with. Durations of zero take the defaults that are named.
type Config struct {
	// Node is the broker's name, for Queen-Served-By.
	Node string
	// MaxBodyBytes bounds a request's body.
	MaxBodyBytes int64
	// InflightMaxBytes bounds the bytes of bodies being read and of answers being written, all together (contract B8).
	InflightMaxBytes int64
	// PopDefaultTimeout is how long a pop waits that asks to wait and does not say how long.
	PopDefaultTimeout time.Duration

	// HeaderTimeout is how long the header of a request may take: 10 s.
	HeaderTimeout time.Duration
	// BodyTimeout is how long the body may take, and a third of it more for each MiB that has come: 30 s.
	BodyTimeout time.Duration
	// WriteTimeout is how long the client may take to read an answer, and 1 s more for each 64 KiB of it: 30 s.
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection may be idle between requests: 90 s. It must be longer than that of a load
	// balancer in front, or the balancer sends requests into connections that are being closed.
	IdleTimeout time.Duration

	// Enabled reads the kill switch, for every request. Nil asks Status.System.
	Enabled func() bool
	// Admit tells the tenant of a request, or refuses it. It is called before anything of the body is read. Nil lets
	// everybody in as DefaultTenant.
	Admit func(r *http.Request, level Level) (tenant string, err error)
	// Collectors are shown on /metrics/prometheus beside the front-end's own.
	Collectors []prometheus.Collector
}

// maxHeaderBytes bounds the header of a request.
const maxHeaderBytes = 64 << 10

// complete checks the configuration and fills in the defaults.
func (c *Config) complete() error {
	for _, f := range []struct {
		name string
		ok   bool
	}{
		{"Node", c.Node != ""},
		{"MaxBodyBytes", c.MaxBodyBytes > 0},
		{"InflightMaxBytes", c.InflightMaxBytes > 0},
		{"PopDefaultTimeout", c.PopDefaultTimeout >= 0 && c.PopDefaultTimeout <= maxPopTimeout},
	} {
		if !f.ok {
			return fmt.Errorf("httpapi: %s is out of range", f.name)
		}
	}
	for _, d := range []struct {
		name     string
		value    *time.Duration
		standard time.Duration
	}{
		{"HeaderTimeout", &c.HeaderTimeout, 10 * time.Second},
		{"BodyTimeout", &c.BodyTimeout, 30 * time.Second},
		{"WriteTimeout", &c.WriteTimeout, 30 * time.Second},
		{"IdleTimeout", &c.IdleTimeout, 90 * time.Second},
	} {
		if *d.value < 0 {
			return fmt.Errorf("httpapi: %s is out of range", d.name)
		}
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	return nil
}
