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

// The numbers of the acceptance scenarios are 1 to lastScenario. These were never
// given to one.
const lastScenario = 60

var unusedScenarios = []int{5, 14, 24, 29, 35, 41, 49, 54, 57}

var (
	rowRE    = regexp.MustCompile(`^\| N(\d+) \|([^|]*)\|([^|]*)\|([^|]*)\|$`)
	quotedRE = regexp.MustCompile("`([^`]+)`")
	numberRE = regexp.MustCompile(`(?:N|^n|_n)(\d\d)`)
)

// TestScenarios_NameExistingTests: the page of the acceptance scenarios has a row for each
// number, names tests and scripts that exist, and forgets none that bears one.
func TestScenarios_NameExistingTests(t *testing.T) {
	tests, scripts := endToEndTests(t), listScripts(t)
	named := map[int][]string{}
	last := 0
	for line := range strings.Lines(string(readFile(t, "docs/scenarios.md"))) {
		row := rowRE.FindStringSubmatch(strings.TrimSpace(line))
		if row == nil {
			if strings.HasPrefix(line, "| N") {
				t.Errorf("no row that can be read: %s", line)
			}
			continue
		}
		n, _ := strconv.Atoi(row[1]) // the expression lets nothing else through
		if last++; n != last {
			t.Fatalf("row N%d stands where N%d belongs", n, last)
		}
		proofs, scriptRefs := quotedRE.FindAllStringSubmatch(row[3], -1), quotedRE.FindAllStringSubmatch(row[4], -1)
		if unused := slices.Contains(unusedScenarios, n); unused != (strings.TrimSpace(row[3]) == "not in use") || unused != (len(proofs) == 0) || unused != (strings.TrimSpace(row[2]) == "") {
			t.Errorf("N%d names %d tests and says %q", n, len(proofs), row[2])
		}
		for _, p := range proofs {
			named[n] = append(named[n], p[1])
			if !slices.Contains(tests, p[1]) {
				t.Errorf("N%d names the test %s, which tests/e2e does not have", n, p[1])
			}
		}
		for _, p := range scriptRefs {
			named[n] = append(named[n], p[1])
			if !slices.Contains(scripts, p[1]) {
				t.Errorf("N%d names the script %s, which does not exist", n, p[1])
			}
		}
	}
	if last != lastScenario {
		t.Errorf("the last row is N%d, want N%d", last, lastScenario)
	}
	for _, name := range slices.Concat(tests, scripts) {
		for _, m := range numberRE.FindAllStringSubmatch(name, -1) {
			if n, _ := strconv.Atoi(m[1]); !slices.Contains(named[n], name) {
				t.Errorf("%s bears the number N%d, and its row does not name it", name, n)
			}
		}
	}
}

// endToEndTests lists the tests of tests/e2e, and the scenes of each as go test names
// them: the text keys of a map of functions.
func endToEndTests(t *testing.T) (names []string) {
	t.Helper()
	for _, file := range goFiles(t, "tests/e2e") {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(repoRoot, file), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, is := d.(*ast.FuncDecl)
			if !is || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			names = append(names, f.Name.Name)
			ast.Inspect(f, func(n ast.Node) bool {
				l, is := n.(*ast.CompositeLit)
				if !is {
					return true
				}
				if m, is := l.Type.(*ast.MapType); !is || !isFunc(m.Value) {
					return true
				}
				for _, e := range l.Elts {
					if key, is := e.(*ast.KeyValueExpr).Key.(*ast.BasicLit); is {
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
	_, is := e.(*ast.FuncType)
	return is
}

// listScripts lists the scripts of the decider.
func listScripts(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(repoRoot, "shared/lifecycle/testdata"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name, is := strings.CutSuffix(e.Name(), ".script"); is {
			names = append(names, name)
		}
	}
	return names
}
