package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// beanstalk puts, reserves and deletes jobs in a tube of its own. It has no batches: a batch is sent in one write.
type beanstalk struct {
	*client
}

func openBeanstalk(addr string, worker int) (driver, error) {
	c, err := dialPeer(addr)
	if err != nil {
		return nil, err
	}
	d := &beanstalk{c}
	if _, err := fmt.Fprintf(c, "use t%d\r\nwatch t%d\r\nignore default\r\n", worker, worker); err != nil {
		return nil, err
	}
	for _, want := range []string{"USING", "WATCHING", "WATCHING"} {
		if _, err := d.line(want); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// line reads one line and expects its first word; it returns the others.
func (d *beanstalk) line(want string) ([]string, error) {
	line, err := d.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	words := strings.Fields(line)
	if len(words) == 0 || words[0] != want {
		return nil, fmt.Errorf("beanstalkd: %q, want %s", line, want)
	}
	return words[1:], nil
}

func (d *beanstalk) produce(n, batch int) error {
	job := payload()
	request := bytes.Repeat(fmt.Appendf(nil, "put 0 0 3600 %d\r\n%s\r\n", len(job), job), batch)
	for ; n > 0; n -= batch {
		if _, err := d.Write(request); err != nil {
			return err
		}
		for range batch {
			if _, err := d.line("INSERTED"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *beanstalk) consume(n, batch int) error {
	request := bytes.Repeat([]byte("reserve-with-timeout 5\r\n"), batch)
	for ; n > 0; n -= batch {
		if _, err := d.Write(request); err != nil {
			return err
		}
		var deletes []byte
		for range batch {
			words, err := d.line("RESERVED")
			if err != nil {
				return err
			}
			if len(words) != 2 {
				return fmt.Errorf("beanstalkd: RESERVED %v", words)
			}
			deletes = fmt.Appendf(deletes, "delete %s\r\n", words[0])
			if _, err := io.CopyN(io.Discard, d.r, int64(len(payload())+2)); err != nil {
				return err
			}
		}
		if _, err := d.Write(deletes); err != nil {
			return err
		}
		for range batch {
			if _, err := d.line("DELETED"); err != nil {
				return err
			}
		}
	}
	return nil
}
