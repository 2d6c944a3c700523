// Package architecture tests the structure of the repository: which packages may import
// which, what a package and a file must have, what no file may contain, and that the
// tests named in docs exist.
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
	"strconv"
	"strings"
	"testing"
)

const repoRoot = "../.."

// maxFileLines is the highest number of lines of a file, other than tests and generated
// files.
const maxFileLines = 600

// maxPackages is the highest number of packages of the module.
const maxPackages = 118

// minLonelyLines is the lowest number of lines of a package with a single importer, unless
// its comment says why it is a package of its own.
const minLonelyLines = 150

// skippedNames and skippedPaths hold no source of the product.
var (
	skippedNames = map[string]bool{".git": true, "node_modules": true, "bin": true, "cdk.out": true, ".data": true}
	skippedPaths = map[string]bool{"dist": true, "examples/cdk/dist": true}
)

// listFiles lists the repository's files below a folder, relative to the root.
func listFiles(t *testing.T, folder string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(filepath.Join(repoRoot, folder), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(repoRoot, path)
		rel = filepath.ToSlash(rel)
		switch skip := skippedNames[d.Name()] || skippedPaths[rel]; {
		case err != nil:
			return err
		case d.IsDir() && skip:
			return filepath.SkipDir
		case d.IsDir() || skip: // in another work tree, some of them are files and links
			return nil
		}
		all = append(all, rel)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func goFiles(t *testing.T, folder string) []string {
	t.Helper()
	var all []string
	for _, f := range listFiles(t, folder) {
		if strings.HasSuffix(f, ".go") {
			all = append(all, f)
		}
	}
	return all
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repoRoot, file))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var generatedRE = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// packageInfo is what the rules for packages check.
type packageInfo struct {
	lines     int // without tests and generated files
	doc       string
	main      bool
	importers map[string]bool
}

// readPackages reads every package of the module with its importers, other than tests.
func readPackages(t *testing.T) map[string]*packageInfo {
	t.Helper()
	all := map[string]*packageInfo{}
	get := func(dir string) *packageInfo {
		if all[dir] == nil {
			all[dir] = &packageInfo{importers: map[string]bool{}}
		}
		return all[dir]
	}
	for _, file := range goFiles(t, ".") {
		dir, text := filepath.ToSlash(filepath.Dir(file)), readFile(t, file)
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		checkPackageName(t, dir, parsed.Name)
		p := get(dir)
		if parsed.Doc != nil {
			p.doc += parsed.Doc.Text()
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		p.main = p.main || parsed.Name.Name == "main"
		for _, spec := range parsed.Imports {
			if path, err := strconv.Unquote(spec.Path.Value); err == nil && strings.HasPrefix(path, module) {
				get(strings.TrimPrefix(path, module)).importers[dir] = true
			}
		}
		if generatedRE.Match(text) {
			continue
		}
		n := bytes.Count(text, []byte("\n"))
		if n > maxFileLines {
			t.Errorf("%s has %d lines, want at most %d", file, n, maxFileLines)
		}
		p.lines += n
	}
	return all
}

// standsAloneRE is how a package comment gives the reason for a small package with a
// single importer.
var standsAloneRE = regexp.MustCompile(`(?i)a package of its own because`)

// Every package has a comment, there are not too many packages, and the comment of a small package
// with a single importer gives the reason for it.
func TestPackages_HaveReasons(t *testing.T) {
	packages := readPackages(t)
	if n := len(packages); n > maxPackages {
		t.Errorf("%d packages, want at most %d", n, maxPackages)
	}
	for dir, p := range packages {
		if p.doc == "" && !strings.Contains(dir, "testdata") {
			t.Errorf("%s has no package comment", dir)
		}
		if !p.main && len(p.importers) == 1 && p.lines < minLonelyLines && !standsAloneRE.MatchString(strings.Join(strings.Fields(p.doc), " ")) {
			t.Errorf("%s has %d lines and a single importer: move it there, or say in its comment \"a package of its own because ...\"", dir, p.lines)
		}
	}
}

// vagueNameRE matches package names that say nothing about their contents.
var vagueNameRE = regexp.MustCompile(`^(util|utils|common|helper|helpers|manager|models|types|misc)$`)

func checkPackageName(t *testing.T, pkg string, name *ast.Ident) {
	t.Helper()
	if vagueNameRE.MatchString(strings.TrimSuffix(name.Name, "_test")) {
		t.Errorf("%s: the name of package %s says nothing about its contents", pkg, name.Name)
	}
}

// The decider and the transition tables use neither the time nor random numbers, even if
// they import a package that has them.
func TestDecider_ReadsNoClock(t *testing.T) {
	impure := regexp.MustCompile(`\b(time\.(Now|Since|Until|After|Sleep|NewTimer|NewTicker|Tick)|rand\.)`)
	for _, pkg := range []string{"statemachines", "shared/lifecycle"} {
		for _, file := range goFiles(t, pkg) {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			if found := impure.Find(readFile(t, file)); found != nil {
				t.Errorf("%s uses %s", file, found)
			}
		}
	}
}

// json.Marshal makes six bytes of each <, > and &, also of those in a json.RawMessage: what
// was accepted would not fit where it is stored, sent or served. [workflow.EncodeJSON]
// does not.
func TestJSON_IsEncodedWithoutEscapingHTML(t *testing.T) {
	for _, pkg := range []string{"shared", "functions", "cmd/lockstep"} {
		for _, file := range goFiles(t, pkg) {
			if strings.HasSuffix(file, "_test.go") || strings.Contains(file, "generate") {
				continue // a generator's output is in the repository
			}
			text := readFile(t, file)
			if bytes.Contains(text, []byte("json.Marshal")) && !bytes.Contains(text, []byte("Unlike json.Marshal")) {
				t.Errorf("%s uses json.Marshal: use workflow.EncodeJSON", file)
			}
			if encoders := bytes.Count(text, []byte("json.NewEncoder(")); encoders > bytes.Count(text, []byte("SetEscapeHTML(false)")) {
				t.Errorf("%s has an encoder that escapes HTML: use workflow.EncodeJSON", file)
			}
		}
	}
}

// forbiddenRE matches what no file may contain. The expressions are put together here, so
// that this file does not contain it.
var forbiddenRE = map[string]*regexp.Regexp{
	"a machine's path":       regexp.MustCompile(`/` + `work/|/` + `root/|/` + `home/[a-z]+/`),
	"a skipped test":         regexp.MustCompile(`\bt\.` + `Skip(Now|f)?\(`),
	"a mark of missing work": regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`),
	"a registry's host":      regexp.MustCompile(`registry\.` + `npmjs\.org|proxy\.` + `golang\.org|pypi\.` + `org`),
}

// skipAllowedFile is the only file that may skip tests: those that need a stack of their
// own, if the tests run against a deployed stack.
const skipAllowedFile = "tests/e2e/deployed_test.go"

func TestFiles_ContainNothingForbidden(t *testing.T) {
	for _, file := range listFiles(t, ".") {
		if strings.HasSuffix(file, "go.sum") || strings.HasPrefix(file, ".git/") {
			continue
		}
		text := readFile(t, file)
		if bytes.IndexByte(text, 0) >= 0 {
			continue // not text
		}
		for what, re := range forbiddenRE {
			if found := re.Find(text); found != nil && (file != skipAllowedFile || what != "a skipped test") {
				t.Errorf("%s contains %s: %q", file, what, found)
			}
		}
		if strings.HasSuffix(file, "package-lock.json") && bytes.Contains(text, []byte(`"resolved": "http`)) {
			t.Errorf("%s contains the URLs of packages", file)
		}
	}
}

// contributingPathRE matches a path of the repository in CONTRIBUTING.md. A pattern with
// < or * is not one path.
var contributingPathRE = regexp.MustCompile("`((?:shared|statemachines|tests|cmd|functions|infra|localstack|docs|examples)(?:/[A-Za-z0-9_.-]+)*)`")

// TestContributing_NamesExistingPaths checks that the files and folders which
// CONTRIBUTING.md names exist.
func TestContributing_NamesExistingPaths(t *testing.T) {
	paths := contributingPathRE.FindAllSubmatch(readFile(t, "CONTRIBUTING.md"), -1)
	if len(paths) < 30 {
		t.Errorf("only %d paths found", len(paths))
	}
	for _, p := range paths {
		if _, err := os.Stat(filepath.Join(repoRoot, string(p[1]))); err != nil {
			t.Errorf("CONTRIBUTING.md names %s, which does not exist", p[1])
		}
	}
}
