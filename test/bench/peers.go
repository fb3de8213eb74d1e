package main

import (
	"errors"
	"fmt"
	"time"
)

// peer is another server that does the same work, as near as it can.
type peer struct {
	binary, label string
	args          []string
	open          func(addr string, worker int) (driver, error)
}

func peers() []peer {
	redis := []string{"--port", "%d", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"}
	return []peer{
		{"redis-server", "redis lists", redis, openRedisList},
		{"redis-server", "redis streams", redis, openRedisStream},
		{"beanstalkd", "beanstalkd", []string{"-l", "127.0.0.1", "-p", "%d"}, openBeanstalk},
	}
}

// unsupported are servers that one may look for here and that this program does not speak to.
var unsupported = []string{"nats-server", "nsqd", "rabbitmq-server"}

func (b *bench) peerThroughput(batch, n int) error {
	var failed []error
	for _, p := range peers() {
		s, err := b.startPeer(p.binary, p.args...)
		if s == nil {
			failed = append(failed, err)
			continue
		}
		err = b.work(p.label, batch, n, "", s.cpu, func(i int) (driver, error) { return p.open(s.addr, i) })
		s.stop()
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.label, err))
		}
	}
	for _, name := range unsupported {
		fmt.Printf("  %-16s no driver here\n", name)
	}
	return errors.Join(failed...)
}

// peerTimeout ends a peer that does not answer.
const peerTimeout = 120 * time.Second

// dialPeer is dial with a deadline for the whole of a worker's life.
func dialPeer(addr string) (*client, error) {
	c, err := dial(addr)
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Now().Add(peerTimeout))
}
