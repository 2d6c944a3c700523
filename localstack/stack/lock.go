package stack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockDataDir makes the data directory this stack's alone until it ends, however it
// ends: the kernel lets go of the lock with the process. Two stacks on one
// directory would each keep half of the state.
func lockDataDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			return nil, fmt.Errorf("the data directory %s cannot be made: %w", dir, path.Err)
		}
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "dev.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("the data directory cannot be used: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close() // err is the reason
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another lockstep dev keeps its state in %s: stop that one, or choose another directory with --data", dir)
		}
		return nil, fmt.Errorf("the data directory %s cannot be locked: %w", dir, err)
	}
	return lock, nil
}
