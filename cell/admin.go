package cell

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/queencell/queencell/declare"
	"github.com/queencell/queencell/engine"
)

// storeTimeout is how long a change waits for the store. A change that has begun is not given up when its client goes:
// store and memory would differ.
const storeTimeout = 5 * time.Second

// Configure declares a queue (contract E2): sent, the options object as it came, is stored, and settings, which is what
// it says, comes into force. Errors: ErrStoreDown, ErrStoreFailed, and what engine.Declare refuses.
func (b *Broker) Configure(ctx context.Context, tenant, queue string, settings engine.Settings, sent []byte) (Served, error) {
	err := b.changing(ctx, func(ctx context.Context) error {
		if _, err := b.cfg.Store.Put(ctx, tenant, queue, sent); err != nil {
			return err
		}
		if err := b.declare(tenant, queue, settings); err != nil {
			// The engine refuses only a queue that it would have to make, so there was no declaration before.
			if _, _, undo := b.cfg.Store.Delete(ctx, tenant, queue); undo != nil {
				b.cfg.Log.Error("a refused declaration stays in the store", "error", undo)
			}
			return err
		}
		return nil
	})
	return b.served(0), err
}

// declare puts a queue's options into force.
func (b *Broker) declare(tenant, queue string, settings engine.Settings) error {
	wakes := b.takeWakes()
	err := b.engine.Declare(b.now(), tenant, queue, b.engine.InForce(settings), wakes)
	b.signal(wakes)
	return err
}

// Delete removes a queue's contents, groups and declaration (contract X2). declared says that there was a declaration,
// deleted that there was anything.
func (b *Broker) Delete(ctx context.Context, tenant, queue string) (deleted, declared bool, served Served, err error) {
	err = b.changing(ctx, func(ctx context.Context) error {
		var err error
		if declared, _, err = b.cfg.Store.Delete(ctx, tenant, queue); err != nil {
			return err
		}
		wakes := b.takeWakes()
		existed := b.engine.Delete(b.now(), tenant, queue, wakes)
		b.signal(wakes)
		deleted = existed || declared
		return nil
	})
	if err != nil {
		return false, false, b.served(0), err
	}
	return deleted, declared, b.served(0), nil
}

// Reset drops the messages of a queue and tells how many they were (contract X1). The store knows nothing of it.
func (b *Broker) Reset(_ context.Context, tenant, queue string) (dropped int64, served Served, err error) {
	if err := b.enabled(); err != nil {
		return 0, b.served(0), err
	}
	wakes := b.takeWakes()
	dropped = b.engine.Reset(b.now(), tenant, queue, wakes)
	b.signal(wakes)
	return dropped, b.served(0), nil
}

// SetEnabled turns the kill switch. The one change that is not refused while the switch is off.
func (b *Broker) SetEnabled(ctx context.Context, enabled bool) error {
	return b.storing(ctx, func(ctx context.Context) error {
		version, err := b.cfg.Store.SetSwitch(ctx, enabled)
		if err != nil {
			return err
		}
		b.turn(declare.Switch{Enabled: enabled, Version: version})
		return nil
	})
}

// turn puts the switch into force. New requests are refused before the parked pops are held back, and served again
// only after they are, so that none overtakes a parked one.
func (b *Broker) turn(s declare.Switch) {
	if !s.Enabled {
		b.kill.Store(&s)
	}
	wakes := b.takeWakes()
	b.engine.SetPaused(b.now(), !s.Enabled, wakes)
	b.signal(wakes)
	if s.Enabled {
		b.kill.Store(&s)
	}
}

// changing is storing for what the kill switch stops.
func (b *Broker) changing(ctx context.Context, change func(context.Context) error) error {
	if err := b.enabled(); err != nil {
		return err
	}
	return b.storing(ctx, change)
}

// storing runs one change at a time, so that store and memory see the same order, and tells the store's refusals as
// this package's. A client that goes while its change waits for its turn has changed nothing.
func (b *Broker) storing(ctx context.Context, change func(context.Context) error) error {
	select {
	case b.change <- struct{}{}:
		defer func() { <-b.change }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	err := change(ctx)
	b.storeUp.Store(!errors.Is(err, declare.ErrUnavailable))
	switch {
	case errors.Is(err, declare.ErrUnavailable):
		return fmt.Errorf("%w: %w", ErrStoreDown, err)
	case errors.Is(err, declare.ErrRefused), errors.Is(err, declare.ErrUnknownOutcome):
		return fmt.Errorf("%w: %w", ErrStoreFailed, err)
	}
	return err
}

// load puts into force what the store holds. It is called once, before the broker serves.
func (b *Broker) load(ctx context.Context) error {
	stored, err := b.cfg.Store.Load(ctx, 0)
	if err != nil {
		return fmt.Errorf("reading the declarations: %w", err)
	}
	b.storeUp.Store(true)
	b.turn(stored.Switch)
	for _, d := range stored.Declarations {
		settings, err := engine.ParseSettings(d.Options)
		if err != nil {
			// Written by another version, perhaps. It stays as it is in the store.
			b.cfg.Log.Warn("a stored declaration has options that this version does not know; the defaults are in force",
				"tenant", d.Tenant, "queue", d.Queue, "error", err)
		}
		if err := b.declare(d.Tenant, d.Queue, settings); err != nil {
			return fmt.Errorf("declaring the %d stored queues: queue %q: %w", len(stored.Declarations), d.Queue, err)
		}
	}
	return nil
}
