package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func writeProfiles(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What is wrong with the file is named with its line.
func TestReadProfiles_NamesTheLine(t *testing.T) {
	for name, c := range map[string]struct {
		text, path, code string
		line             int
	}{
		"no YAML":               {"profiles: [", "", "syntax", 1},
		"an unknown key":        {"profiles:\n  prod:\n    url: https://a.example\n    regoin: eu-west-1\n", "profiles.prod.regoin", "unknown_field", 4},
		"a key twice":           {"current: a\ncurrent: a\n", "current", "duplicate", 2},
		"no address":            {"profiles:\n  prod:\n    url: prod\n", "profiles.prod.url", "value", 3},
		"a password":            {"profiles:\n  prod:\n    url: https://me:pw@a.example\n", "profiles.prod.url", "secret", 3},
		"a token":               {"profiles:\n  prod:\n    token: abc\n", "profiles.prod.token", "secret", 3},
		"a token as a variable": {"profiles:\n  prod:\n    tokenEnv: eyJ.abc.def\n    url: https://a.example\n", "profiles.prod.tokenEnv", "pattern", 3},
		"a word of auth":        {"profiles:\n  prod:\n    auth: basic\n    url: https://a.example\n", "profiles.prod.auth", "enum", 3},
		"two ways":              {"profiles:\n  prod:\n    auth: iam\n    tokenEnv: T\n    url: https://a.example\n", "profiles.prod", "conflict", 3},
		"no program":            {"profiles:\n  prod:\n    tokenCommand: []\n    url: https://a.example\n", "profiles.prod.tokenCommand", "required", 3},
		"a command as a text":   {"profiles:\n  prod:\n    tokenCommand: cat x\n    url: https://a.example\n", "profiles.prod.tokenCommand", "type", 3},
		"no such profile":       {"current: prd\nprofiles:\n  prod: {url: https://a.example}\n", "current", "reference", 1},
		"a name":                {"profiles:\n  a b: {tenant: acme}\n", "profiles.a b", "pattern", 2},
		"a variable for any":    {"profiles:\n  prod:\n    tenant: acme\n    tokenEnv: T\n", "profiles.prod.tokenEnv", "required", 4},
		"a program for any":     {"profiles:\n  prod:\n    tokenCommand: [echo, t]\n", "profiles.prod.tokenCommand", "required", 3},
		"a signature for any":   {"profiles:\n  prod:\n    auth: iam\n", "profiles.prod.auth", "required", 3},
		"a profile for any":     {"profiles:\n  prod:\n    awsProfile: ops\n", "profiles.prod.awsProfile", "required", 3},
		"a region for any":      {"profiles:\n  prod:\n    region: eu-west-1\n", "profiles.prod.region", "required", 3},
		"no text as address":    {"profiles:\n  prod:\n    url: null\n    tokenEnv: T\n", "profiles.prod.url", "type", 3},
	} {
		path := writeProfiles(t, c.text)
		_, err := readProfiles(path)
		var file *render.FileError
		var e *workflow.Error
		if !errors.As(err, &file) || file.Path != path || !errors.As(err, &e) || len(e.Issues) != 1 {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if i := e.Issues[0]; i.Path != c.path || i.Code != c.code || i.Line != c.line {
			t.Errorf("%s: %+v", name, i)
		}
	}
}

func TestReadProfiles_FileThatDoesNotExistHasNoProfile(t *testing.T) {
	f, err := readProfiles(filepath.Join(t.TempDir(), "none"))
	if err != nil || len(f.Names()) != 0 {
		t.Error(f, err)
	}
	if _, err := f.profile("prod"); err == nil || !strings.Contains(err.Error(), "config set --profile prod") {
		t.Error(err)
	}
}

// A change keeps the other profiles and the comments, and the file is readable by its owner alone.
func TestProfileFile_SetKeepsTheRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "config.yaml")
	f := profileFile{Path: path}
	steps := [][]string{{"prod", "url", "https://a.example"}, {"prod", "auth", "iam"}, {"lab", "url", "http://localhost:4000"}, {"lab", "tokenCommand", "print", "a token"}}
	for _, s := range steps {
		if err := f.Set(s[0], s[1], s[2:]...); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Write(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append([]byte("# mine\n"), bytes.Replace(text, []byte("    auth: iam\n"), []byte("    # ask first\n    auth: iam\n"), 1)...), 0o644); err != nil {
		t.Fatal(err)
	}
	if f, err = readProfiles(path); err != nil {
		t.Fatal(err)
	}
	if err := f.Set("prod", "url", "https://b.example"); err != nil {
		t.Fatal(err)
	}
	if err := f.Set("lab", "tenant", ""); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(path); err != nil || !bytes.Contains(text, []byte("# mine")) || !bytes.Contains(text, []byte("# ask first")) {
		t.Errorf("%v\n%s", err, text)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	f, err = readProfiles(path)
	if p := f.Profiles["prod"]; err != nil || p.URL != "https://b.example" || p.Auth != authIAM {
		t.Errorf("%+v %v", p, err)
	}
	if p := f.Profiles["lab"]; len(p.TokenCommand) != 2 || p.TokenCommand[1] != "a token" {
		t.Errorf("%+v", p)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".config-*"))
	if err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}

// What would not be valid is not written.
func TestProfileFile_WriteRefusesWhatIsNotValid(t *testing.T) {
	path := writeProfiles(t, "profiles:\n  prod: {url: https://a.example, auth: iam}\n")
	f, err := readProfiles(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range [][]string{{"prod", "regoin", "x"}, {"prod", "url", "a", "b"}, {"a b", "url", "https://a.example"}} {
		if err := f.Set(s[0], s[1], s[2:]...); err == nil {
			t.Errorf("%q is accepted", s)
		}
	}
	if err := f.Set("prod", "tokenEnv", "T"); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(); !workflow.Is(err, workflow.CodeInvalid) || !strings.Contains(err.Error(), "only one of auth, tokenEnv") {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), "tokenEnv") {
		t.Errorf("%v %s", err, text)
	}
}

func TestProfilePath_FollowsXDG(t *testing.T) {
	for env, want := range map[[2]string]string{
		{"/x", "/h"}: "/x/lockstep/config.yaml", {"", "/h"}: "/h/.config/lockstep/config.yaml", {"relative", "/h"}: "/h/.config/lockstep/config.yaml", {"", ""}: "",
	} {
		got, err := profilePath(func(name string) string { return map[string]string{"XDG_CONFIG_HOME": env[0], "HOME": env[1]}[name] })
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%v: %q %v", env, got, err)
		}
	}
}

