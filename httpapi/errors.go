package httpapi

import (
	"errors"
	"net/http"

	"github.com/queencell/queencell/engine"
)

// badRequest is a refusal for the shape of a request; its text goes to the client.
type badRequest string

func (e badRequest) Error() string { return string(e) }

// The refusals of the front-end itself.
var (
	errNotFound     = errors.New("there is no such path")
	errMethod       = errors.New("the path does not take this method")
	errBodyTooLarge = errors.New("the body is too large")
	errEncoding     = errors.New("only the content encoding identity is served")
	errUnknownQueue = errors.New("there is no such queue")
	errInFlight     = errors.New("too many bytes are in flight")
	errDeleteFailed = errors.New("the store refused to delete the declaration")
)

// refusal is how an error is answered.
type refusal struct {
	err    error
	status int
	code   string
	// retryAfter asks the client to come again in a second. It is set where the request was certainly not carried out
	// and repeating it can help.
	retryAfter bool
}

// refusals maps every error that has an answer of its own, once. An error that wraps several takes the first row. The
// text of an answer is that of the row's error, so that what is wrapped around it, like a store's address, stays inside.
var refusals = []refusal{
	{engine.ErrNeverFits, http.StatusBadRequest, "ephemeral_bad_request", false},
	{engine.ErrFull, http.StatusTooManyRequests, "queue_full", true},
	{engine.ErrTenantBytes, http.StatusForbidden, "ephemeral_quota_exceeded", false},
	{engine.ErrTenantQueues, http.StatusForbidden, "ephemeral_quota_exceeded", false},
	{engine.ErrGroups, http.StatusForbidden, "ephemeral_quota_exceeded", false},
	{engine.ErrPartitions, http.StatusForbidden, "ephemeral_quota_exceeded", false},
	{engine.ErrBudget, http.StatusServiceUnavailable, "ephemeral_unavailable", true},
	{engine.ErrRoom, http.StatusServiceUnavailable, "ephemeral_unavailable", true},
	{engine.ErrLeases, http.StatusServiceUnavailable, "ephemeral_unavailable", true},
	{engine.ErrClosed, http.StatusServiceUnavailable, "owner_moved", true},

	{ErrUnknownOutcome, http.StatusServiceUnavailable, "ephemeral_forward_failed", false},
	{ErrMoved, http.StatusServiceUnavailable, "owner_moved", true},
	{ErrDisabled, http.StatusServiceUnavailable, "ephemeral_disabled", true},
	{ErrStoreDown, http.StatusServiceUnavailable, "ephemeral_unavailable", true},
	{errDeleteFailed, http.StatusInternalServerError, "ephemeral_delete_failed", false},
	{ErrStoreFailed, http.StatusInternalServerError, "ephemeral_configure_failed", false},

	{errNotFound, http.StatusNotFound, "not_found", false},
	{errUnknownQueue, http.StatusNotFound, "ephemeral_queue_not_found", false},
	{errMethod, http.StatusMethodNotAllowed, "method_not_allowed", false},
	{errBodyTooLarge, http.StatusRequestEntityTooLarge, "body_too_large", false},
	{errEncoding, http.StatusUnsupportedMediaType, "unsupported_media", false},
	{errInFlight, http.StatusServiceUnavailable, "ephemeral_unavailable", true},
}

// errInternal answers what nobody expected.
var errInternal = refusal{errors.New("internal error"), http.StatusInternalServerError, "internal", false}

// refusalOf finds the answer to an error.
func refusalOf(err error) refusal {
	if bad := badRequest(""); errors.As(err, &bad) {
		return refusal{bad, http.StatusBadRequest, "ephemeral_bad_request", false}
	}
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return r
		}
	}
	return errInternal
}
