package main

import (
	"io"
	"log/slog"
	"strings"
)

// levels are the words of LOG_LEVEL.
var levels = map[string]slog.Level{
	"debug": slog.LevelDebug,
	"info":  slog.LevelInfo,
	"warn":  slog.LevelWarn,
	"error": slog.LevelError,
}

// newLogger writes to w what cfg asks for. Every line names the broker.
func newLogger(w io.Writer, cfg *config) *slog.Logger {
	options := &slog.HandlerOptions{Level: levels[strings.ToLower(cfg.LogLevel)]}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if cfg.LogJSON {
		handler = slog.NewJSONHandler(w, options)
	}
	return slog.New(handler).With("node", cfg.Node)
}
