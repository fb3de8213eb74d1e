package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/queencell/queencell/cell"
	"github.com/queencell/queencell/declare"
	"github.com/queencell/queencell/engine"
	"github.com/queencell/queencell/httpapi"
)

// serve runs a broker until ctx ends, and drains it then. What is wrong before there is a logger goes to stderr as text.
func serve(ctx context.Context, environ []string, stderr io.Writer) int {
	vars := parseEnviron(environ)
	cfg, err := loadConfig(vars)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	log := newLogger(stderr, &cfg)
	var background sync.WaitGroup
	defer background.Wait()
	if vars["GOMEMLIMIT"] == "" {
		ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
		defer stop()
		background.Go(func() { keepMemoryLimit(ctx, cfg.MaxBytes, cfg.InflightMaxBytes) })
	}
	if err := serveUntil(ctx, &cfg, log); err != nil {
		log.Error("stopped", "error", err)
		return exitFailed
	}
	log.Info("stopped")
	return exitOK
}

// serveUntil puts the parts together, serves until ctx ends or the server fails, and takes them down in the reverse
// order. It returns nil after a clean drain.
func serveUntil(ctx context.Context, cfg *config, log *slog.Logger) (err error) {
	store, err := openStore(cfg.Store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(cfg.Host, strconv.FormatInt(cfg.Port, 10)))
	if err != nil {
		return fmt.Errorf("HOST and PORT: %w", err)
	}
	defer listener.Close() // the server closes it, too
	broker, err := cell.Start(ctx, cell.Config{
		Engine: engineConfig(cfg),
		Store:  store,
		Node:   cfg.Node,
		Name:   cfg.CellName,
		URL:    publicURL(cfg, listener.Addr()),
		Log:    log,
	})
	if err != nil {
		return err
	}
	defer broker.Close()
	face := adapter{broker}
	server, err := httpapi.New(httpapi.Config{
		Node:              cfg.Node,
		MaxBodyBytes:      cfg.MaxBodyBytes,
		InflightMaxBytes:  cfg.InflightMaxBytes,
		PopDefaultTimeout: time.Duration(cfg.PopTimeoutMillis) * time.Millisecond,
		Enabled:           broker.Enabled,
	}, face, face, face, log)
	if err != nil {
		return err
	}

	failed := make(chan error, 1)
	var serving sync.WaitGroup
	defer serving.Wait()
	serving.Go(func() { failed <- server.Serve(listener) })
	log.Info("serving", "addr", listener.Addr().String(), "cell", cfg.CellName, "store", cfg.Store,
		"budgetBytes", cfg.MaxBytes, "version", version)

	select {
	case err = <-failed:
		err = fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
		log.Info("draining", "limit", cfg.Drain.String())
	}
	// Rule G1: the health check fails first, then parked pops are answered, then what is in flight finishes.
	server.Drain()
	broker.Drain()
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Drain)
	defer cancel()
	if closing := server.Close(limit); closing != nil {
		err = errors.Join(err, fmt.Errorf("requests were cut off after %v: %w", cfg.Drain, closing))
	}
	return err
}

func openStore(what string) (declare.Store, error) {
	if path, ok := strings.CutPrefix(what, "file:"); ok {
		return declare.OpenFile(path)
	}
	return declare.OpenMemory(), nil
}

func engineConfig(cfg *config) engine.Config {
	return engine.Config{
		MaxBytes:       cfg.MaxBytes,
		QueueMaxBytes:  cfg.QueueMaxBytes,
		QueueMaxLength: cfg.QueueMaxLength,
		Lease:          time.Duration(cfg.LeaseSeconds) * time.Second,
		RetryLimit:     int(cfg.RetryLimit),
		ImplicitIdle:   time.Duration(cfg.ImplicitIdleSecs) * time.Second,
		GroupIdle:      time.Duration(cfg.GroupIdleSecs) * time.Second,
		MaxGroups:      int(cfg.MaxGroups),
		MaxPartitions:  int(cfg.MaxPartitions),
	}
}

// publicURL is QUEEN_CELL_URL, or else where the broker listens, by the host's name when that is everywhere.
func publicURL(cfg *config, addr net.Addr) string {
	if cfg.URL != "" {
		return strings.TrimRight(cfg.URL, "/")
	}
	host, port, _ := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = hostname()
	}
	return "http://" + net.JoinHostPort(host, port)
}
