package tour

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/queencell/queencell/test/internal/broker"
)

// output runs the built broker with one argument and nothing in its environment, and returns what it prints.
func output(t *testing.T, argument string) string {
	t.Helper()
	cmd := exec.Command(os.Getenv(broker.BinaryVariable), argument)
	cmd.Env = []string{"GORACE=halt_on_error=0"}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("queencell %s: %v", argument, err)
	}
	return string(out)
}

// TestEveryVariableIsDocumented: the list in docs/configuration.md is that of queencell --help, word for word, and has
// the variables of queencell config.
func TestEveryVariableIsDocumented(t *testing.T) {
	_, help, ok := strings.Cut(output(t, "--help"), "Variables of the environment:\n\n")
	if !ok {
		t.Fatal("--help lists no variables")
	}
	text := read(t, "docs/configuration.md")
	var list string
	for _, block := range fence.FindAllStringSubmatch(text, -1) {
		if block[1] == "text" {
			list += block[2]
		}
	}
	if strings.TrimSpace(list) != strings.TrimSpace(help) {
		t.Errorf("docs/configuration.md lists\n%s\n--help lists\n%s", list, help)
	}
	assigned := names(regexp.MustCompile(`(?m)^([A-Z_]+)=`), output(t, "config"))
	listed := names(regexp.MustCompile(`(?m)^([A-Z_]+)$`), list)
	if !slices.Equal(assigned, listed) || len(listed) == 0 {
		t.Errorf("docs/configuration.md lists %v, config prints %v", listed, assigned)
	}
	// What the text around the list says is said of variables that exist.
	for _, name := range names(regexp.MustCompile("`((?:QUEEN|POP|LOG)_[A-Z_]+)`"), text) {
		if !slices.Contains(listed, name) && !strings.Contains(section(t, text, "Not yet"), "`"+name+"`") {
			t.Errorf("docs/configuration.md speaks of %s, which does not exist", name)
		}
	}
}

// TestEveryMetricIsDocumented: docs/operations.md lists the broker's own metrics, all and no others.
func TestEveryMetricIsDocumented(t *testing.T) {
	b := broker.Start(t, nil)
	served := names(regexp.MustCompile(`(?m)^(queen_[a-z_]+)`), string(b.Get("/metrics/prometheus").Body))
	listed := names(regexp.MustCompile("(?m)^\\| `(queen_[a-z_]+)"), read(t, "docs/operations.md"))
	if !slices.Equal(served, listed) || len(served) == 0 {
		t.Errorf("docs/operations.md lists\n%v\n/metrics/prometheus has\n%v", listed, served)
	}
}

// TestRoutesAreDocumented: each route of docs/http.md exists, and takes the methods that it says and no others.
func TestRoutesAreDocumented(t *testing.T) {
	b := broker.Start(t, nil)
	methods := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z]+) (/[^`? ]*)").FindAllStringSubmatch(read(t, "docs/http.md"), -1) {
		methods[row[2]] = append(methods[row[2]], row[1])
	}
	if len(methods) < 10 {
		t.Fatalf("found %d paths: the test looks in the wrong place", len(methods))
	}
	for path, allowed := range methods {
		slices.Sort(allowed)
		a := b.Do(t.Context(), "PATCH", strings.ReplaceAll(path, ":queue", "tour"), nil)
		a.WantCode(t, 405, "method_not_allowed")
		if got := a.Header.Get("Allow"); got != strings.Join(allowed, ", ") {
			t.Errorf("%s takes %s, docs/http.md says %v", path, got, allowed)
		}
	}
}

// TestLinks: a link from one document to another, or to a heading, leads somewhere.
func TestLinks(t *testing.T) {
	documents := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			short, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			documents[short] = read(t, short)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for document, text := range documents {
		for _, link := range names(regexp.MustCompile(`\]\(([^)\s]+)\)`), text) {
			if strings.Contains(link, "://") {
				continue
			}
			target, anchor, _ := strings.Cut(link, "#")
			path := document
			if target != "" {
				path = filepath.Join(filepath.Dir(document), target)
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s: %s leads nowhere", document, link)
			} else if anchor != "" && !slices.Contains(anchors(documents[path]), anchor) {
				t.Errorf("%s: there is no heading for %s", document, link)
			}
		}
	}
}

// anchors are what the headings of a document can be linked by.
func anchors(text string) []string {
	var all []string
	for _, heading := range names(regexp.MustCompile(`(?m)^#+ (.+)$`), text) {
		heading = regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(heading), "")
		all = append(all, strings.ReplaceAll(heading, " ", "-"))
	}
	return all
}

// names are the distinct texts that pattern's first group finds, sorted.
func names(pattern *regexp.Regexp, text string) []string {
	var all []string
	for _, found := range pattern.FindAllStringSubmatch(text, -1) {
		all = append(all, found[1])
	}
	slices.Sort(all)
	return slices.Compact(all)
}
