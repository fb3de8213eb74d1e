package httpapi

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metric is one time series of the broker, read when it is asked for. No label has values that a caller can choose.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	label []string
	value func(*System) float64
}

func newMetric(kind prometheus.ValueType, name, help string, value func(*System) float64, label ...string) metric {
	var names, values []string
	if len(label) == 2 {
		names, values = label[:1], label[1:]
	}
	return metric{prometheus.NewDesc("queen_"+name, help, names, nil), kind, values, value}
}

// collector turns one read of the broker's gauges into metrics.
type collector struct {
	status  Status
	metrics []metric
}

func newCollector(status Status, inflight *inflight) *collector {
	const (
		count = prometheus.CounterValue
		gauge = prometheus.GaugeValue
	)
	const (
		messages = "Messages pushed, handed out and settled."
		dropped  = "Messages dropped, by cause."
	)
	return &collector{status, []metric{
		newMetric(count, "ephemeral_messages_total", messages, func(s *System) float64 { return float64(s.Engine.Pushed) }, "verb", "push"),
		newMetric(count, "ephemeral_messages_total", messages, func(s *System) float64 { return float64(s.Engine.Popped) }, "verb", "pop"),
		newMetric(count, "ephemeral_messages_total", messages, func(s *System) float64 { return float64(s.Engine.Acked) }, "verb", "ack"),
		newMetric(count, "ephemeral_dropped_total", dropped, func(s *System) float64 { return float64(s.Engine.Drops.Bounds) }, "cause", "bounds"),
		newMetric(count, "ephemeral_dropped_total", dropped, func(s *System) float64 { return float64(s.Engine.Drops.TTL) }, "cause", "ttl"),
		newMetric(count, "ephemeral_dropped_total", dropped, func(s *System) float64 { return float64(s.Engine.Drops.Retry) }, "cause", "retry"),
		newMetric(count, "ephemeral_forwarded_total", "Requests sent on to their owner.", func(s *System) float64 { return float64(s.Forwarded) }),
		newMetric(count, "ephemeral_wipes_total", "Rings emptied because their slot went to another broker.", func(s *System) float64 { return float64(s.Engine.Wipes) }),
		newMetric(count, "ephemeral_moved_messages_total", "Messages that such rings held.", func(s *System) float64 { return float64(s.Engine.Moved) }),
		newMetric(count, "ephemeral_groups_forgotten_total", "Groups forgotten because nobody used them.", func(s *System) float64 { return float64(s.Engine.GroupsForgotten) }),
		newMetric(gauge, "ephemeral_bytes", "Footprint of what is held, as measured against the budget.", func(s *System) float64 { return float64(s.Engine.Bytes) }),
		newMetric(gauge, "ephemeral_max_bytes", "The budget.", func(s *System) float64 { return float64(s.Engine.MaxBytes) }),
		newMetric(gauge, "ephemeral_queues", "Queues held.", func(s *System) float64 { return float64(s.Engine.Queues) }),
		newMetric(gauge, "ephemeral_enabled", "1 unless the kill switch is off.", func(s *System) float64 { return truth(s.Enabled) }),
		newMetric(gauge, "parked_long_polls", "Pops that wait and arrived here.", func(s *System) float64 { return float64(s.ParkedPolls) }),
		newMetric(gauge, "parked_waiters", "Pops that wait on rings held here.", func(s *System) float64 { return float64(s.ParkedWaiters) }),
		newMetric(gauge, "inflight_bytes", "Bytes of bodies being read and answers being written.", func(*System) float64 { return float64(inflight.used.Load()) }),
		newMetric(gauge, "store_up", "1 while the store can be reached.", func(s *System) float64 { return truth(s.StoreUp) }),
		newMetric(gauge, "uptime_seconds", "Seconds since the broker started.", uptime),
	}}
}

// Describe is prometheus.Collector's.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for i := range c.metrics {
		ch <- c.metrics[i].desc
	}
}

// Collect is prometheus.Collector's.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	sys := c.status.System()
	for i := range c.metrics {
		m := &c.metrics[i]
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&sys), m.label...)
	}
}

// metricsHandler serves the text format from a registry of the server's own: several brokers run in one process.
func (s *Server) metricsHandler() (http.Handler, error) {
	registry := prometheus.NewRegistry()
	for _, c := range append([]prometheus.Collector{
		newCollector(s.status, &s.inflight),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}, s.cfg.Collectors...) {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(s.log.Handler(), slog.LevelError),
		ErrorHandling: promhttp.ContinueOnError,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.cfg.WriteTimeout))
		handler.ServeHTTP(w, r)
	}), nil
}

func uptime(s *System) float64 { return time.Since(s.Started).Seconds() }

func truth(v bool) float64 {
	if v {
		return 1
	}
	return 0
}
