package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/queencell/queencell/test/internal/broker"
)

// payload is 256 bytes of JSON. It must not hold what ids looks for.
func payload() string {
	const head = `{"user":"alice","typing":true,"text":"`
	return head + strings.Repeat("m", 256-len(head)-len(`"}`)) + `"}`
}

// start runs the broker with bounds that no part reaches. env is laid over them.
func (b *bench) start(env ...string) (*broker.Process, *broker.Client, error) {
	all := map[string]string{
		"QUEEN_STORE":                      "memory",
		"QUEEN_EPHEMERAL_MAX_BYTES":        "8589934592",
		"QUEEN_EPHEMERAL_QUEUE_MAX_BYTES":  "8589934592",
		"QUEEN_EPHEMERAL_QUEUE_MAX_LENGTH": "100000000",
		"QUEEN_EPHEMERAL_IMPLICIT_IDLE_S":  "3600",
	}
	for i := 0; i+1 < len(env); i += 2 {
		all[env[i]] = env[i+1]
	}
	dir, err := os.MkdirTemp(b.dir, "broker-")
	if err != nil {
		return nil, nil, err
	}
	p, err := broker.Launch(b.binary, dir, all)
	if err != nil {
		return nil, nil, err
	}
	return p, broker.NewClient("http://" + p.Addr), nil
}

// echoArgument makes this program the server that serves nothing: the floor of what an HTTP request costs here.
const echoArgument = "-serve-noop"

// serveEcho serves a no-op and a handler that parks until its client goes, behind the broker's HTTP library, and prints
// its address.
func serveEcho() error {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.GET("/noop", func(c echo.Context) error {
		return c.JSONBlob(http.StatusOK, []byte(`{"queue":"q","messages":[]}`))
	})
	e.GET("/park", func(c echo.Context) error {
		<-c.Request().Context().Done()
		return c.Request().Context().Err()
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return (&http.Server{Handler: e}).Serve(l)
}

// server is a process that is no broker.
type server struct {
	name, addr string
	cmd        *exec.Cmd
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill() // it fails only for a process that has ended
	_ = s.cmd.Wait()         // killed
}

func (s *server) cpu() (time.Duration, error) { return broker.CPU(s.cmd.Process.Pid) }

// startEcho runs the no-op server as a process of its own, so that its CPU and memory can be told from the generator's.
// env are variables beside the generator's own.
func startEcho(env ...string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, echoArgument)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{name: "no-op", cmd: cmd}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.stop()
		return nil, err
	}
	s.addr = strings.TrimSpace(line)
	return s, nil
}

// startPeer runs another server's binary on a free port, given to args as %d. It returns nil when it is not installed.
func (b *bench) startPeer(name string, args ...string) (*server, error) {
	binary, err := exec.LookPath(name)
	if err != nil {
		fmt.Printf("  %-16s not installed\n", name)
		return nil, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, fmt.Sprintf("%s-%d", name, port))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	args = slices.Clone(args)
	for i, a := range args {
		if a == "%d" {
			args[i] = fmt.Sprint(port)
		}
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{name: name, addr: fmt.Sprintf("127.0.0.1:%d", port), cmd: cmd}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", s.addr)
		if err == nil {
			return s, c.Close()
		}
		if time.Now().After(deadline) {
			s.stop()
			return nil, fmt.Errorf("%s does not listen: %w", name, err)
		}
	}
}
