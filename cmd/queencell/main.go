// Command queencell is the broker. Without arguments it serves; everything is configured by environment variables,
// which queencell --help lists.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// The exit codes.
const (
	exitOK = 0
	// exitFailed: the broker could not start, failed, or was stopped before it had drained.
	exitFailed = 1
	// exitUsage: the command line was not understood.
	exitUsage = 2
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() { // lives as long as the process
		<-signals
		stop()
		<-signals
		os.Exit(exitFailed)
	}()
	code := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	// It is over: a second signal that comes now does not turn a clean stop into a failure.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	os.Exit(code)
}

const usage = `queencell: a broker for ephemeral queues

Usage:
  queencell [serve]    serve until SIGTERM or SIGINT; a second one exits at once
  queencell config     print every variable and its present value
  queencell version    print the version
  queencell help       print this

Exit codes: 0 stopped and drained, 1 could not start, failed, or was stopped before it had drained, 2 wrong usage.
`

// run carries out one command line and returns the exit code. When ctx ends a serving broker drains and stops.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	command := "serve"
	if len(args) > 0 {
		command = args[0]
	}
	if len(args) > 1 {
		fmt.Fprintf(stderr, "queencell: unexpected argument %q\n\n%s", args[1], usage)
		return exitUsage
	}
	switch command {
	case "serve":
		return serve(ctx, environ, stderr)
	case "config":
		return showConfig(environ, stdout, stderr)
	case "version", "--version":
		fmt.Fprintln(stdout, "queencell", versionText())
		return exitOK
	case "help", "--help", "-h":
		fmt.Fprint(stdout, usage, "\nVariables of the environment:\n\n")
		printVariables(stdout, variablesOf(config{}, nil), false)
		return exitOK
	}
	fmt.Fprintf(stderr, "queencell: unknown command %q\n\n%s", command, usage)
	return exitUsage
}

// showConfig prints the configuration as serve would use it, and then what is wrong with it.
func showConfig(environ []string, stdout, stderr io.Writer) int {
	env := parseEnviron(environ)
	printVariables(stdout, variablesOf(config{}, env), true)
	_, err := loadConfig(env)
	if err != nil {
		fmt.Fprintf(stderr, "\n%v\n", err)
		return exitFailed
	}
	return exitOK
}
