package dist

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// check runs make dist-check for one function and this machine's processor, which
// has been compiled for already; make dist-check does it for what AWS runs.
func check(t *testing.T, out string, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("no make")
	}
	args = append([]string{"-s", "-C", "../..", "dist-check", "FUNCTIONS=sweeper", "DIST_ARCH=" + runtime.GOARCH, "DIST=" + out}, args...)
	said, err := exec.Command("make", args...).CombinedOutput()
	return string(said), err
}

func TestASecondBuildInAnotherPlaceHasTheSameBytes(t *testing.T) {
	out := t.TempDir()
	said, err := check(t, out)
	if err != nil || !strings.Contains(said, "functions/sweeper/bootstrap: OK") {
		t.Fatalf("%v: %s", err, said)
	}
	built, err := os.ReadFile(filepath.Join(out, "functions", "sweeper", "bootstrap"))
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(built, []byte(root+"/")) {
		t.Errorf("the function holds the path %s", root)
	}
}

// With the place of the build in it, the second build differs, and the check says so.
func TestADifferenceIsSeen(t *testing.T) {
	out := t.TempDir()
	said, err := check(t, out, `DIST_BUILD=CGO_ENABLED=0 go build -tags lambda.norpc -trimpath -buildvcs=false -ldflags "-s -w -X github.com/lockstep-run/lockstep/shared/boot.Version=$$PWD"`)
	if err == nil || !strings.Contains(said, "FAILED") {
		t.Fatalf("%v: %s", err, said)
	}
}
