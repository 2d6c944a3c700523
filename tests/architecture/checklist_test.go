package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	expectationRE = regexp.MustCompile(`(?m)^\| (\d+) \| (.+?) \| (met|partly|not) \| (.+) \|$`)
	nameRE        = regexp.MustCompile("`([^`]+)`")
	fileRE        = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)*\.(go|md|json|golden|ya?ml)$`)
	targetRE      = regexp.MustCompile(`^make ([a-z-]+)$`)
	commandRE     = regexp.MustCompile(`^lockstep ([a-z]+)`)
)

// docs/checklist.md has each of the 40 expectations once, and the tests, files, make targets
// and commands that it names exist.
func TestChecklist_NamesExistingTests(t *testing.T) {
	page := string(readFile(t, "docs/checklist.md"))
	makefile := string(readFile(t, "Makefile"))
	commands := ""
	for _, file := range goFiles(t, "cmd/lockstep") {
		commands += string(readFile(t, file))
	}
	rows := expectationRE.FindAllStringSubmatch(page, -1)
	for i, row := range rows {
		if row[1] != strconv.Itoa(i+1) {
			t.Errorf("row %d has the number %s", i+1, row[1])
		}
		named := 0
		for _, q := range nameRE.FindAllStringSubmatch(row[4], -1) {
			name := q[1]
			proof := proofRE.FindStringSubmatch("`" + name + "`")
			switch {
			case proof != nil:
				named++
				if !hasTest(t, proof[1], proof[2]) {
					t.Errorf("%s: no test %s in %s", row[1], proof[2], proof[1])
				}
			case fileRE.MatchString(name):
				named++
				if _, err := os.Stat(filepath.Join(repoRoot, name)); err != nil {
					t.Errorf("%s: %v", row[1], err)
				}
			case targetRE.MatchString(name):
				named++
				if target := targetRE.FindStringSubmatch(name)[1]; !strings.Contains(makefile, "\n"+target+":") {
					t.Errorf("%s: no make target %s", row[1], target)
				}
			case commandRE.MatchString(name):
				named++
				if command := commandRE.FindStringSubmatch(name)[1]; !regexp.MustCompile(`Use:\s+"` + command + `[ "]`).MatchString(commands) {
					t.Errorf("%s: no command %s", row[1], command)
				}
			}
		}
		if named == 0 && row[3] != "not" {
			t.Errorf("%s is %s, but names nothing that shows it", row[1], row[3])
		}
	}
	if len(rows) != 40 {
		t.Errorf("found %d expectations, want 40", len(rows))
	}
}

// hasTest reports whether a test of the name is in a package, not below it.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(repoRoot, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
