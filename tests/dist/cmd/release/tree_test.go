package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// newTree returns a repository with one commit that has the tags.
func newTree(t *testing.T, tags ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, value := range map[string]string{"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com", "GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_NOSYSTEM": "1"} {
		t.Setenv(name, value)
	}
	change(t, dir, "program.go", "package x")
	change(t, dir, ".gitignore", "/dist/\n")
	steps := [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "first"}}
	for _, tag := range tags {
		steps = append(steps, []string{"tag", tag})
	}
	for _, args := range steps {
		mustGit(t, dir, args...)
	}
	return dir
}

func mustGit(t *testing.T, dir string, args ...string) {
	t.Helper()
	if out, err := git(dir, args...); err != nil {
		t.Fatalf("%v %s", err, out)
	}
}

func change(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Only the commit with the tag, and nothing else, is the version.
func TestCheckTree_WantsTheTaggedCommit(t *testing.T) {
	for name, c := range map[string]struct {
		tags   []string
		change func(dir string)
		want   string // part of the error; "" for none
	}{
		"the commit":            {[]string{"v1.2.3"}, func(string) {}, ""},
		"with two tags":         {[]string{"v1.2.3-rc.1", "v1.2.3", "latest"}, func(string) {}, ""},
		"what is ignored":       {[]string{"v1.2.3"}, func(dir string) { change(t, dir, "dist/program", "x") }, ""},
		"no tag":                {nil, func(string) {}, "has not the tag v1.2.3 (it has none)"},
		"another tag":           {[]string{"v1.2.30", "v1.2.2"}, func(string) {}, "(it has v1.2.2, v1.2.30)"},
		"a commit after it":     {[]string{"v1.2.3"}, func(dir string) { mustGit(t, dir, "commit", "-q", "--allow-empty", "-m", "later") }, "has not the tag"},
		"a change":              {[]string{"v1.2.3"}, func(dir string) { change(t, dir, "program.go", "package y") }, " M program.go"},
		"a staged change":       {[]string{"v1.2.3"}, func(dir string) { change(t, dir, "program.go", "package y"); mustGit(t, dir, "add", ".") }, "M  program.go"},
		"a new file":            {[]string{"v1.2.3"}, func(dir string) { change(t, dir, "more.go", "package x") }, "?? more.go"},
		"a file that is gone":   {[]string{"v1.2.3"}, func(dir string) { _ = os.Remove(filepath.Join(dir, "program.go")) }, " D program.go"},
		"a folder that is none": {[]string{"v1.2.3"}, func(dir string) { _ = os.RemoveAll(filepath.Join(dir, ".git")) }, "git tag"},
	} {
		dir := newTree(t, c.tags...)
		t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(dir))
		c.change(dir)
		if err := checkTree(dir, "v1.2.3"); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
