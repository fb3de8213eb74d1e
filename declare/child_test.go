//go:build unix

package declare_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"github.com/queencell/queencell/declare"
)

// child is the other process; it returns its exit status.
func child(role, path string) int {
	s, err := declare.OpenFile(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	switch role {
	case "hold":
		fmt.Println("open")
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent lets go, or dies
		err = s.Close()
	case "write":
		err = writeForEver(s)
	case "full":
		err = errors.Join(writeUntilFull(s, path), s.Close())
	default:
		err = fmt.Errorf("no role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// startChild starts the test binary in a role. The caller waits for it.
func startChild(t *testing.T, role, path string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, path)
	cmd.Env = append(os.Environ(), childEnv+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

// writeForEver prints each write once it is acknowledged.
func writeForEver(s *declare.File) error {
	ctx := context.Background()
	for i := 0; ; i++ {
		queue := fmt.Sprintf("q%d", i)
		v, err := s.Put(ctx, "t", queue, fmt.Appendf(nil, `{"maxLength":%d}`, i))
		if err != nil {
			return err
		}
		if _, err := fmt.Printf("put %s %d\n", queue, v); err != nil {
			return nil // nobody listens any more
		}
		if i%3 == 0 {
			queue := fmt.Sprintf("q%d", i/2)
			existed, v, err := s.Delete(ctx, "t", queue)
			if err != nil {
				return err
			}
			if existed {
				fmt.Printf("delete %s %d\n", queue, v)
			}
		}
		if i%7 == 0 {
			v, err := s.SetSwitch(ctx, i%2 == 0)
			if err != nil {
				return err
			}
			fmt.Printf("switch %t %d\n", i%2 == 0, v)
		}
	}
}

// writeUntilFull makes the file unable to grow, in place of a full disk, and checks that the store says so, keeps what
// it has, and goes on when there is room again.
func writeUntilFull(s *declare.File, path string) error {
	ctx := context.Background()
	signal.Ignore(syscall.SIGXFSZ)
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	room := limit.Cur
	limit.Cur = uint64(info.Size()) + 64<<10
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	options := make([]byte, 32<<10)
	copy(options, `{}`)
	var last uint64
	refusal := error(nil)
	for i := 0; i < 100 && refusal == nil; i++ {
		var v uint64
		if v, refusal = s.Put(ctx, "t", fmt.Sprintf("q%d", i), options); refusal == nil {
			last = v
		}
	}
	if !errors.Is(refusal, declare.ErrRefused) {
		return fmt.Errorf("a full disk gave %v, want ErrRefused", refusal)
	}
	check := func(want uint64) error {
		snap, err := s.Load(ctx, 0)
		if err != nil || snap.Version != want || uint64(len(snap.Declarations)) != want {
			return fmt.Errorf("version %d with %d declarations, %v; want %d of both", snap.Version, len(snap.Declarations), err, want)
		}
		return nil
	}
	if err := check(last); err != nil {
		return fmt.Errorf("after a full disk: %w", err)
	}
	limit.Cur = room
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	for i := range 100 {
		if _, err := s.Put(ctx, "t", fmt.Sprintf("after%d", i), options); err != nil {
			return fmt.Errorf("with room again: %w", err)
		}
	}
	return check(last + 100)
}
