package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The bill of materials has the program with its hash, and every module once, and is the
// same each time.
func TestWriteSBOM_ListsProgramAndModules(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "functions", "api")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "bootstrap")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	if err := writeSBOM(&first, []string{file, file}); err != nil {
		t.Fatal(err)
	}
	if err := writeSBOM(&second, []string{file, file}); err != nil || first.String() != second.String() {
		t.Errorf("the second bill of materials differs, %v", err)
	}
	var b sbom
	if err := json.Unmarshal(first.Bytes(), &b); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, c := range b.Components {
		seen[strings.Split(c.Ref, "@")[0]]++
	}
	if seen["functions/api/bootstrap"] != 2 || seen["pkg:golang/std"] != 1 || b.Components[0].Hashes[0].Algorithm != "SHA-256" || len(b.Dependencies) != 2 || len(b.Dependencies[0].DependsOn) == 0 {
		t.Errorf("bill of materials: %s", first.String())
	}
}

func TestWriteSBOM_RejectsTextFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeSBOM(&bytes.Buffer{}, []string{file}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("text file: %v", err)
	}
}
