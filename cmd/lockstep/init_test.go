package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A project is written with the name of its directory everywhere, and its definition and its tests are
// right. An end-to-end test does what its README says.
func TestInit_WritesAProject(t *testing.T) {
	for lang, wants := range map[string][]string{
		"go":     {"README.md", "main.go", "main_test.go", "hello.yaml", "hello.test.yaml", "lockstep.yaml", "devices.jsonl", "cdk/main.go", "cdk/cdk.json"},
		"python": {"README.md", "block.py", "test_block.py", "blocks.json", "hello.yaml", "hello.test.yaml", "lockstep.yaml", "devices.jsonl", "infra/main.go", "infra/cdk.json"},
	} {
		t.Run(lang, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "My-Fleet")
			r := runCommand(t, "init", dir, "--lang", lang)
			if r.code != 0 || strings.Count(r.stdout, "\n") != len(wants) || !strings.Contains(r.stderr, "README.md says how to go on") {
				t.Errorf("exit code %d, %s%s", r.code, r.stdout, r.stderr)
			}
			for _, name := range wants {
				text, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil || strings.Contains(string(text), "{{name}}") || strings.Contains(string(text), "{{stack}}") {
					t.Errorf("%s: %v\n%s", name, err, text)
				}
				if strings.HasSuffix(name, ".go") {
					if _, err := parser.ParseFile(token.NewFileSet(), name, text, parser.AllErrors); err != nil {
						t.Error(err)
					}
				}
			}
			definition := filepath.Join(dir, "hello.yaml")
			if r := runCommand(t, "lint", "--strict", definition); r.code != 0 {
				t.Errorf("lint: %s%s", r.stdout, r.stderr)
			}
			if r := runCommand(t, "test", filepath.Join(dir, "hello.test.yaml")); r.code != 0 || !strings.HasSuffix(r.stdout, "3 passed, 0 failed\n") {
				t.Errorf("test: %s%s", r.stdout, r.stderr)
			}
			if r := runCommand(t, "init", dir, "--lang", lang); r.code != 2 || !strings.Contains(r.stderr, "is not empty: name a new directory") {
				t.Errorf("again: exit code %d, %s", r.code, r.stderr)
			}
		})
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"init"}, "DIR is missing"},
		{[]string{"init", filepath.Join(t.TempDir(), "1st")}, "want a letter, then letters and digits"},
		{[]string{"init", filepath.Join(t.TempDir(), "x"), "--lang", "rust"}, `--lang is go or python, not "rust"`},
	} {
		if r := runCommand(t, c.args...); r.code != 2 || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%v: exit code %d, %s", c.args, r.code, r.stderr)
		}
	}
}
