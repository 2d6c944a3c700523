package architecture

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// Sizes that keep a room livable, in lines, tests and generated files apart.
const (
	maxFile    = 400
	maxPackage = 1300
)

// larger rooms have a reason.
var larger = map[string]int{
	"shared/workflow": 1840, // one vocabulary, a word a file, which everybody imports as a whole
	"cmd/lockstep":    2200, // a file a verb, each of which is read alone
	"shared/sim":      1600, // every port once more, and their past
	"shared/engine":   1340, // one look, and a file for each fact that it fetches
}

// skipped folders hold nothing of ours.
var skipped = map[string]bool{".git": true, "node_modules": true, "bin": true, "dist": true, "cdk.out": true, ".data": true}

// files lists the repository's files below a folder, relative to the root.
func files(t *testing.T, below string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(filepath.Join(root, below), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped[d.Name()]:
			return filepath.SkipDir
		case d.IsDir() || skipped[d.Name()]: // in a further work tree, some of them are files and links
			return nil
		}
		rel, err := filepath.Rel(root, path)
		all = append(all, filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func goFiles(t *testing.T, below string) []string {
	t.Helper()
	var all []string
	for _, f := range files(t, below) {
		if strings.HasSuffix(f, ".go") {
			all = append(all, f)
		}
	}
	return all
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var generatedRE = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// TestRooms: every package has a tour, and none is too large to live in.
func TestRooms(t *testing.T) {
	lines, toured := map[string]int{}, map[string]bool{}
	for _, file := range goFiles(t, ".") {
		room, text := filepath.ToSlash(filepath.Dir(file)), read(t, file)
		if generatedRE.Match(text) {
			toured[room] = toured[room] || strings.HasSuffix(file, "doc.go")
			lines[room] += 0
			continue
		}
		n := bytes.Count(text, []byte("\n"))
		if !strings.HasSuffix(file, "_test.go") && n > maxFile {
			t.Errorf("%s has %d lines, at most %d: split it by meaning", file, n, maxFile)
		}
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "tests/") {
			n = 0 // the conformance kits are tests, though other tests import them
		}
		lines[room] += n
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		// A program of a few lines may carry its comment in main.go.
		if name := filepath.Base(file); parsed.Doc != nil && (name == "doc.go" || (name == "main.go" && parsed.Name.Name == "main")) {
			toured[room] = true
		}
		checkName(t, room, parsed.Name)
	}
	for room, n := range lines {
		if limit := max(maxPackage, larger[room]); n > limit {
			t.Errorf("%s has %d lines, at most %d: split it by meaning", room, n, limit)
		}
		if !toured[room] && !strings.Contains(room, "testdata") {
			t.Errorf("%s has no doc.go", room)
		}
	}
}

// vague names say nothing about what is in a room.
var vague = regexp.MustCompile(`^(util|utils|common|helper|helpers|manager|models|types|misc)$`)

func checkName(t *testing.T, room string, name *ast.Ident) {
	t.Helper()
	if vague.MatchString(strings.TrimSuffix(name.Name, "_test")) {
		t.Errorf("%s: package %s says nothing about what is in it", room, name.Name)
	}
}

// TestPurity: the decider and the law read no clock and draw no number, even
// where they import a package that could.
func TestPurity(t *testing.T) {
	impure := regexp.MustCompile(`\b(time\.(Now|Since|Until|After|Sleep|NewTimer|NewTicker|Tick)|rand\.)`)
	for _, room := range []string{"statemachines", "shared/lifecycle"} {
		for _, file := range goFiles(t, room) {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			if found := impure.Find(read(t, file)); found != nil {
				t.Errorf("%s uses %s", file, found)
			}
		}
	}
}

// unwanted must not stand in any file: the repository speaks of the product.
// The words are put together here so that this file does not hold them.
var unwanted = map[string]*regexp.Regexp{
	"a machine's path":       regexp.MustCompile(`/` + `work/|/` + `root/|/` + `home/[a-z]+/`),
	"a skipped test":         regexp.MustCompile(`\bt\.` + `Skip(Now|f)?\(`),
	"a mark of missing work": regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`),
	"a registry's host":      regexp.MustCompile(`registry\.` + `npmjs\.org|proxy\.` + `golang\.org|pypi\.` + `org`),
}

// mayLeaveOut is the one place that may leave a test out: what needs a stack of its
// own, where another one is given.
const mayLeaveOut = "tests/e2e/deployed_test.go"

func TestUnwanted(t *testing.T) {
	for _, file := range files(t, ".") {
		if strings.HasSuffix(file, "go.sum") || strings.HasPrefix(file, ".git/") {
			continue
		}
		text := read(t, file)
		if bytes.IndexByte(text, 0) >= 0 {
			continue // no text
		}
		for what, re := range unwanted {
			if found := re.Find(text); found != nil && (file != mayLeaveOut || what != "a skipped test") {
				t.Errorf("%s holds %s: %q", file, what, found)
			}
		}
		if strings.HasSuffix(file, "package-lock.json") && bytes.Contains(text, []byte(`"resolved": "http`)) {
			t.Errorf("%s records where packages were downloaded from", file)
		}
	}
}
