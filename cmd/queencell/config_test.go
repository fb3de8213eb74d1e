package main

import (
	"bytes"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/queencell/queencell/cell"
)

func TestDefaults(t *testing.T) {
	c, err := loadConfig(nil)
	if err != nil {
		t.Fatal(err)
	}
	if cell.ValidNode(c.Node) != nil || c.Node == "" {
		t.Errorf("drew the node id %q", c.Node)
	}
	c.Node = ""
	want := config{
		Port: 6632, MaxBodyBytes: 64 << 20, PopTimeoutMillis: 30_000, InflightMaxBytes: 64 << 20,
		MaxBytes: 256 << 20, QueueMaxBytes: 16 << 20, QueueMaxLength: 10_000, LeaseSeconds: 30, RetryLimit: 5,
		ImplicitIdleSecs: 300, GroupIdleSecs: 3600, MaxGroups: 1000, MaxPartitions: 100_000,
		Store: "file:queencell.db", CellName: "queencell", Drain: 8 * time.Second, LogLevel: "info",
	}
	if c != want {
		t.Errorf("defaults\n%+v, want\n%+v", c, want)
	}
}

func TestEveryVariableIsRead(t *testing.T) {
	vars := map[string]string{
		"HOST": "127.0.0.1", "PORT": "0", "QUEEN_MAX_BODY_BYTES": "2048", "POP_DEFAULT_TIMEOUT_MS": "1",
		"QUEEN_INFLIGHT_MAX_BYTES": "65536", "QUEEN_EPHEMERAL_MAX_BYTES": "4", "QUEEN_EPHEMERAL_QUEUE_MAX_BYTES": "5",
		"QUEEN_EPHEMERAL_QUEUE_MAX_LENGTH": "6", "QUEEN_EPHEMERAL_LEASE_S": "7", "QUEEN_EPHEMERAL_RETRY_LIMIT": "0",
		"QUEEN_EPHEMERAL_IMPLICIT_IDLE_S": "9", "QUEEN_EPHEMERAL_GROUP_IDLE_S": "0", "QUEEN_EPHEMERAL_MAX_GROUPS": "11",
		"QUEEN_EPHEMERAL_MAX_PARTITIONS": "12", "QUEEN_STORE": "memory", "QUEEN_NODE_ID": "n", "QUEEN_CELL_NAME": "c",
		"QUEEN_CELL_URL": "https://b1.example", "QUEEN_CELL_DRAIN": "0s", "LOG_LEVEL": "WARN", "QUEEN_LOG_JSON": "true",
	}
	want := config{"127.0.0.1", 0, 2048, 1, 65536, 4, 5, 6, 7, 0, 9, 0, 11, 12, "memory", "n", "c", "https://b1.example", 0, "WARN", true}
	c, err := loadConfig(vars)
	if err != nil || c != want {
		t.Errorf("%+v, %v, want\n%+v", c, err, want)
	}
	if n := reflect.TypeFor[config]().NumField(); n != len(vars) {
		t.Errorf("%d variables are tested, %d exist", len(vars), n)
	}
}

// The inflight bound follows the budget.
func TestInflightFollowsTheBudget(t *testing.T) {
	c, err := loadConfig(map[string]string{"QUEEN_EPHEMERAL_MAX_BYTES": "4000000"})
	if err != nil || c.InflightMaxBytes != 1_000_000 {
		t.Errorf("%d, %v", c.InflightMaxBytes, err)
	}
}

