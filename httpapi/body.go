package httpapi

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// bodyStep is how much of a body is read before its deadline is moved on.
	bodyStep = 1 << 20
	// chunkStep is what a body of unknown length takes of the bytes in flight at first; then it doubles.
	chunkStep = 16 << 10
	// maxIgnoredBody is the longest body of a request that has no use for one.
	maxIgnoredBody = 64 << 10
)

const (
	errCutBody  = badRequest("the body ended before it was whole, or is not framed as HTTP")
	errSlowBody = badRequest("the body came too slowly")
)

// readBody reads the request's body into the exchange's memory. Its length is taken of the bytes in flight before it is
// read (contract B8); a body that does not say its length takes more as it grows. A body that is too large is found
// without reading it all. Afterwards no read deadline runs, so that net/http can watch for the client's going.
func (x *exchange) readBody() ([]byte, error) {
	for _, encoding := range x.r.Header["Content-Encoding"] {
		if encoding != "" && !strings.EqualFold(encoding, "identity") {
			return nil, errEncoding
		}
	}
	var err error
	switch n := x.r.ContentLength; {
	case n == 0:
		x.mem.body = x.mem.body[:0]
		return x.mem.body, nil
	case n > x.server.cfg.MaxBodyBytes:
		return nil, errBodyTooLarge
	case n > 0:
		err = x.readSized(int(n))
	default:
		err = x.readChunked()
	}
	if err != nil {
		return nil, x.bodyError(err)
	}
	_ = http.NewResponseController(x.w.Writer).SetReadDeadline(time.Time{})
	return x.mem.body, nil
}

// readSized reads a body of n bytes.
func (x *exchange) readSized(n int) error {
	if !x.hold(int64(n)) {
		return errInFlight
	}
	if cap(x.mem.body) < n {
		x.mem.body = make([]byte, n)
	}
	x.mem.body = x.mem.body[:n]
	start := time.Time{}
	for done := 0; done < n; {
		part := min(bodyStep, n-done)
		if _, err := io.ReadFull(x.r.Body, x.mem.body[done:done+part]); err != nil {
			return err
		}
		if done += part; done < n {
			start = x.extend(start, done)
		}
	}
	return nil
}

// readChunked reads a body that does not say its length.
func (x *exchange) readChunked() error {
	// The reader tells net/http that the rest is not wanted when the limit is passed.
	body := http.MaxBytesReader(x.w.Writer, x.r.Body, x.server.cfg.MaxBodyBytes)
	x.mem.body = x.mem.body[:0]
	room, start := 0, time.Time{}
	for {
		if len(x.mem.body) == room {
			more := max(chunkStep, room)
			if !x.hold(int64(more)) {
				return errInFlight
			}
			room += more
			if cap(x.mem.body) < room {
				x.mem.body = append(make([]byte, 0, room), x.mem.body...)
			}
		}
		before := len(x.mem.body)
		n, err := body.Read(x.mem.body[before:room])
		x.mem.body = x.mem.body[:before+n]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if before/bodyStep != (before+n)/bodyStep {
			start = x.extend(start, before+n)
		}
	}
}

// extend moves the deadline on for a body of which done bytes have come since start, which is now the first time.
func (x *exchange) extend(start time.Time, done int) time.Time {
	if start.IsZero() {
		start = time.Now()
	}
	timeout := x.server.cfg.BodyTimeout
	limit := timeout + timeout/3*time.Duration(done/bodyStep)
	_ = http.NewResponseController(x.w.Writer).SetReadDeadline(start.Add(limit))
	return start
}

// bodyError tells why a body could not be read, and has the connection closed: what comes next on it is not known to be
// a request.
func (x *exchange) bodyError(err error) error {
	if errors.Is(err, errInFlight) {
		return err
	}
	x.w.Header()["Connection"] = closeHeader
	var tooLarge *http.MaxBytesError
	var slow interface{ Timeout() bool }
	switch {
	case errors.As(err, &tooLarge):
		return errBodyTooLarge
	case errors.As(err, &slow) && slow.Timeout():
		return errSlowBody
	}
	return errCutBody
}

// ignoreBody reads away the body of a request that has no use for one and may wait: net/http begins to watch for the
// client's going when the body has been read.
func (x *exchange) ignoreBody() error {
	if x.r.ContentLength == 0 {
		return nil
	}
	if x.r.ContentLength > maxIgnoredBody {
		return errBodyTooLarge
	}
	_, err := io.Copy(io.Discard, http.MaxBytesReader(x.w.Writer, x.r.Body, maxIgnoredBody))
	if err != nil {
		return x.bodyError(err)
	}
	_ = http.NewResponseController(x.w.Writer).SetReadDeadline(time.Time{})
	return nil
}
