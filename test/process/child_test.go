package process

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/queencell/queencell/test/internal/broker"
)

// childSpec tells a child which requests to send, one per connection.
type childSpec struct {
	Addr  string
	Paths []string
}

// runChild sends the requests, prints a line for each answer's first line and then stays with its connections open
// until it is killed.
func runChild(text string) {
	var spec childSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var wg sync.WaitGroup
	for _, path := range spec.Paths {
		wg.Go(func() {
			c, err := net.Dial("tcp", spec.Addr)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: broker\r\n\r\n", path)
			line, err := bufio.NewReader(c).ReadString('\n')
			fmt.Printf("%q %v\n", line, err)
			select {}
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent, should that die first
	os.Exit(0)
}

// child is a client process.
type child struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

// startChild starts a client process that sends the given pops, one connection each.
func startChild(t *testing.T, b *broker.Broker, paths ...string) *child {
	t.Helper()
	text, err := json.Marshal(childSpec{b.Addr, paths})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd, bufio.NewScanner(stdout)}
	t.Cleanup(func() {
		stdin.Close()
		c.kill()
	})
	return c
}

// answers waits until n requests were answered.
func (c *child) answers(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		if !c.lines.Scan() {
			t.Fatalf("the client ended after %d answers", i)
		}
	}
}

// kill ends the client with SIGKILL.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it fails only for a process that has ended
	_ = c.cmd.Wait()         // killed
}
