package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// check is one run of Spin over a model.
type check struct {
	model    string // the file without its ending
	property string // the property, or the mistake in words
	mutation string // its number; the model has to break
	defines  string // -D switches, without the -D
	liveness bool   // the property is that everyone ends, in temporal logic
	minLevel int    // the bounds from which on it is checked
}

func (c check) name() string {
	if c.mutation != "" {
		return "mistake " + c.mutation + ": " + c.property
	}
	return c.property + " (" + c.defines + ")"
}

type result struct {
	states, depth int
	duration      time.Duration
	passed        bool
	verdict       string
}

// memoryLimitMB is the most that one check may take, in megabytes.
const memoryLimitMB = "3800"

var (
	statesRE        = regexp.MustCompile(`(\d+(?:\.\d+e\+\d+)?) states, stored`)
	depthRE         = regexp.MustCompile(`depth reached (\d+)`)
	errorsRE        = regexp.MustCompile(`errors: (\d+)`)
	panErrorRE      = regexp.MustCompile(`pan:1: ([^(]*)`)
	assertionLineRE = regexp.MustCompile(`m\.pml:(\d+), Error: assertion violated`)
	commentRE       = regexp.MustCompile(`/\* (.*) \*/`)
)

// verify translates the model, compiles the search and lets it go to its end, which
// for a mistake is the first trace that breaks the model.
func (c check) verify(folder string) (r result) {
	began := time.Now()
	defer func() { r.duration = time.Since(began) }()
	dir, err := os.MkdirTemp("", "lockstep-models-")
	if err != nil {
		return result{verdict: err.Error()}
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	text, err := os.ReadFile(filepath.Join(folder, c.model+".pml"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "m.pml"), text, 0o600)
	}
	if err != nil {
		return result{verdict: err.Error()}
	}
	var switches []string
	for _, s := range strings.Fields(c.defines) {
		switches = append(switches, "-D"+s)
	}
	if c.mutation != "" {
		switches = append(switches, "-DMISTAKE_"+c.mutation)
	}
	compile := []string{"-w", "-DCOLLAPSE", "-DVECTORSZ=2048", "-DMEMLIM=" + memoryLimitMB, "-o", "pan", "pan.c"}
	search := []string{"-m2000000"}
	if c.liveness {
		switches = append(switches, "-DENDS")
		search = append(search, "-a")
	} else {
		compile = append(compile, "-DSAFETY")
	}
	if c.mutation == "" {
		compile = append(compile, "-O1") // a mistake is found before that pays
	}
	for _, step := range [][]string{
		append([]string{"spin", "-a"}, append(switches, "m.pml")...),
		append([]string{"gcc"}, compile...),
	} {
		if out, err := runIn(dir, step...); err != nil {
			return result{verdict: fmt.Sprintf("FAILED: %s: %v: %s", step[0], err, strings.TrimSpace(out))}
		}
	}
	out, err := runIn(dir, append([]string{"./pan"}, search...)...)
	r = result{states: parseNumber(statesRE, out), depth: parseNumber(depthRE, out)}
	switch {
	case err != nil, !errorsRE.MatchString(out), strings.Contains(out, "search not completed"),
		strings.Contains(out, "max search depth too small"):
		r.verdict = "FAILED: the search did not come to its end"
		if c.mutation == "" || parseNumber(errorsRE, out) == 0 {
			return r
		}
	}
	broken := parseNumber(errorsRE, out) > 0
	r.passed = broken == (c.mutation != "")
	switch {
	case !broken && r.passed:
		r.verdict = "holds"
	case !broken:
		r.verdict = "FAILED: not found"
	default:
		r.verdict = "broken: " + violationText(dir, out, switches)
		if !r.passed {
			r.verdict = "FAILED: " + r.verdict
		}
	}
	return r
}

// violationText says what broke, in the words that stand beside the assertion.
func violationText(dir, out string, switches []string) string {
	what := "broken"
	if m := panErrorRE.FindStringSubmatch(out); m != nil {
		what = strings.TrimSpace(m[1])
	}
	if what == "assertion violated" || strings.HasPrefix(what, "assertion") {
		// Its exit code says that the assertion is violated, which is no news.
		replay, _ := runIn(dir, append(append([]string{"spin"}, switches...), "-k", "m.pml.trail", "m.pml")...)
		if at := parseNumber(assertionLineRE, replay); at > 0 {
			text, err := os.ReadFile(filepath.Join(dir, "m.pml"))
			lines := strings.Split(string(text), "\n")
			if err == nil && at <= len(lines) {
				if m := commentRE.FindStringSubmatch(lines[at-1]); m != nil {
					return m[1]
				}
			}
			return fmt.Sprintf("assertion in line %d", at)
		}
	}
	switch what {
	case "invalid end state":
		return "somebody sleeps for ever"
	case "acceptance cycle":
		return "it goes on for ever"
	}
	return what
}

// searchTimeout is for a whole search with large bounds.
const searchTimeout = 2 * time.Hour

func runIn(dir string, command ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), searchTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // from the list of checks
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func parseNumber(re *regexp.Regexp, text string) int {
	m := re.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0
	}
	return int(n)
}
