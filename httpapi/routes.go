package httpapi

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// The paths.
const (
	family      = "/api/v1/ephemeral/"
	popPath     = family + "pop"
	queuePrefix = family + "queue/"
	depthPrefix = family + "queues/"
	depthSuffix = "/depth"
	systemPath  = "/api/v1/system/ephemeral"
)

// route is one method of one path.
type route struct {
	method, path string
	level        Level
	serve        func(*exchange) error
}

var table = []route{
	{http.MethodPost, family + "push", WriteOnly, (*exchange).push},
	{http.MethodGet, popPath, ReadWrite, (*exchange).pop},
	{http.MethodPost, family + "ack", ReadWrite, (*exchange).ack},
	{http.MethodPost, family + "configure", ReadWrite, (*exchange).configure},
	{http.MethodPost, family + "reset", ReadWrite, (*exchange).reset},
	{http.MethodDelete, queuePrefix + ":queue", ReadWrite, (*exchange).deleteQueue},
	{http.MethodGet, family + "queues", ReadOnly, (*exchange).queues},
	{http.MethodGet, depthPrefix + ":queue" + depthSuffix, ReadOnly, (*exchange).depth},
	{http.MethodGet, systemPath, Administrator, (*exchange).system},
	{http.MethodPost, systemPath, Administrator, (*exchange).setSystem},
	{http.MethodGet, "/health", Public, (*exchange).health},
	{http.MethodGet, "/health/live", Public, (*exchange).live},
	{http.MethodGet, "/api/v1/cell", ReadOnly, (*exchange).cell},
	{http.MethodGet, "/api/v1/cell/owner", ReadOnly, (*exchange).cellOwner},
	{http.MethodGet, "/metrics", Public, (*exchange).metrics},
}

// prometheusPath is served by the library's handler and so is not in the table.
const prometheusPath = "/metrics/prometheus"

// routes builds the router. Each path answers methods that it does not take itself: echo's own answer to them differs
// by method and names OPTIONS, which nobody serves.
func (s *Server) routes(prometheus http.Handler) *echo.Echo {
	e := echo.New()
	e.HTTPErrorHandler = s.routerError
	methods := make(map[string][]string)
	for _, r := range table {
		e.Add(r.method, r.path, s.handle(r))
		methods[r.path] = append(methods[r.path], r.method)
	}
	e.GET(prometheusPath, echo.WrapHandler(prometheus))
	methods[prometheusPath] = []string{http.MethodGet}
	for path, allowed := range methods {
		slices.Sort(allowed)
		e.RouteNotFound(path, s.wrongMethod(strings.Join(allowed, ", ")))
	}
	return e
}

// wrongMethod answers a path that is known, by a method that is not.
func (s *Server) wrongMethod(allow string) echo.HandlerFunc {
	return func(c echo.Context) error {
		if prefix, suffix, ok := strings.Cut(c.Path(), ":queue"); ok {
			if _, ok := segment(c.Request(), prefix, suffix); !ok {
				return errNotFound
			}
		}
		c.Response().Header().Set("Allow", allow)
		return errMethod
	}
}

// routerError answers what did not come to a route.
func (s *Server) routerError(err error, c echo.Context) {
	var he *echo.HTTPError
	if errors.As(err, &he) && he.Code == http.StatusNotFound {
		err = errNotFound
	}
	s.refuse(c.Response(), c.Request(), err)
}

// ServeHTTP does what every request needs, asks the kill switch, and hands on to the router.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["X-Content-Type-Options"] = nosniffHeader
	if id, ok := requestID(r); ok {
		h["X-Request-Id"] = id
	}
	if s.draining.Load() {
		h["Connection"] = closeHeader
	}
	if r.ContentLength != 0 {
		// However little of the body the route reads, net/http wants the rest of it before it goes on.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.cfg.BodyTimeout))
	}
	if strings.HasPrefix(r.URL.Path, family) {
		h["Queen-Served-By"] = s.servedBy
		if r.URL.Path == popPath {
			h["Cache-Control"] = noStoreHeader
		}
		if !s.cfg.Enabled() {
			s.refuse(w, r, ErrDisabled)
			return
		}
	}
	s.router.ServeHTTP(w, r)
}
