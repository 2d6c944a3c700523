package infra

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/lockstep-run/lockstep/shared/topology"
)

const modulePath = "github.com/lockstep-run/lockstep"

// moduleVersion returns the version of this module in the app that uses it. It is "" in
// a working tree, which has none.
func moduleVersion(read func() (*debug.BuildInfo, bool)) (version string, replaced bool) {
	info, ok := read()
	if !ok {
		return "", false
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path != modulePath {
			continue
		}
		if m.Replace != nil {
			m, replaced = m.Replace, true
		}
		if m.Sum != "" {
			return m.Version, replaced
		}
	}
	return "", replaced
}

// validateFunctions checks that the functions exist, were built for the architecture and
// have the version of this module. The error names the command that builds them.
func (p EngineProps) validateFunctions(read func() (*debug.BuildInfo, bool)) error {
	own, replaced := moduleVersion(read)
	build := "go run " + modulePath + "/cmd/lockstep"
	if own != "" && !replaced {
		build += "@" + own
	}
	build += " functions --out " + p.FunctionsDir
	if p.Architecture != archARM {
		build += " --architecture " + p.Architecture
	}
	for _, name := range topology.Functions {
		dir := filepath.Join(p.FunctionsDir, name)
		if info, err := os.Stat(filepath.Join(dir, "bootstrap")); err != nil || !info.Mode().IsRegular() {
			return fmt.Errorf("%s is missing: build the functions: %s", filepath.Join(dir, "bootstrap"), build)
		}
		if err := validateProgram(dir, p.Architecture); err != nil {
			return err
		}
	}
	built := builtVersion(p.FunctionsDir)
	if own != "" && built != own {
		return fmt.Errorf("the functions in %s have version %q, and the construct has %s: build them again: %s", p.FunctionsDir, built, own, build)
	}
	if built != "" && built != p.Version {
		return fmt.Errorf("version %q: the functions in %s have version %q: omit it, or build them with this version", p.Version, p.FunctionsDir, built)
	}
	return nil
}
