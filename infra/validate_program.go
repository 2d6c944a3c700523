package infra

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The processors of Lambda's functions, as AWS names them.
const (
	archARM = "arm64"
	archX86 = "x86_64"
)

var elfMachines = map[string]elf.Machine{archARM: elf.EM_AARCH64, archX86: elf.EM_X86_64}

// validateProgram is whether a folder holds a function's program, for the processor of that
// name; "" is any. What is no ELF, such as a script, runs on whatever its interpreter
// does.
func validateProgram(dir, architecture string) error {
	file := filepath.Join(dir, "bootstrap")
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("%s is missing: build the functions first", file)
	}
	program, err := elf.Open(file)
	if err != nil {
		return nil //nolint:nilerr // it is none
	}
	defer func() { _ = program.Close() }()
	if want, known := elfMachines[architecture]; known && program.Machine != want {
		return fmt.Errorf("%s is built for %s, and the architecture is %s: build it for that, or choose the other", file, program.Machine, architecture)
	}
	return nil
}

// builtVersion is the version that the programs of a folder say they are of: their build has
// written it beside them. "" is that it has not.
func builtVersion(dir string) string {
	version, err := os.ReadFile(filepath.Join(dir, "VERSION"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(version))
}
