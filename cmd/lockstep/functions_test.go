package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// fakeGo stands in for Go: it reports where the module is, and "builds" a program that consists of
// the arguments and the environment. tests/dist uses the real one.
const fakeGo = `#!/bin/sh
case "$*" in
"list -m -json github.com/lockstep-run/lockstep") echo "{\"Dir\": \"$FAKE_DIR\"}" ;;
"mod download"*) echo "{\"Dir\": \"$FAKE_DIR\", \"Sum\": \"$FAKE_SUM\", \"Error\": \"$FAKE_ERROR\"}"; test -z "$FAKE_ERROR" ;;
build*worker) test -z "$FAKE_ERROR" || { echo "worker does not compile"; exit 1; } ;;
esac
all="$* in $(pwd) for $GOOS/$GOARCH, cgo $CGO_ENABLED, flags <$GOFLAGS>"
while [ $# -gt 0 ]; do
	if [ "$1" = -o ]; then mkdir -p "$(dirname "$2")"; echo "$all" >"$2"; fi
	shift
done
`

// withFakeGo puts it into the path and returns the directory of the module's source.
func withFakeGo(t *testing.T) string {
	t.Helper()
	bin, source := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(fakeGo), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("FAKE_DIR", source)
	t.Setenv("GOFLAGS", "-mod=mod") // of the caller: it would write to the module cache
	return source
}

func TestFunctions_AreBuiltForArchitecture(t *testing.T) {
	source := withFakeGo(t)
	for architecture, machine := range map[string]string{"arm64": "linux/arm64", "x86_64": "linux/amd64"} {
		out := t.TempDir()
		r := runCommand(t, "functions", "--out", out, "--architecture", architecture, "--output", "json")
		var built struct {
			Version, Architecture string
			Functions             []builtFunction
		}
		if err := json.Unmarshal([]byte(r.stdout), &built); err != nil || r.code != 0 || built.Architecture != architecture || len(built.Functions) != len(topology.Functions) {
			t.Fatalf("%s: %v, %+v", architecture, err, r)
		}
		for _, f := range built.Functions {
			content, err := os.ReadFile(filepath.Join(out, f.File))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"./functions/" + f.Name + " in " + source, machine + ", cgo 0, flags <>", "boot.Version=" + built.Version, "-trimpath"} {
				if !strings.Contains(string(content), want) {
					t.Errorf("%s was built as %s, want %s", f.Name, content, want)
				}
			}
		}
		if version, err := os.ReadFile(filepath.Join(out, "VERSION")); err != nil || strings.TrimSpace(string(version)) != built.Version {
			t.Errorf("VERSION %q, %v", version, err)
		}
	}
}

// A directory whose functions are of two versions has no VERSION, and the construct refuses it.
func TestFunctions_FailureLeavesNoVersion(t *testing.T) {
	withFakeGo(t)
	out := t.TempDir()
	if r := runCommand(t, "functions", "--out", out); r.code != 0 {
		t.Fatal(r)
	}
	t.Setenv("FAKE_ERROR", "broken")
	if r := runCommand(t, "functions", "--out", out); r.code != exitFailed || !strings.Contains(r.stderr, "worker does not compile") {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(filepath.Join(out, "VERSION")); !os.IsNotExist(err) {
		t.Errorf("VERSION after a failure: %v", err)
	}
}

func TestFunctions_ExplainsUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"--out is missing":                     {"functions"},
		"--architecture is arm64 or x86_64":    {"functions", "--out", t.TempDir(), "--architecture", "arm"},
		"Go, which is not installed here":      {"functions", "--out", t.TempDir()},
		`unexpected argument "dist/functions"`: {"functions", "dist/functions"},
	} {
		t.Run(want, func(t *testing.T) {
			t.Setenv("PATH", t.TempDir())
			if r := runCommand(t, args...); r.code == 0 || !strings.Contains(r.stderr, want) {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestFindSource_ChecksWhereCommandCameFrom(t *testing.T) {
	source := withFakeGo(t)
	released := debug.Module{Path: modulePath, Version: "v1.2.3", Sum: "h1:abc="}
	info := func(m debug.Module) func() (*debug.BuildInfo, bool) {
		return func() (*debug.BuildInfo, bool) { return &debug.BuildInfo{Main: m}, true }
	}
	t.Setenv("FAKE_SUM", released.Sum)
	if s, err := findSource(t.Context(), info(released)); err != nil || s != (moduleSource{source, "v1.2.3"}) {
		t.Errorf("a release: %+v, %v", s, err)
	}
	fork := released
	fork.Path = "example.com/fork"
	if s, err := findSource(t.Context(), info(debug.Module{Path: modulePath, Version: "v1.0.0", Replace: &fork})); err != nil || s.version != "v1.2.3" {
		t.Errorf("a fork: %+v, %v", s, err)
	}
	if s, err := findSource(t.Context(), info(debug.Module{Path: modulePath, Version: "(devel)"})); err != nil || s != (moduleSource{source, version}) {
		t.Errorf("a working tree: %+v, %v", s, err)
	}
	if got := commandVersion(info(released)); got != "v1.2.3" {
		t.Errorf("the command has version %s", got)
	}
	t.Setenv("FAKE_SUM", "h1:other=")
	if _, err := findSource(t.Context(), info(released)); err == nil || !strings.Contains(err.Error(), "h1:other=") {
		t.Errorf("other source: %v", err)
	}
	t.Setenv("FAKE_ERROR", "no such version")
	if _, err := findSource(t.Context(), info(released)); err == nil || !strings.Contains(err.Error(), "no such version") {
		t.Errorf("a missing version: %v", err)
	}
	t.Setenv("FAKE_DIR", "")
	if _, err := findSource(t.Context(), info(debug.Module{})); err == nil || !strings.Contains(err.Error(), "working tree that is not here") {
		t.Errorf("nowhere: %v", err)
	}
}
