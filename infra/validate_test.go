package infra

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeProgram is a folder with an ELF for a processor in it, or with a text.
func writeProgram(t *testing.T, machine elf.Machine, otherwise string) string {
	t.Helper()
	dir, content := t.TempDir(), []byte(otherwise)
	if otherwise == "" {
		var b bytes.Buffer
		head := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64}
		copy(head.Ident[:], elf.ELFMAG)
		head.Ident[elf.EI_CLASS], head.Ident[elf.EI_DATA], head.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
		if err := binary.Write(&b, binary.LittleEndian, head); err != nil {
			t.Fatal(err)
		}
		content = b.Bytes()
	}
	if err := os.WriteFile(filepath.Join(dir, "bootstrap"), content, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestValidateProgram_ChecksArchitecture(t *testing.T) {
	for _, c := range []struct{ dir, architecture, want string }{
		{writeProgram(t, elf.EM_AARCH64, ""), archARM, ""},
		{writeProgram(t, elf.EM_X86_64, ""), archX86, ""},
		{writeProgram(t, elf.EM_AARCH64, ""), "", ""},
		{writeProgram(t, elf.EM_AARCH64, ""), archX86, "is built for EM_AARCH64, and the architecture is x86_64"},
		{writeProgram(t, elf.EM_X86_64, ""), archARM, "is built for EM_X86_64, and the architecture is arm64"},
		{writeProgram(t, 0, "#!/bin/sh\n"), archARM, ""},
		{t.TempDir(), archARM, "is missing"},
	} {
		err := validateProgram(c.dir, c.architecture)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("on %q: want an error with %q, got %v", c.architecture, c.want, err)
		}
	}
}

func TestBuiltVersion_ReadsVersionFile(t *testing.T) {
	dir := t.TempDir()
	if got := builtVersion(dir); got != "" {
		t.Errorf("programs that say nothing are of release %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "VERSION"), []byte("v1.2.3-4-gabc\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := builtVersion(dir); got != "v1.2.3-4-gabc" {
		t.Errorf("they are of release %q", got)
	}
}

func TestValidateEnvironment_LimitsSize(t *testing.T) {
	// {"K":"..."} is the text and eight bytes.
	for n, fits := range map[int]bool{maxEnvironmentBytes - 8: true, maxEnvironmentBytes - 7: false} {
		if err := validateEnvironment(map[string]string{"K": strings.Repeat("x", n)}); (err == nil) != fits {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	// What only the deployment knows is counted as long as it may be, quotes twice.
	if got, want := environmentBytes(`{"pool":"${Token[TOKEN.1234]}"}`), 2+len(`{\"pool\":\"\"}`)+placeholderBytes; got != want {
		t.Errorf("a pool takes %d bytes, want %d", got, want)
	}
	err := validateEnvironment(map[string]string{"A": "a", "BIG": strings.Repeat("b", 3000), "LARGE": strings.Repeat("c", 2000), "SOME": "some"})
	if err == nil || !strings.Contains(err.Error(), "the largest: BIG 3002, LARGE 2002, SOME 6") {
		t.Errorf("what is too much is %v", err)
	}
}

func TestValidateNames_LimitLength(t *testing.T) {
	for n, fits := range map[int]bool{64: true, 65: false} {
		if err := validateFunctionName(strings.Repeat("f", n)); (err == nil) != fits {
			t.Errorf("a function of %d characters: %v", n, err)
		}
	}
	for n, fits := range map[int]bool{80: true, 81: false} {
		if err := validateQueueName(strings.Repeat("q", n)); (err == nil) != fits {
			t.Errorf("a queue of %d characters: %v", n, err)
		}
	}
}
