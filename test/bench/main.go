// Command bench measures the built broker, and the peers that are installed, over the loopback, and prints what each
// million messages costs the server in CPU seconds.
//
// Wall-clock figures of a shared machine say little, so the unit is the CPU time of the server process, from /proc, and
// everything that is compared is measured in the same run. The generator writes requests that were built before over
// keep-alive connections and looks only at what it needs of an answer.
//
//	go run ./test/bench                      all parts
//	go run ./test/bench -run p1,p2 -n 200000 some parts, of another size
//	go run ./test/bench -list                what there is
//	go run ./test/bench -o result.json       the figures as JSON, too
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/queencell/queencell/test/internal/broker"
)

// part is one measurement.
type part struct {
	name, what string
	run        func(*bench) error
}

func parts() []part {
	return []part{
		{"p1", "HTTP, batch 100: produce, consume and ack; peers at the same work", func(b *bench) error { return b.throughput(100) }},
		{"p2", "HTTP, batch 1: produce, consume and ack; peers at the same work", func(b *bench) error { return b.throughput(1) }},
		{"p4", "delivery to a parked consumer, next to a no-op request", (*bench).delivery},
		{"p5", "request and reply over a fresh inbox, four HTTP requests", (*bench).requestReply},
		{"p6", "fan-out to 10 groups, batch 100", (*bench).fanOut},
		{"p7", "memory of idle implicit inboxes", (*bench).inboxMemory},
		{"p8", "memory of queued messages", (*bench).messageMemory},
		{"p9", "memory of parked pops, next to parked no-op requests", (*bench).parkedMemory},
		{"p12", "CPU per message while queues, backlog, leases and groups grow", (*bench).growth},
	}
}

// result is one line of the report.
type result struct {
	Part   string  `json:"part"`
	Server string  `json:"server"`
	Case   string  `json:"case"`
	Figure float64 `json:"figure"`
	Unit   string  `json:"unit"`
	Target string  `json:"target,omitempty"`
}

type bench struct {
	binary   string // the broker
	dir      string // scratch
	n        int    // messages or rounds; 0: each part's own
	inboxes  int
	messages int
	parked   int
	peers    bool
	results  []result
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == echoArgument {
		if err := serveEcho(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	var b bench
	only := flag.String("run", "", "parts to run, comma-separated; empty: all")
	list := flag.Bool("list", false, "list the parts")
	out := flag.String("o", "", "write the figures to this file, as JSON")
	flag.StringVar(&b.binary, "binary", os.Getenv(broker.BinaryVariable), "a broker that is built already; empty: build it")
	flag.IntVar(&b.n, "n", 0, "messages or rounds of p1 to p6 and p12; 0: each part's own")
	flag.IntVar(&b.inboxes, "inboxes", 1_000_000, "inboxes of p7")
	flag.IntVar(&b.messages, "messages", 1_000_000, "messages of p8 and of p12's backlog")
	flag.IntVar(&b.parked, "parked", 10_000, "parked requests of p9; each takes a file descriptor here and in the server")
	flag.BoolVar(&b.peers, "peers", true, "measure the peers that are installed")
	flag.Parse()
	all := parts()
	if *list {
		for _, p := range all {
			fmt.Printf("%-4s %s\n", p.name, p.what)
		}
		return nil
	}
	wanted := strings.FieldsFunc(*only, func(r rune) bool { return r == ',' })
	for _, name := range wanted {
		if !slices.ContainsFunc(all, func(p part) bool { return p.name == name }) {
			return fmt.Errorf("-run: no part %q; see -list", name)
		}
	}
	if b.dir, err = os.MkdirTemp("", "queencell-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if b.binary == "" {
		if b.binary, err = broker.Build(b.dir, false); err != nil {
			return err
		}
	}
	var failed []error
	for _, p := range all {
		if len(wanted) > 0 && !slices.Contains(wanted, p.name) {
			continue
		}
		fmt.Printf("\n%s: %s\n", p.name, p.what)
		start := time.Now()
		if err := p.run(&b); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.name, err))
			fmt.Printf("  failed: %v\n", err)
		}
		fmt.Printf("  (%.0f s)\n", time.Since(start).Seconds())
	}
	if *out != "" {
		failed = append(failed, b.write(*out))
	}
	return errors.Join(failed...)
}

// add prints a figure and keeps it for the file. target is empty for what has none.
func (b *bench) add(r result) {
	b.results = append(b.results, r)
	target := ""
	if r.Target != "" {
		target = "to reach: " + r.Target
	}
	fmt.Printf("  %-16s %-44s %12.2f %-28s %s\n", r.Server, r.Case, r.Figure, r.Unit, target)
}

// size is the -n flag, or a part's own size.
func (b *bench) size(own int) int {
	if b.n > 0 {
		return b.n
	}
	return own
}

func (b *bench) write(name string) error {
	text, err := json.MarshalIndent(struct {
		Time    time.Time `json:"time"`
		Go      string    `json:"go"`
		CPUs    int       `json:"cpus"`
		Results []result  `json:"results"`
	}{time.Now().UTC(), runtime.Version(), runtime.NumCPU(), b.results}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o644)
}
