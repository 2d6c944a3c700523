package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// newPrograms returns a directory with packages: this test's program in three places, a text beside
// it, and, if there is one, a program of another package.
func newPrograms(t *testing.T, foreign string) (root string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	root = t.TempDir()
	for name, content := range map[string]string{
		"lockstep_v1.2.3_linux_amd64/lockstep": "", "lockstep_v1.2.3_linux_amd64/functions/api/bootstrap": "", "lockstep_v1.2.3_linux_arm64/functions/api/bootstrap": "",
		"lockstep_v1.2.3_windows_amd64.zip/lockstep.exe": "", "lockstep_v1.2.3_linux_amd64/LICENSE": "text", "lockstep_v1.2.3_linux_amd64/dynoxide": foreign,
	} {
		mode, bytes := os.FileMode(0o700), []byte(content)
		switch {
		case content == "" && strings.HasSuffix(name, "dynoxide"):
			continue
		case content == "" && strings.HasSuffix(name, ".exe"):
			mode, bytes = 0o600, program
		case content == "":
			bytes = program
		case content == "text":
			mode = 0o600
		}
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, bytes, mode); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// newPackage returns the directory of a package of npm with a program.
func newPackage(t *testing.T, licence, program string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	change(t, dir, "package.json", `{"name":"@dynoxide/linux-x64","version":"1.2.1","license":"`+licence+`","repository":{"url":"https://example.com/dynoxide"}}`)
	change(t, dir, "dynoxide", program)
	return dir
}

// The bill of materials has each program that is packed, with its hash and a name of its own, and
// every module once, names no directory of this machine, and is the same each time.
func TestWriteSBOM_ListsProgramAndModules(t *testing.T) {
	root := newPrograms(t, "a program of another language")
	from, err := readNPMPackage(newPackage(t, "(MIT OR Apache-2.0)", "a program of another language"))
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := filepath.Glob(filepath.Join(root, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	if err := writeSBOM(&first, root, dirs, from); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(dirs)
	if err := writeSBOM(&second, root, dirs, from); err != nil || first.String() != second.String() {
		t.Errorf("the second bill of materials differs, %v", err)
	}
	if strings.Contains(first.String(), root) || strings.Contains(first.String(), from.dir) {
		t.Errorf("it names %s", root)
	}
	var b sbom
	if err := json.Unmarshal(first.Bytes(), &b); err != nil {
		t.Fatal(err)
	}
	var programs []string
	seen := map[string]int{}
	for _, c := range b.Components {
		if seen[strings.SplitN(c.Ref, "@1", 2)[0]]++; c.Type == "application" {
			if programs = append(programs, c.Ref); c.Hashes[0].Algorithm != "SHA-256" || len(c.Hashes[0].Content) != 64 {
				t.Errorf("%s: %v", c.Ref, c.Hashes)
			}
		}
	}
	want := []string{"lockstep_v1.2.3_linux_amd64/dynoxide", "lockstep_v1.2.3_linux_amd64/functions/api/bootstrap", "lockstep_v1.2.3_linux_amd64/lockstep", "lockstep_v1.2.3_linux_arm64/functions/api/bootstrap", "lockstep_v1.2.3_windows_amd64.zip/lockstep.exe"}
	if !slices.Equal(programs, want) || seen["pkg:golang/std"] != 1 || len(b.Dependencies) != len(want) || len(b.Dependencies[1].DependsOn) == 0 {
		t.Errorf("bill of materials of %q: %s", programs, first.String())
	}
	if got := b.Dependencies[0].DependsOn; !slices.Equal(got, []string{"pkg:npm/%40dynoxide/linux-x64@1.2.1"}) || !strings.Contains(first.String(), `"expression": "(MIT OR Apache-2.0)"`) {
		t.Errorf("the program of another package is of %q", got)
	}
}

// What nobody knows is not packed.
func TestWriteSBOM_RejectsUnknownPrograms(t *testing.T) {
	from, err := readNPMPackage(newPackage(t, "Apache-2.0", "as it came"))
	if err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	root := newPrograms(t, "as it was changed")
	for name, err := range map[string]error{
		"neither a program of Go nor one of a known package": writeSBOM(&bytes.Buffer{}, root, []string{root}, from),
		"dynoxide: neither":   writeSBOM(&bytes.Buffer{}, root, []string{root}, nil),
		"has no files":        writeSBOM(&bytes.Buffer{}, empty, []string{empty}, nil),
		"there is no program": writeSBOM(&bytes.Buffer{}, from.dir, []string{from.dir}, nil),
		"is not below":        writeSBOM(&bytes.Buffer{}, empty, []string{newPrograms(t, "")}, nil),
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNPMPackage_NoticeNamesOriginAndLicence(t *testing.T) {
	for licence, valid := range map[string]bool{"Apache-2.0": true, "(MIT OR Apache-2.0)": true, "MIT": false, "(MIT AND Apache-2.0)": false, "": false} {
		p, err := readNPMPackage(newPackage(t, licence, "x"))
		if (err == nil) != valid {
			t.Errorf("%q: %v", licence, err)
		}
		if err != nil {
			continue
		}
		text := p.notice("dynoxide")
		for _, want := range []string{"the program dynoxide", "@dynoxide/linux-x64 1.2.1", "https://example.com/dynoxide", licence, "the file LICENSE"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q: no %s in\n%s", licence, want, text)
			}
		}
	}
	if _, err := readNPMPackage(t.TempDir()); err == nil {
		t.Error("a package that is missing is read")
	}
}
