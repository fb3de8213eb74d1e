package httpapi

import (
	"errors"
	"fmt"
	"net/http"
)

// configure declares a queue (contract E2).
func (x *exchange) configure() error {
	m := x.server.pools.scratch()
	x.mem = m
	body, err := x.readBody()
	if err != nil {
		return err
	}
	queue, settings, sent, err := decodeConfigure(&m.scanner, body)
	if err != nil {
		return err
	}
	served, err := x.server.admin.Configure(x.r.Context(), x.tenant, queue, settings, sent)
	x.served(served)
	if err != nil {
		return err
	}
	m.out = appendText(append(m.out[:0], '{'), "queue", queue)
	m.out = append(append(appendMember(m.out, "options"), sent...), '}')
	_ = x.answer(http.StatusCreated, m.out)
	return nil
}

// reset drops a queue's messages (contract X1).
func (x *exchange) reset() error {
	m := x.server.pools.scratch()
	x.mem = m
	body, err := x.readBody()
	if err != nil {
		return err
	}
	queue, err := decodeReset(&m.scanner, body)
	if err != nil {
		return err
	}
	dropped, served, err := x.server.admin.Reset(x.r.Context(), x.tenant, queue)
	x.served(served)
	if err != nil {
		return err
	}
	m.out = appendText(append(m.out[:0], '{'), "queue", queue)
	m.out = append(appendInt(m.out, "dropped", dropped), '}')
	_ = x.answer(http.StatusOK, m.out)
	return nil
}

// deleteQueue removes a queue (contract X2).
func (x *exchange) deleteQueue() error {
	queue, err := queueOf(x.r, queuePrefix, "")
	if err != nil {
		return err
	}
	deleted, declared, served, err := x.server.admin.Delete(x.r.Context(), x.tenant, queue)
	x.served(served)
	if errors.Is(err, ErrStoreFailed) {
		return fmt.Errorf("%w: %w", errDeleteFailed, err)
	}
	if err != nil {
		return err
	}
	out := appendText([]byte{'{'}, "queue", queue)
	out = appendBool(out, "deleted", deleted)
	_ = x.answer(http.StatusOK, append(appendBool(out, "declared", declared), '}'))
	return nil
}

// system shows the kill switch.
func (x *exchange) system() error {
	sys := x.server.status.System()
	out := appendBool([]byte{'{'}, "ephemeralEnabled", sys.Enabled)
	out = appendInt(out, "cellBytes", sys.Engine.Bytes)
	out = appendInt(out, "cellMaxBytes", sys.Engine.MaxBytes)
	out = appendInt(out, "queues", sys.Engine.Queues)
	out = appendInt(out, "grantedTenants", int64(sys.GrantedTenants))
	out = appendBool(out, "requireGrant", sys.RequireGrant)
	out = appendInt(out, "epoch", int64(sys.Epoch))
	_ = x.answer(http.StatusOK, append(out, '}'))
	return nil
}

// setSystem turns the kill switch and shows it.
func (x *exchange) setSystem() error {
	m := x.server.pools.scratch()
	x.mem = m
	body, err := x.readBody()
	if err != nil {
		return err
	}
	enabled, err := decodeSwitch(&m.scanner, body)
	if err != nil {
		return err
	}
	if err := x.server.admin.SetEnabled(x.r.Context(), enabled); err != nil {
		return err
	}
	return x.system()
}
