package bounds

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The processors of Lambda's functions, as AWS names them.
const (
	ARM = "arm64"
	X86 = "x86_64"
)

var machines = map[string]elf.Machine{ARM: elf.EM_AARCH64, X86: elf.EM_X86_64}

// Program is whether a folder holds a function's program, for the processor of that
// name; "" is any. What is no ELF, such as a script, runs on whatever its interpreter
// does.
func Program(dir, architecture string) error {
	file := filepath.Join(dir, "bootstrap")
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("%s is missing: build the functions first", file)
	}
	program, err := elf.Open(file)
	if err != nil {
		return nil //nolint:nilerr // it is none
	}
	defer func() { _ = program.Close() }()
	if want, known := machines[architecture]; known && program.Machine != want {
		return fmt.Errorf("%s is built for %s, and the architecture is %s: build it for that, or choose the other", file, program.Machine, architecture)
	}
	return nil
}

// Release is the version that the programs of a folder say they are of: their build has
// written it beside them. "" is that it has not.
func Release(dir string) string {
	said, err := os.ReadFile(filepath.Join(dir, "VERSION"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(said))
}
