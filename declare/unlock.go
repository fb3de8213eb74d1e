//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package declare

import (
	"os"
	"syscall"
)

// unlock lets go of the file's lock. Closing the handle would not do: a mapping left behind by a panic keeps it.
func unlock(file *os.File) { _ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN) }
