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

// maxFileLines is how long a file may be while it stays one idea; tests and generated
// files apart.
const maxFileLines = 600

// maxPackages is how many packages the module may have. A package needs two importers
// or a reason, and this keeps the count honest.
const maxPackages = 110

// minLonelyLines is how long a package with a single importer must be, unless its
// package comment says why it stands alone.
const minLonelyLines = 150

// skippedDirs hold no source of the product.
var skippedDirs = map[string]bool{".git": true, "node_modules": true, "bin": true, "dist": true, "cdk.out": true, ".data": true}

// listFiles lists the repository's files below a folder, relative to the root.
func listFiles(t *testing.T, below string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(filepath.Join(repoRoot, below), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skippedDirs[d.Name()]:
			return filepath.SkipDir
		case d.IsDir() || skippedDirs[d.Name()]: // in a further work tree, some of them are files and links
			return nil
		}
		rel, err := filepath.Rel(repoRoot, path)
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
	for _, f := range listFiles(t, below) {
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

// packageInfo is what the package rules look at.
type packageInfo struct {
	lines     int // tests and generated files apart
	doc       string
	main      bool
	importers map[string]bool
}

// readPackages reads every package of the module with who imports it, tests apart.
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
			t.Errorf("%s has %d lines, at most %d", file, n, maxFileLines)
		}
		p.lines += n
	}
	return all
}

// standsAloneRE is how a package comment gives the reason for a small package that
// only one other imports.
var standsAloneRE = regexp.MustCompile(`(?i)a package of its own because`)

// TestPackages_HaveReasons checks that every package has a comment, that there are not
// too many, and that a small package with a single importer says why it is one.
func TestPackages_HaveReasons(t *testing.T) {
	packages := readPackages(t)
	if n := len(packages); n > maxPackages {
		t.Errorf("there are %d packages, at most %d", n, maxPackages)
	}
	for dir, p := range packages {
		if p.doc == "" && !strings.Contains(dir, "testdata") {
			t.Errorf("%s has no package comment", dir)
		}
		if !p.main && len(p.importers) == 1 && p.lines < minLonelyLines && !standsAloneRE.MatchString(strings.Join(strings.Fields(p.doc), " ")) {
			t.Errorf("%s has %d lines and a single importer: fold it in, or say in its comment \"a package of its own because ...\"", dir, p.lines)
		}
	}
}

// vagueNameRE matches package names that say nothing.
var vagueNameRE = regexp.MustCompile(`^(util|utils|common|helper|helpers|manager|models|types|misc)$`)

func checkPackageName(t *testing.T, pkg string, name *ast.Ident) {
	t.Helper()
	if vagueNameRE.MatchString(strings.TrimSuffix(name.Name, "_test")) {
		t.Errorf("%s: package %s says nothing about what is in it", pkg, name.Name)
	}
}

// TestDecider_ReadsNoClock: the decider and the law read no clock and draw no number, even
// where they import a package that could.
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

// forbiddenRE must not stand in any file: the repository speaks of the product.
// The words are put together here so that this file does not hold them.
var forbiddenRE = map[string]*regexp.Regexp{
	"a machine's path":       regexp.MustCompile(`/` + `work/|/` + `root/|/` + `home/[a-z]+/`),
	"a skipped test":         regexp.MustCompile(`\bt\.` + `Skip(Now|f)?\(`),
	"a mark of missing work": regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`),
	"a registry's host":      regexp.MustCompile(`registry\.` + `npmjs\.org|proxy\.` + `golang\.org|pypi\.` + `org`),
}

// skipAllowedFile is the one place that may leave a test out: what needs a stack of its
// own, where another one is given.
const skipAllowedFile = "tests/e2e/deployed_test.go"

func TestFiles_HoldNothingForbidden(t *testing.T) {
	for _, file := range listFiles(t, ".") {
		if strings.HasSuffix(file, "go.sum") || strings.HasPrefix(file, ".git/") {
			continue
		}
		text := readFile(t, file)
		if bytes.IndexByte(text, 0) >= 0 {
			continue // no text
		}
		for what, re := range forbiddenRE {
			if found := re.Find(text); found != nil && (file != skipAllowedFile || what != "a skipped test") {
				t.Errorf("%s holds %s: %q", file, what, found)
			}
		}
		if strings.HasSuffix(file, "package-lock.json") && bytes.Contains(text, []byte(`"resolved": "http`)) {
			t.Errorf("%s records where packages were downloaded from", file)
		}
	}
}
