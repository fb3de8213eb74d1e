package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCommands(t *testing.T) {
	for _, c := range []struct {
		args     []string
		environ  []string
		code     int
		out, err string
	}{
		{[]string{"help"}, nil, exitOK, "QUEEN_EPHEMERAL_MAX_BYTES", ""},
		{[]string{"--help"}, nil, exitOK, "Usage:", ""},
		{[]string{"-h"}, nil, exitOK, "Exit codes:", ""},
		{[]string{"version"}, nil, exitOK, "queencell " + version, ""},
		{[]string{"config"}, []string{"PORT=7000"}, exitOK, "PORT=7000\n", ""},
		{[]string{"config"}, []string{"PORT=x"}, exitFailed, "PORT=x\n", "PORT: accepts"},
		{[]string{"serv"}, nil, exitUsage, "", `"serv"`},
		{[]string{"serve", "now"}, nil, exitUsage, "", `"now"`},
		{nil, []string{"PORT=x"}, exitFailed, "", "PORT: accepts"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), c.args, c.environ, &stdout, &stderr)
		if code != c.code || !strings.Contains(stdout.String(), c.out) || !strings.Contains(stderr.String(), c.err) {
			t.Errorf("%q: code %d, stdout:\n%s\nstderr:\n%s", c.args, code, stdout.String(), stderr.String())
		}
		if c.err == "" && stderr.Len() > 0 {
			t.Errorf("%q: stderr:\n%s", c.args, stderr.String())
		}
	}
}

// Every variable is in help and config, with its default and meaning.
func TestHelpListsEveryVariable(t *testing.T) {
	var help, values, stderr bytes.Buffer
	run(t.Context(), []string{"help"}, nil, &help, &stderr)
	run(t.Context(), []string{"config"}, nil, &values, &stderr)
	for _, v := range variablesOf(config{}, nil) {
		if !strings.Contains(help.String(), v.Name+"\n") || !strings.Contains(values.String(), v.Name+"="+v.Value) {
			t.Errorf("%s is missing", v.Name)
		}
		for _, out := range []string{help.String(), values.String()} {
			if !strings.Contains(out, v.Meaning) || !strings.Contains(out, v.Default) {
				t.Errorf("%s: its meaning or default is missing", v.Name)
			}
		}
	}
}

// broker is a run of the program.
type broker struct {
	addr string
	stop context.CancelFunc
	code chan int
	log  chan map[string]any
}

// serving runs the program until it says that it serves.
func serving(t *testing.T, environ ...string) *broker {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	b := &broker{stop: stop, code: make(chan int, 1), log: make(chan map[string]any, 100)}
	r, w := io.Pipe()
	environ = append([]string{"HOST=127.0.0.1", "PORT=0", "QUEEN_LOG_JSON=true", "QUEEN_NODE_ID=b1"}, environ...)
	go func() {
		b.code <- run(ctx, nil, environ, io.Discard, w)
		_ = w.Close()
	}()
	go func() {
		defer close(b.log)
		for lines := json.NewDecoder(r); ; {
			var line map[string]any
			if lines.Decode(&line) != nil {
				_, _ = io.Copy(io.Discard, r)
				return
			}
			b.log <- line
		}
	}()
	t.Cleanup(func() {
		stop()
		for range b.log { // until the program has ended
		}
	})
	line := b.waitFor(t, "serving")
	b.addr, _ = line["addr"].(string)
	if line["node"] != "b1" || line["store"] == nil || line["budgetBytes"] == nil {
		t.Errorf("the first line is %v", line)
	}
	return b
}

// waitFor returns the first log line with a message.
func (b *broker) waitFor(t *testing.T, message string) map[string]any {
	t.Helper()
	for line := range b.log {
		if line["msg"] == message {
			return line
		}
		t.Log(line)
	}
	t.Fatalf("it ended without saying %q", message)
	return nil
}

func (b *broker) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + b.addr + path)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(all)
}

// Rule G1, case LP-11: a stopped broker answers its parked pop with a complete, empty answer and exits with 0, long
// before the pop's own time.
func TestServeAndStop(t *testing.T) {
	file := "QUEEN_STORE=file:" + filepath.Join(t.TempDir(), "q.db")
	b := serving(t, file)
	if status, body := b.get(t, "/health"); status != http.StatusOK {
		t.Errorf("health: %d %s", status, body)
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if status, body := b.get(t, "/api/v1/ephemeral/pop?queue=q&wait=true&timeout=60000"); status != http.StatusOK || !strings.Contains(body, `"messages":[]`) {
			t.Errorf("the parked pop: %d %s", status, body)
		}
	}()
	for parked := false; !parked; {
		_, body := b.get(t, "/metrics/prometheus")
		parked = strings.Contains(body, "queen_parked_long_polls 1")
	}
	begin := time.Now()
	b.stop()
	if code := <-b.code; code != exitOK {
		t.Errorf("exit code %d", code)
	}
	<-answered
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("stopping took %v", took)
	}
	// The file is free again, and what is in the store is there.
	again := serving(t, file)
	again.stop()
	if code := <-again.code; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// What is in use elsewhere is named, within a second.
func TestBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q.db")
	b := serving(t, "QUEEN_STORE=file:"+path)
	_, port, err := net.SplitHostPort(b.addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ says, store, port string }{
		{path, "QUEEN_STORE=file:" + path, "PORT=0"},
		{port, "QUEEN_STORE=memory", "PORT=" + port},
	} {
		var stderr bytes.Buffer
		begin := time.Now()
		code := run(t.Context(), []string{"serve"}, []string{"HOST=127.0.0.1", c.store, c.port}, io.Discard, &stderr)
		if took := time.Since(begin); code != exitFailed || took > time.Second {
			t.Errorf("exit code %d after %v", code, took)
		}
		if !strings.Contains(stderr.String(), c.says) {
			t.Errorf("%s is not named in:\n%s", c.says, stderr.String())
		}
	}
}