func TestWrongValuesAreRefused(t *testing.T) {
	for _, c := range []struct{ name, value, accepts string }{
		{"PORT", "65536", "from 0 to 65535"},
		{"PORT", "-1", "from 0 to 65535"},
		{"PORT", "+1", "whole number"},
		{"PORT", "80 ", "whole number"},
		{"PORT", "http", "whole number"},
		{"QUEEN_EPHEMERAL_MAX_BYTES", "0", "from 1 to"},
		{"QUEEN_EPHEMERAL_MAX_BYTES", "1e6", "whole number"},
		{"QUEEN_EPHEMERAL_MAX_BYTES", "1_000", "whole number"},
		{"QUEEN_EPHEMERAL_MAX_BYTES", "0x10", "whole number"},
		{"QUEEN_EPHEMERAL_MAX_BYTES", "99999999999999999999", "whole number"},
		{"QUEEN_EPHEMERAL_RETRY_LIMIT", "1001", "from 0 to 1000"},
		{"POP_DEFAULT_TIMEOUT_MS", "300001", "from 0 to 300000"},
		{"QUEEN_LOG_JSON", "yes", "true or false"},
		{"QUEEN_LOG_JSON", "1", "true or false"},
		{"QUEEN_CELL_DRAIN", "8", "duration such as 8s"},
		{"QUEEN_CELL_DRAIN", "-1s", "duration such as 8s"},
		{"QUEEN_CELL_DRAIN", "2h", "to 1h"},
		{"QUEEN_STORE", "postgres", "file:PATH or memory"},
		{"QUEEN_STORE", "file:", "file:PATH or memory"},
		{"QUEEN_NODE_ID", "a b", "1 to 64"},
		{"QUEEN_NODE_ID", strings.Repeat("a", 65), "1 to 64"},
		{"QUEEN_CELL_NAME", "ä", "1 to 64"},
		{"QUEEN_CELL_URL", "b1:6632", "URL"},
		{"QUEEN_CELL_URL", "ftp://b1", "URL"},
		{"QUEEN_CELL_URL", "http://", "URL"},
		{"QUEEN_CELL_URL", "http://user:password@b1", "URL"},
		{"LOG_LEVEL", "loud", "debug, info, warn or error"},
	} {
		got, err := loadConfig(map[string]string{c.name: c.value})
		if err == nil || !strings.Contains(err.Error(), c.name+":") || !strings.Contains(err.Error(), c.accepts) {
			t.Errorf("%s=%s: %v, want an error that names it and says %q", c.name, c.value, err, c.accepts)
		}
		if got != (config{}) {
			t.Errorf("%s=%s: a configuration came back with the error", c.name, c.value)
		}
	}
}

func TestAllProblemsAreTold(t *testing.T) {
	_, err := loadConfig(map[string]string{"PORT": "x", "LOG_LEVEL": "x", "QUEEN_CELL_JOIN": "b2", "QUEEN_EPHEMERAL_LEASE_S": "0"})
	for _, name := range []string{"PORT", "LOG_LEVEL", "QUEEN_CELL_JOIN", "QUEEN_EPHEMERAL_LEASE_S"} {
		if err == nil || !strings.Contains(err.Error(), "\n  "+name+": ") {
			t.Errorf("%s is not told in: %v", name, err)
		}
	}
}

// A variable of a feature that is not there is never ignored, unless it asks for nothing.
func TestLaterFeaturesAreRefused(t *testing.T) {
	for name, off := range later {
		if _, err := loadConfig(map[string]string{name: "something"}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want an error that names it", name, err)
		} else if strings.Contains(err.Error(), "something") {
			t.Errorf("%s: its value, which may be a secret, is in the error: %v", name, err)
		}
		if off != "" {
			if _, err := loadConfig(map[string]string{name: off}); err != nil {
				t.Errorf("%s=%s: %v", name, off, err)
			}
		}
	}
	for _, v := range variablesOf(config{}, nil) {
		if _, both := later[v.Name]; both {
			t.Errorf("%s is both there and not", v.Name)
		}
	}
}

func TestParseEnviron(t *testing.T) {
	vars := parseEnviron([]string{"A=1", "B=", "C=x=y", "D", "=E"})
	if len(vars) != 3 || vars["A"] != "1" || vars["C"] != "x=y" {
		t.Errorf("%q", vars)
	}
	if _, err := loadConfig(parseEnviron([]string{"PORT=", "QUEEN_CELL_JOIN="})); err != nil {
		t.Errorf("a variable that is set to nothing: %v", err)
	}
}

