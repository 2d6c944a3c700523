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
	expectationRE = regexp.MustCompile(`^\| (\d+) \| (.+?) \| (met|partly|not) \| (.+) \|$`)
	featureRE     = regexp.MustCompile(`^\| F(\d+) \| (.+?) \| (met|otherwise|not) \| (.+) \|$`)
	nameRE        = regexp.MustCompile("`([^`]+)`")
	fileRE        = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)*\.(go|md|json|golden|ya?ml)$`)
	targetRE      = regexp.MustCompile(`^make ([a-z-]+)$`)
	commandRE     = regexp.MustCompile(`^lockstep ([a-z]+)`)
)

// docs/checklist.md has each of the 40 expectations once, and the tests, files, make targets
// and commands that it names exist.
func TestChecklist_NamesExistingTests(t *testing.T) {
	checkRows(t, "docs/checklist.md", expectationRE, "", 40)
}

// docs/features.md has each of the 83 features once, and what it names exists.
func TestFeatures_NameExistingTests(t *testing.T) {
	checkRows(t, "docs/features.md", featureRE, "F", 83)
}

// checkRows checks the rows of a page: they have the numbers from 1 to want, in order, and what they
// name exists. A row whose status is not "not" names something.
func checkRows(t *testing.T, page string, row *regexp.Regexp, prefix string, want int) {
	t.Helper()
	known := readNames(t)
	rows := 0
	for line := range strings.Lines(string(readFile(t, page))) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| no |") || strings.HasPrefix(line, "| ---") {
			continue
		}
		cells := row.FindStringSubmatch(line)
		if cells == nil {
			t.Errorf("%s: row not understood: %s", page, line)
			continue
		}
		if rows++; cells[1] != strconv.Itoa(rows) {
			t.Errorf("%s: row %d has the number %s%s", page, rows, prefix, cells[1])
		}
		named, problems := known.check(t, cells[4])
		for _, p := range problems {
			t.Errorf("%s%s: %s", prefix, cells[1], p)
		}
		if named == 0 && cells[3] != "not" {
			t.Errorf("%s%s is %s, but names nothing that shows it", prefix, cells[1], cells[3])
		}
	}
	if rows != want {
		t.Errorf("%s: found %d rows, want %d", page, rows, want)
	}
}

// names are the sources in which make targets and commands are looked up.
type names struct{ makefile, commands string }

func readNames(t *testing.T) names {
	t.Helper()
	n := names{makefile: string(readFile(t, "Makefile"))}
	for _, file := range goFiles(t, "cmd/lockstep") {
		n.commands += string(readFile(t, file))
	}
	return n
}

// check counts the tests, files, make targets and commands that a text names in backticks, and
// reports those that do not exist. It ignores anything else in backticks, unless it looks like a
// test.
func (n names) check(t *testing.T, text string) (named int, problems []string) {
	t.Helper()
	for _, q := range nameRE.FindAllStringSubmatch(text, -1) {
		name := q[1]
		proof := proofRE.FindStringSubmatch("`" + name + "`")
		target, command := targetRE.FindStringSubmatch(name), commandRE.FindStringSubmatch(name)
		problem := ""
		switch {
		case proof != nil:
			if !hasTest(t, proof[1], proof[2]) {
				problem = "no test " + proof[2] + " in " + proof[1]
			}
		case strings.Contains(name, ":Test"):
			problem = name + " is not the name of a test with its package"
		case fileRE.MatchString(name):
			if _, err := os.Stat(filepath.Join(repoRoot, name)); err != nil {
				problem = err.Error()
			}
		case target != nil:
			if !strings.Contains(n.makefile, "\n"+target[1]+":") {
				problem = "no make target " + target[1]
			}
		case command != nil:
			if !regexp.MustCompile(`Use:\s+"` + command[1] + `[ "]`).MatchString(n.commands) {
				problem = "no command " + command[1]
			}
		default:
			continue
		}
		if named++; problem != "" {
			problems = append(problems, problem)
		}
	}
	return named, problems
}

// What a page names and is not there is found.
func TestNames_CheckFindsWhatIsNotThere(t *testing.T) {
	known := readNames(t)
	for text, want := range map[string]struct{ named, problems int }{
		"`tests/architecture:TestNames_CheckFindsWhatIsNotThere` and `mode: step`": {1, 0},
		"`docs/features.md`, `make demo`, `lockstep run --hold`":                   {3, 0},
		"`tests/architecture:TestNothing_IsThere` `tests:TestLifecycle`":           {2, 2},
		"`docs/nothing.md`, `make nothing`, `lockstep dance`":                      {3, 3},
		"`tests/architecture:TestNames_CheckFindsWhatIsNotThere/name`":             {1, 1},
		"nothing": {},
	} {
		if named, problems := known.check(t, text); named != want.named || len(problems) != want.problems {
			t.Errorf("%s: %d names, %q", text, named, problems)
		}
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
