package httpapi

import (
	"net/http"
	"strings"
)

// segment is the part of the path between prefix and suffix, percent-decoded. It answers false where that is not
// exactly one segment of the path as it was sent: the router matches a decoded path for some requests and the escaped
// one for others, and lets the last parameter of a route run over slashes.
func segment(r *http.Request, prefix, suffix string) (string, bool) {
	s, ok := strings.CutPrefix(r.URL.EscapedPath(), prefix)
	if !ok {
		return "", false
	}
	s, ok = strings.CutSuffix(s, suffix)
	if !ok || s == "" || strings.IndexByte(s, '/') >= 0 {
		return "", false
	}
	if strings.IndexByte(s, '%') < 0 {
		return s, true
	}
	return unescapePercent(s, '+')
}

// queueOf is the queue named by a path. What is not a path of the route is unknown; what cannot name a queue is a bad
// request.
func queueOf(r *http.Request, prefix, suffix string) (string, error) {
	queue, ok := segment(r, prefix, suffix)
	if !ok {
		return "", errNotFound
	}
	return queue, checkQueue(queue)
}
