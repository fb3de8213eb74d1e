package httpapi

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/queencell/queencell/engine"
)

// Values of headers. They are shared by all answers: net/http copies them.
var (
	jsonHeader    = []string{"application/json"}
	nosniffHeader = []string{"nosniff"}
	noStoreHeader = []string{"no-store"}
	closeHeader   = []string{"close"}
	retryHeader   = []string{"1"}
)

// exchange is one request that came to a route, and its answer.
type exchange struct {
	server *Server
	w      *echo.Response
	r      *http.Request
	tenant string
	// held is what the exchange has taken of the bytes in flight.
	held int64
	// mem is set by routes that need it.
	mem *scratch
	// popRequest and popWait are what parsePop read.
	popRequest engine.PopRequest
	popWait    time.Duration
}

// errGone: the client is not there any more. It is answered with nothing, not even with the 200 that net/http would
// send for a handler that wrote nothing: half of a client may still be there to read it.
var errGone = errors.New("the client has gone")

// handle makes the router's handler of a route.
func (s *Server) handle(rt route) echo.HandlerFunc {
	return func(c echo.Context) error {
		x := s.pools.exchange()
		x.server, x.w, x.r = s, c.Response(), c.Request()
		panicked, cut, err := x.run(&rt)
		s.inflight.release(x.held)
		if cut {
			panic(http.ErrAbortHandler)
		}
		if panicked {
			return nil // x may be in any state and is not used again
		}
		gone := errors.Is(err, errGone) || (errors.Is(err, context.Canceled) && x.r.Context().Err() != nil)
		if err != nil && !gone {
			s.refuse(x.w, x.r, err)
		}
		s.pools.put(x)
		if gone {
			panic(http.ErrAbortHandler)
		}
		return nil
	}
}

// run serves the exchange, and answers for a handler that panics. cut says that its answer had begun already, and can
// only be cut off.
func (x *exchange) run(rt *route) (panicked, cut bool, err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		s := x.server
		id := s.knownID(x.w)
		s.log.Error("a request panicked", "request", id, "method", x.r.Method, "path", x.r.URL.Path, "panic", p,
			"stack", string(debug.Stack()))
		panicked, cut = true, x.w.Committed
		if !cut {
			s.writeRefusal(x.w, errInternal, id)
		}
	}()
	tenant, err := x.server.cfg.Admit(x.r, rt.level)
	if err != nil {
		return false, false, err
	}
	x.tenant = tenant
	return false, false, rt.serve(x)
}

// refuse answers with an error. What nobody expected, and what the store refused, is logged here and nowhere else.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	refused := refusalOf(err)
	id := ""
	if refused.status == http.StatusInternalServerError {
		id = s.knownID(w)
		s.log.Error("a request failed", "request", id, "method", r.Method, "path", r.URL.Path, "code", refused.code,
			"error", err)
	}
	if refused.status == http.StatusRequestEntityTooLarge || refused.status == http.StatusUnsupportedMediaType {
		w.Header()["Connection"] = closeHeader // the rest of the body is not waited for
	}
	s.writeRefusal(w, refused, id)
}

// writeRefusal writes {"error","code"}; an id is made part of the text.
func (s *Server) writeRefusal(w http.ResponseWriter, refused refusal, id string) {
	text := refused.err.Error()
	if id != "" {
		text += " (request " + id + ")"
	}
	if refused.retryAfter {
		w.Header()["Retry-After"] = retryHeader
	}
	body := appendText([]byte{'{'}, "error", text)
	body = append(appendText(body, "code", refused.code), '}')
	_ = s.write(w, refused.status, body)
}

// write writes an answer with its length. The deadline for it begins now, so that none runs while a pop waits.
func (s *Server) write(w http.ResponseWriter, status int, body []byte) error {
	h := w.Header()
	h["Content-Type"] = jsonHeader
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	limit := s.cfg.WriteTimeout + time.Duration(len(body)>>16)*time.Second
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit))
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

// answer writes the answer of a route.
func (x *exchange) answer(status int, body []byte) error {
	return x.server.write(x.w, status, body)
}

// served sets the headers that tell where the request was served.
func (x *exchange) served(by Served) {
	if by.Node != "" && by.Node != x.server.cfg.Node {
		x.w.Header()["Queen-Served-By"] = []string{by.Node}
	}
	if by.OneRing {
		var b [16]byte
		x.w.Header()["Queen-Incarnation"] = []string{string(engine.AppendIncarnation(b[:0], by.Incarnation))}
	}
}

// hold takes n of the bytes in flight until the exchange ends.
func (x *exchange) hold(n int64) bool {
	if !x.server.inflight.take(n) {
		return false
	}
	x.held += n
	if n >= largeBytes {
		x.server.inflight.tidy()
	}
	return true
}

// forceHold is hold for what can't be refused any more.
func (x *exchange) forceHold(n int64) {
	x.server.inflight.force(n)
	x.held += n
}

// maxRequestID is the longest request id that is taken from a client.
const maxRequestID = 128

// requestID is the id that the client gave the request, if it is a plain one: it goes into logs and a header.
func requestID(r *http.Request) ([]string, bool) {
	sent := r.Header["X-Request-Id"]
	if len(sent) != 1 || len(sent[0]) == 0 || len(sent[0]) > maxRequestID {
		return nil, false
	}
	for i := 0; i < len(sent[0]); i++ {
		if c := sent[0][i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' {
			return nil, false
		}
	}
	return sent, true
}

// knownID is the id of the request, which it gets now if the client gave none.
func (s *Server) knownID(w http.ResponseWriter) string {
	if id := w.Header()["X-Request-Id"]; len(id) == 1 {
		return id[0]
	}
	id := string(engine.AppendIncarnation(nil, rand.Uint64()))
	w.Header()["X-Request-Id"] = []string{id}
	return id
}
