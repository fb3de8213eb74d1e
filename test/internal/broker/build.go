package broker

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// BinaryVariable names the environment variable that holds the path of a broker that was built already.
const BinaryVariable = "QUEENCELL_TEST_BINARY"

// Build compiles the broker into dir and returns its path. race adds the race detector.
func Build(dir string, race bool) (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	binary := filepath.Join(dir, "queencell")
	args := []string{"build", "-o", binary}
	if race {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./cmd/queencell")...)
	cmd.Dir = filepath.Dir(strings.TrimSpace(string(out)))
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the broker: %w\n%s", err, text)
	}
	return binary, nil
}

// Main builds the broker, runs the tests of a package and removes the binary: the body of a TestMain. race adds the
// race detector to the broker. setup, when not nil, runs between the build and the tests and returns what is to be
// done after them; its error fails the run. Main returns the exit code.
func Main(m *testing.M, race bool, setup func(binary string) (teardown func() error, err error)) int {
	flag.Parse()
	// Most parallel tests wait for a condition: they would queue behind each other at one per core.
	if err := flag.Set("test.parallel", "32"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binary := os.Getenv(BinaryVariable)
	if binary == "" {
		dir, err := os.MkdirTemp("", "queencell-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if binary, err = Build(dir, race); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if err := os.Setenv(BinaryVariable, binary); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	teardown := func() error { return nil }
	if setup != nil {
		var err error
		if teardown, err = setup(binary); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	code := m.Run()
	if err := teardown(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// RaceWanted is the usual answer to Main's race: the test itself runs with the detector, or RACE=1 asks for it.
func RaceWanted() bool { return Race || os.Getenv("RACE") == "1" }