// A program is asked for a token when one is needed, and again after a minute.
func TestProfileToken_OfAProgramIsUsedForAMinute(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	path := writeProfiles(t, "profiles:\n  lab:\n    url: https://a.example\n    tokenCommand: [sh, -c, 'echo x >>\"$0\"; echo \"  t$(wc -l <\"$0\" | tr -d \" \")\"', "+count+"]\n")
	f, err := readProfiles(path)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	token := f.Token("lab", os.Getenv, func() time.Time { return now }, os.Stderr)
	for _, step := range []struct {
		later time.Duration
		want  string
	}{{0, "t1"}, {59 * time.Second, "t1"}, {time.Second, "t2"}} {
		now = now.Add(step.later)
		if got, err := token(t.Context()); err != nil || got != step.want {
			t.Errorf("%q %v, want %q", got, err, step.want)
		}
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	if _, err := token(t.Context()); !workflow.Is(err, workflow.CodeUnauthorized) || !strings.Contains(err.Error(), "others may write") {
		t.Errorf("a program that others can name is executed: %v", err)
	}
}

// What is no token is refused, and not repeated in the error.
func TestProfileToken_RefusesWhatIsNone(t *testing.T) {
	path := writeProfiles(t, `profiles:
  lines: {url: https://a.example, tokenCommand: [printf, 'one\nsecret']}
  none: {url: https://a.example, tokenCommand: ["true"]}
  fails: {url: https://a.example, tokenCommand: [sh, -c, "echo secret; exit 3"]}
  missing: {url: https://a.example, tokenCommand: [/no/such/program]}
  long: {url: https://a.example, tokenCommand: [head, -c, "20000", /dev/zero]}
  empty: {url: https://a.example, tokenEnv: EMPTY}
  broken: {url: https://a.example, tokenEnv: BROKEN}
`)
	f, err := readProfiles(path)
	if err != nil {
		t.Fatal(err)
	}
	getenv := func(name string) string { return map[string]string{"BROKEN": "a secret"}[name] }
	for name := range f.Profiles {
		got, err := f.Token(name, getenv, time.Now, os.Stderr)(t.Context())
		if !workflow.Is(err, workflow.CodeUnauthorized) || strings.Contains(err.Error(), "secret") || got != "" {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}
