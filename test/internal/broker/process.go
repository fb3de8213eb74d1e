package broker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The times that a broker may take. They are wide: a test machine may be busy and the binary may carry the race
// detector.
const (
	startLimit = 20 * time.Second
	stopLimit  = 15 * time.Second
)

// ErrExited is wrapped by Launch when the broker ended before it served.
var ErrExited = errors.New("the broker exited")

// Process is one running broker.
type Process struct {
	// Addr is the host:port it listens on.
	Addr string
	// Dir is its working directory; a file store with a relative path lies there.
	Dir string

	cmd  *exec.Cmd
	logs logBuffer
	done chan struct{} // closed when the process has been waited for
	err  error         // what Wait returned; read after done
}

// Environment is what a broker gets unless told otherwise: a free port on the loopback, a store in its directory and
// logs that can be parsed.
func Environment() map[string]string {
	return map[string]string{
		"PORT":           "0",
		"HOST":           "127.0.0.1",
		"QUEEN_LOG_JSON": "true",
		"QUEEN_STORE":    "file:queencell.db",
		"GORACE":         "halt_on_error=0 exitcode=66",
	}
}

// Spawn starts the binary in dir and does not wait for it to serve. env is laid over Environment; an empty value unsets
// the variable.
func Spawn(binary, dir string, env map[string]string, args ...string) (*Process, error) {
	all := Environment()
	for name, value := range env {
		all[name] = value
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + os.TempDir()}
	for name, value := range all {
		if value != "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	p := &Process{Dir: dir, cmd: cmd, done: make(chan struct{})}
	cmd.Stdout = &p.logs
	cmd.Stderr = &p.logs
	// A test that dies must not leave brokers behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Launch is Spawn, and waits until the broker is healthy.
func Launch(binary, dir string, env map[string]string) (*Process, error) {
	p, err := Spawn(binary, dir, env)
	if err != nil {
		return nil, err
	}
	if err := p.WaitHealthy(startLimit); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// WaitHealthy waits until the log tells the address and /health answers 200 there.
func (p *Process) WaitHealthy(limit time.Duration) error {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	deadline := time.Now().Add(limit)
	for {
		if p.Addr == "" {
			p.Addr = p.logs.address()
		}
		if p.Addr != "" {
			if resp, err := client.Get("http://" + p.Addr + "/health"); err == nil {
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					return nil
				}
			}
		}
		select {
		case <-p.done:
			return fmt.Errorf("%w: %v\n%s", ErrExited, p.err, p.Logs())
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not healthy after %v\n%s", limit, p.Logs())
		}
	}
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode is the exit code of a process that has ended; -1 when a signal ended it.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// WaitExit waits for the end and reports whether it came in time.
func (p *Process) WaitExit(limit time.Duration) bool {
	select {
	case <-p.done:
		return true
	case <-time.After(limit):
		return false
	}
}

// Kill ends the process at once (SIGKILL) and waits for it.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it fails only for a process that has ended
	<-p.done
}

// Stop ends the process with SIGTERM. It is an error when it does not exit with 0 in time or when its log tells of a
// data race, a panic or a misuse of the HTTP server.
func (p *Process) Stop() error {
	_ = p.Signal(syscall.SIGTERM) // it fails only for a process that has ended
	if !p.WaitExit(stopLimit) {
		_ = p.Signal(syscall.SIGQUIT)
		p.WaitExit(2 * time.Second)
		p.Kill()
		return fmt.Errorf("still running %v after SIGTERM\n%s", stopLimit, tail(p.Logs()))
	}
	if code := p.ExitCode(); code != 0 {
		return fmt.Errorf("exit code %d after SIGTERM: %v\n%s", code, p.err, tail(p.Logs()))
	}
	return p.LogFaults()
}

// LogFaults reports what no log may hold.
func (p *Process) LogFaults() error {
	logs := p.Logs()
	for _, fault := range []string{"DATA RACE", "panic: ", "panic recovered", "superfluous", "goroutine 1 ["} {
		if i := strings.Index(logs, fault); i >= 0 {
			return fmt.Errorf("the log holds %q\n%s", fault, logs[max(0, i-200):min(len(logs), i+6000)])
		}
	}
	return nil
}

// Logs is all that the process wrote so far, both streams.
func (p *Process) Logs() string { return p.logs.String() }

func tail(s string) string { return s[max(0, len(s)-6000):] }

// maxLog bounds what is kept of a broker's log.
const maxLog = 64 << 20

type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

// Write keeps what fits.
func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.buf.Len()+len(b) <= maxLog {
		l.buf.Write(b)
	}
	return len(b), nil
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// address finds the field addr in the start-up lines. A wildcard host is replaced by the loopback.
func (l *logBuffer) address() string {
	for line := range strings.Lines(l.String()) {
		var fields struct {
			Addr string `json:"addr"`
		}
		if !strings.HasSuffix(line, "\n") || json.Unmarshal([]byte(line), &fields) != nil || fields.Addr == "" {
			continue
		}
		host, port, err := net.SplitHostPort(fields.Addr)
		if err != nil || port == "0" {
			continue
		}
		if host == "" || host == "::" || host == "0.0.0.0" {
			host = "127.0.0.1"
		}
		return net.JoinHostPort(host, port)
	}
	return ""
}
