package tour

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/queencell/queencell/test/internal/broker"
)

// step is one block of commands and the block of answers below it.
type step struct{ commands, answers string }

var fence = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// steps takes the blocks of a section apart.
func steps(section string) ([]step, error) {
	var all []step
	open := false
	for _, block := range fence.FindAllStringSubmatch(section, -1) {
		switch language, text := block[1], block[2]; {
		case language == "sh" && !open:
			all = append(all, step{commands: text})
			open = true
		case language == "json" && open:
			all[len(all)-1].answers = text
			open = false
		default:
			return nil, fmt.Errorf("a block of %s out of turn:\n%s", language, text)
		}
	}
	if open {
		return nil, errors.New("the last commands have no answers")
	}
	return all, nil
}

// section is what stands under a heading of the second level.
func section(t *testing.T, text, heading string) string {
	t.Helper()
	_, text, ok := strings.Cut(text, "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("there is no section %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// TestTour runs the commands of the tour with sh and curl, as a reader would paste them, and compares the answers.
func TestTour(t *testing.T) {
	for _, tool := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("the tour needs %s: %v", tool, err)
		}
	}
	all, err := steps(section(t, read(t, "README.md"), "Tour"))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 8 {
		t.Fatalf("found %d steps: the test looks in the wrong place", len(all))
	}
	b := broker.Start(t, nil)

	// One shell runs all of it, for variables live on from block to block; a line that no command prints parts them.
	const mark = "=== tour ==="
	var script strings.Builder
	for _, s := range all {
		fmt.Fprintf(&script, "%s\nprintf '\\n%s\\n'\n", strings.ReplaceAll(s.commands, "localhost:6632", b.Addr), mark)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-eu")
	cmd.Stdin = strings.NewReader(script.String())
	cmd.Env = append(cmd.Environ(), "no_proxy=*")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the tour ended early: %v\n%s%s", err, out, &stderr)
	}
	parts := strings.Split(string(out), "\n"+mark+"\n")
	if len(parts) != len(all)+1 {
		t.Fatalf("%d blocks answered, of %d:\n%s", len(parts)-1, len(all), out)
	}
	for i, s := range all {
		want, err := values(s.answers)
		if err != nil {
			t.Fatalf("the answer in README.md is no JSON: %v\n%s", err, s.answers)
		}
		got, err := values(parts[i])
		if err != nil {
			t.Errorf("%s\nanswered no JSON: %v\n%s", s.commands, err, parts[i])
			continue
		}
		if got != want {
			t.Errorf("%s\nanswered\n%s\nwant\n%s", s.commands, got, want)
		}
	}
}

// varying is what no two runs have in common, and what stands for it in the comparison. The shape is kept: an age that
// is no number does not pass.
var varying = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`"e:[0-9a-f]{16}:`), `"e:INCARNATION:`},
	{regexp.MustCompile(`"oldestAgeMs":\d+`), `"oldestAgeMs":AGE`},
	{regexp.MustCompile(`"cellBytes":[1-9]\d*`), `"cellBytes":BYTES`},
}

// values compacts a sequence of JSON values, one a line, the order of members kept.
func values(text string) (string, error) {
	var out bytes.Buffer
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		var value json.RawMessage
		switch err := d.Decode(&value); {
		case errors.Is(err, io.EOF):
			result := out.String()
			for _, v := range varying {
				result = v.pattern.ReplaceAllString(result, v.with)
			}
			return result, nil
		case err != nil:
			return "", err
		}
		if err := json.Compact(&out, value); err != nil {
			return "", err
		}
		out.WriteByte('\n')
	}
}
