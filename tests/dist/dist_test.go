// Package dist tests that the functions can be built again from a release's source, with
// the same bytes. cmd/release writes their bill of materials.
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

// runDistCheck runs make dist-check for one function and this machine's processor, for
// which most is compiled already.
func runDistCheck(t *testing.T, out string, args ...string) (string, error) {
	t.Helper()
	args = append([]string{"-s", "-C", "../..", "dist-check", "FUNCTIONS=sweeper", "DIST_ARCH=" + runtime.GOARCH, "DIST=" + out}, args...)
	output, err := exec.Command("make", args...).CombinedOutput()
	return string(output), err
}

func TestBuild_IsReproducible(t *testing.T) {
	out := t.TempDir()
	output, err := runDistCheck(t, out)
	if err != nil || !strings.Contains(output, "functions/sweeper/bootstrap: OK") {
		t.Fatalf("%v: %s", err, output)
	}
	built, err := os.ReadFile(filepath.Join(out, "functions", "sweeper", "bootstrap"))
	if err != nil {
		t.Fatal(err)
	}
	// The version is that of the commit, in a file and in the function.
	version, err := os.ReadFile(filepath.Join(out, "functions", "VERSION"))
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSpace(string(version))
	if described, err := exec.Command("git", "describe", "--tags", "--always", "--dirty").Output(); err == nil && name != strings.TrimSpace(string(described)) {
		t.Errorf("version %q, want git's %s", name, described)
	}
	if !bytes.Contains(built, []byte(name)) {
		t.Errorf("the function does not contain its version %q", name)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(built, []byte(root+"/")) {
		t.Errorf("the function contains the path %s", root)
	}
}

func TestBuild_UsesChosenVersion(t *testing.T) {
	out := t.TempDir()
	if output, err := runDistCheck(t, out, "VERSION=v7.8.9-chosen"); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for _, file := range []string{"VERSION", filepath.Join("sweeper", "bootstrap")} {
		if text, err := os.ReadFile(filepath.Join(out, "functions", file)); err != nil || !bytes.Contains(text, []byte("v7.8.9-chosen")) {
			t.Errorf("%s does not contain the version: %v", file, err)
		}
	}
}

// With its folder as the version, the second build differs from the first.
func TestDistCheck_DetectsDifference(t *testing.T) {
	out := t.TempDir()
	output, err := runDistCheck(t, out, `DIST_BUILD=CGO_ENABLED=0 go build -tags lambda.norpc -trimpath -buildvcs=false -ldflags "-s -w -X github.com/lockstep-run/lockstep/shared/boot.Version=$$PWD"`)
	if err == nil || !strings.Contains(output, "FAILED") {
		t.Fatalf("%v: %s", err, output)
	}
}
