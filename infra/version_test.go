package infra

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// An app that has a release of this module gets functions of that release or none.
func TestEngineProps_FunctionsMatchModule(t *testing.T) {
	dir := t.TempDir()
	if err := writeDummyFunctions(dir); err != nil {
		t.Fatal(err)
	}
	info := func(m debug.Module) func() (*debug.BuildInfo, bool) {
		return func() (*debug.BuildInfo, bool) { return &debug.BuildInfo{Deps: []*debug.Module{&m}}, true }
	}
	released := debug.Module{Path: modulePath, Version: "v1.2.3", Sum: "h1:abc="}
	fork := debug.Module{Path: modulePath, Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v1.2.3", Sum: "h1:abc="}}
	tree := debug.Module{Path: modulePath, Version: "v1.0.0", Replace: &debug.Module{Path: "../lockstep"}}
	for _, c := range []struct {
		name, built, dir, architecture string
		module                         debug.Module
		want                           string
	}{
		{"the same version", "v1.2.3", dir, archARM, released, ""},
		{"another version", "v1.2.2", dir, archARM, released, "@v1.2.3 functions --out " + dir},
		{"no version", "", dir, archARM, released, `have version "", and the construct has v1.2.3`},
		{"missing", "v1.2.3", filepath.Join(dir, "x"), archX86, released, "go run " + modulePath + "/cmd/lockstep@v1.2.3 functions --out " + filepath.Join(dir, "x") + " --architecture x86_64"},
		{"a fork", "v1.2.2", dir, archARM, fork, "go run " + modulePath + "/cmd/lockstep functions"}, // the name of the fork's module is another one
		{"a working tree", "v9", dir, archARM, tree, ""},
	} {
		if err := os.WriteFile(filepath.Join(dir, "VERSION"), []byte(c.built), 0o644); err != nil {
			t.Fatal(err)
		}
		p := EngineProps{FunctionsDir: c.dir, Architecture: c.architecture}.withDefaults()
		p.Version = c.built
		err := p.validateFunctions(info(c.module))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: want an error with %q, got %v", c.name, c.want, err)
		}
	}
}