// The tags are the one list of variables: each has a meaning, a default that is accepted, and a range or rule that holds.
func TestTags(t *testing.T) {
	typ := reflect.TypeFor[config]()
	for i := range typ.NumField() {
		f := typ.Field(i)
		name := f.Tag.Get("env")
		if name == "" || f.Tag.Get("desc") == "" {
			t.Errorf("%s: env or desc is missing", f.Name)
		}
		if f.Tag.Get("envDefault") != "" && f.Tag.Get("shown") != "" {
			t.Errorf("%s: two defaults", name)
		}
		if check := f.Tag.Get("check"); check != "" && rules[check] == nil {
			t.Errorf("%s: no rule %s", name, check)
		}
		switch f.Type {
		case reflect.TypeFor[int64]():
			for _, tag := range []string{"min", "max"} {
				if _, err := strconv.ParseInt(f.Tag.Get(tag), 10, 64); err != nil {
					t.Errorf("%s: %s: %v", name, tag, err)
				}
			}
		case reflect.TypeFor[time.Duration]():
			for _, tag := range []string{"min", "max"} {
				if _, err := time.ParseDuration(f.Tag.Get(tag)); err != nil {
					t.Errorf("%s: %s: %v", name, tag, err)
				}
			}
		}
		if value := f.Tag.Get("envDefault"); value != "" {
			if _, err := loadConfig(map[string]string{name: value}); err != nil {
				t.Errorf("the default of %s is refused: %v", name, err)
			}
		}
	}
}

// A secret is never printed, neither by config nor in an error.
func TestSecretsAreMasked(t *testing.T) {
	type secretive struct {
		Key  string `env:"KEY" secret:"true" check:"store" desc:"a key"`
		Name string `env:"NAME" desc:"a name"`
	}
	vars := map[string]string{"KEY": "hunter2", "NAME": "open"}
	var out bytes.Buffer
	printVariables(&out, variablesOf(secretive{}, vars), true)
	if strings.Contains(out.String(), "hunter2") || !strings.Contains(out.String(), "NAME=open") {
		t.Errorf("printed:\n%s", out.String())
	}
	var s secretive
	problems := parseInto(&s, vars)
	if len(problems) != 1 || strings.Contains(problems[0], "hunter2") {
		t.Errorf("problems %q", problems)
	}
}

func TestNodeFrom(t *testing.T) {
	for _, c := range []struct{ host, want string }{
		{"host.example", "host.example-12ab"},
		{"hôst name", "h-st-name-12ab"},
		{strings.Repeat("h", 255), strings.Repeat("h", 59) + "-12ab"},
	} {
		got := nodeFrom(c.host, "12ab")
		if got != c.want || cell.ValidNode(got) != nil {
			t.Errorf("nodeFrom(%q) = %q, want %q", c.host, got, c.want)
		}
	}
}

// Contract B6: the limit leaves room for the collector, and stays within 1.5 x the budget and what an idle process takes.
func TestMemoryLimit(t *testing.T) {
	const idleProcess = 16 << 20
	for _, budget := range []int64{1 << 20, 16 << 20, 64 << 20, 256 << 20, 8 << 30} {
		limit := memoryLimit(budget, budget/4, 10)
		if limit > budget*3/2+idleProcess || limit < budget*23/20+4<<20 {
			t.Errorf("budget %d: limit %d", budget, limit)
		}
		if more := memoryLimit(budget, budget, 10); more != limit+budget-budget/4 {
			t.Errorf("budget %d: with a whole budget in flight %d", budget, more)
		}
		if more := memoryLimit(budget, budget/4, 100_010); more-limit != 100_000*goroutineBytes {
			t.Errorf("budget %d: a hundred thousand connections add %d", budget, more-limit)
		}
	}
	if memoryLimit(1<<62, 1<<62, 0) <= 0 {
		t.Error("the limit overflows")
	}
}
