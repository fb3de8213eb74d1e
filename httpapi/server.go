package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/labstack/echo/v4"
)

// Server is the front-end of one broker.
type Server struct {
	cfg    Config
	broker Broker
	admin  Admin
	status Status
	log    *slog.Logger

	router   *echo.Echo
	http     *http.Server
	conns    conns
	inflight inflight
	pools    pools
	// servedBy is the header's value for answers from here.
	servedBy []string
	draining atomic.Bool

	mu       sync.Mutex
	listener net.Listener // guarded by mu
	closed   bool         // guarded by mu
}

// New returns a server that does not listen yet. It fails when the configuration is out of range or one of its
// collectors is refused.
func New(cfg Config, broker Broker, admin Admin, status Status, log *slog.Logger) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, broker: broker, admin: admin, status: status, log: log}
	s.servedBy = []string{cfg.Node}
	s.inflight.limit = cfg.InflightMaxBytes
	if s.cfg.Enabled == nil {
		s.cfg.Enabled = func() bool { return status.System().Enabled }
	}
	if s.cfg.Admit == nil {
		s.cfg.Admit = func(*http.Request, Level) (string, error) { return DefaultTenant, nil }
	}
	prometheus, err := s.metricsHandler()
	if err != nil {
		return nil, fmt.Errorf("httpapi: %w", err)
	}
	s.router = s.routes(prometheus)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	s.http = &http.Server{
		Handler:           s,
		Protocols:         protocols,
		ReadHeaderTimeout: cfg.HeaderTimeout,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ConnState:         s.conns.changed,
		// OPTIONS * is a path that nobody serves, like any other.
		DisableGeneralOptionsHandler: true,
	}
	return s, nil
}

// Handler is the server's handler, for a server of the caller's.
func (s *Server) Handler() http.Handler { return s }

// Serve answers the connections of l until Close, and then returns nil. It closes l.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.closed || s.listener != nil {
		closed := s.closed
		s.mu.Unlock()
		_ = l.Close()
		if closed {
			return nil
		}
		return errors.New("httpapi: the server serves already")
	}
	s.listener = l
	s.mu.Unlock()
	err := s.http.Serve(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	return err
}

// Drain makes /health answer 503 and every answer close its connection, so that clients and load balancers turn away.
// Idle connections stay until they are used once more: none is cut under a request that is on its way.
func (s *Server) Drain() { s.draining.Store(true) }

// Close stops listening and waits for the requests under way. When ctx ends first, it cuts them off. It returns when
// every connection has ended; it may be called more than once, and before Serve. The error says that requests were cut.
func (s *Server) Close(ctx context.Context) error {
	s.Drain()
	s.mu.Lock()
	s.closed = true
	listener := s.listener
	s.mu.Unlock()
	if listener != nil {
		_ = listener.Close()
	}
	// A connection on which nothing has come yet would hold the shutdown for seconds.
	s.conns.closeNew()
	err := s.http.Shutdown(ctx)
	if ctx.Err() != nil && err != nil {
		_ = s.http.Close()
		s.conns.wait()
		return fmt.Errorf("httpapi: requests were cut off: %w", err)
	}
	s.conns.wait()
	return nil // Shutdown may have minded that the listener was closed already
}
