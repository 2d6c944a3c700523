package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The acceptance scenarios have the numbers 1 to lastScenario, without unusedScenarios.
const lastScenario = 60

var unusedScenarios = []int{5, 14, 24, 29, 35, 41, 49, 54, 57}

var (
	rowRE    = regexp.MustCompile(`^\| N(\d+) \|([^|]*)\|([^|]*)\|([^|]*)\|$`)
	quotedRE = regexp.MustCompile("`([^`]+)`")
	numberRE = regexp.MustCompile(`(?:N|^n|_n)(\d\d)`)
)

// docs/scenarios.md has a row for each number, names tests and scripts that exist, and
// names every test and script that has a number.
func TestScenarios_NameExistingTests(t *testing.T) {
	tests, scripts := endToEndTests(t), listScripts(t)
	named := map[int][]string{}
	last := 0
	for line := range strings.Lines(string(readFile(t, "docs/scenarios.md"))) {
		row := rowRE.FindStringSubmatch(strings.TrimSpace(line))
		if row == nil {
			if strings.HasPrefix(line, "| N") {
				t.Errorf("row not understood: %s", line)
			}
			continue
		}
		n, _ := strconv.Atoi(row[1]) // only digits
		if last++; n != last {
			t.Fatalf("row N%d in the place of N%d", n, last)
		}
		proofs, scriptRefs := quotedRE.FindAllStringSubmatch(row[3], -1), quotedRE.FindAllStringSubmatch(row[4], -1)
		if unused := slices.Contains(unusedScenarios, n); unused != (strings.TrimSpace(row[3]) == "not in use") || unused != (len(proofs) == 0) || unused != (strings.TrimSpace(row[2]) == "") {
			t.Errorf("N%d names %d tests, with the text %q", n, len(proofs), row[2])
		}
		for _, p := range proofs {
			named[n] = append(named[n], p[1])
			if !slices.Contains(tests, p[1]) {
				t.Errorf("N%d: no test %s in tests/e2e", n, p[1])
			}
		}
		for _, p := range scriptRefs {
			named[n] = append(named[n], p[1])
			if !slices.Contains(scripts, p[1]) {
				t.Errorf("N%d: no script %s", n, p[1])
			}
		}
	}
	if last != lastScenario {
		t.Errorf("the last row is N%d, want N%d", last, lastScenario)
	}
	for _, name := range slices.Concat(tests, scripts) {
		for _, m := range numberRE.FindAllStringSubmatch(name, -1) {
			if n, _ := strconv.Atoi(m[1]); !slices.Contains(named[n], name) {
				t.Errorf("%s has the number N%d, but that row does not name it", name, n)
			}
		}
	}
}

// endToEndTests lists the tests of tests/e2e and their subtests: the keys of a map of
// functions.
func endToEndTests(t *testing.T) (names []string) {
	t.Helper()
	for _, file := range goFiles(t, "tests/e2e") {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(repoRoot, file), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			names = append(names, f.Name.Name)
			ast.Inspect(f, func(n ast.Node) bool {
				l, ok := n.(*ast.CompositeLit)
				if !ok {
					return true
				}
				if m, ok := l.Type.(*ast.MapType); !ok || !isFunc(m.Value) {
					return true
				}
				for _, e := range l.Elts {
					if key, ok := e.(*ast.KeyValueExpr).Key.(*ast.BasicLit); ok {
						names = append(names, f.Name.Name+"/"+strings.Trim(key.Value, `"`))
					}
				}
				return false
			})
		}
	}
	return names
}

func isFunc(e ast.Expr) bool {
	_, ok := e.(*ast.FuncType)
	return ok
}

// listScripts lists the decider's scripts.
func listScripts(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(repoRoot, "shared/lifecycle/testdata"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".script"); ok {
			names = append(names, name)
		}
	}
	return names
}

var (
	flowRowRE    = regexp.MustCompile(`^\| ([RF]\d+) \|([^|]+)\|([^|]+)\|([^|]*)\|$`)
	flowNumberRE = regexp.MustCompile(`(?:^|/|_)([rRfF])(\d\d)`)
)

// Each row about where an execution goes on names tests that exist, anywhere in the module, and
// scripts; and each subtest and script that has a number of a row is named there.
func TestScenarios_FlowNamesExistingTests(t *testing.T) {
	declared, named := map[string]bool{}, map[string]bool{}
	tests, scripts := endToEndTests(t), listScripts(t)
	for _, name := range slices.Concat(tests, scripts) {
		declared[name] = true
	}
	for _, file := range goFiles(t, ".") {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range testFuncRE.FindAllStringSubmatch(string(readFile(t, file)), -1) {
			declared[m[1]] = true
		}
	}
	rows := 0
	for line := range strings.Lines(string(readFile(t, "docs/scenarios.md"))) {
		if !strings.HasPrefix(line, "| R") && !strings.HasPrefix(line, "| F") {
			continue
		}
		row := flowRowRE.FindStringSubmatch(strings.TrimSpace(line))
		if row == nil {
			t.Errorf("row not understood: %s", line)
			continue
		}
		rows++
		proofs := quotedRE.FindAllStringSubmatch(row[3], -1)
		if len(proofs) == 0 {
			t.Errorf("no test proves: %s", line)
		}
		for _, p := range append(proofs, quotedRE.FindAllStringSubmatch(row[4], -1)...) {
			named[row[1]+" "+p[1]] = true
			if !declared[p[1]] {
				t.Errorf("there is no test %s", p[1])
			}
		}
	}
	if rows < 9 {
		t.Errorf("found only %d rows", rows)
	}
	for _, name := range slices.Concat(tests, scripts) {
		for _, m := range flowNumberRE.FindAllStringSubmatch(name, -1) {
			if number := strings.ToUpper(m[1]) + strings.TrimPrefix(m[2], "0"); !named[number+" "+name] {
				t.Errorf("%s has the number %s, but that row does not name it", name, number)
			}
		}
	}
}

var testFuncRE = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
