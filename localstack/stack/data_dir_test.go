package stack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Nobody but its owner enters a data directory that lockstep dev makes, and one stack at a time uses it.
func TestLockDataDir_IsForItsOwnerAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "data")
	lock, err := lockDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{filepath.Dir(dir): 0o700, dir: 0o700, lock.Name(): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v: %v", path, info.Mode().Perm(), want, err)
		}
	}
	if _, err := lockDataDir(dir); err == nil || !strings.Contains(err.Error(), "another lockstep dev uses the data directory") {
		t.Errorf("a second stack: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := lockDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}
