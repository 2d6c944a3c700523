package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// check is one search of a model with Spin.
type check struct {
	model    string // file name without .pml
	property string // or what the mutation changes
	mutation string // number or name of the mutation, which has to break the model
	defines  string // preprocessor switches, without -D
	liveness bool   // checks that everything ends, in temporal logic
	minLevel int    // lowest bounds with this check
}

func (c check) name() string {
	if c.mutation != "" {
		return "mutation " + c.mutation + ": " + c.property
	}
	return c.property + " (" + c.defines + ")"
}

// isShort reports whether the search ends before an optimised verifier pays.
func (c check) isShort() bool {
	return c.mutation != "" || c.minLevel < large && slices.Contains([]string{"mailbox", "waits", "keys", "observer", "family", "asks", "capacity", "circles"}, c.model)
}

type result struct {
	states, depth int
	duration      time.Duration
	passed        bool
	verdict       string
}

// memoryLimitMB is the memory limit of a check.
const memoryLimitMB = "3800"

var (
	statesRE        = regexp.MustCompile(`(\d+(?:\.\d+e\+\d+)?) states, stored`)
	depthRE         = regexp.MustCompile(`depth reached (\d+)`)
	errorsRE        = regexp.MustCompile(`errors: (\d+)`)
	panErrorRE      = regexp.MustCompile(`pan:1: ([^(]*)`)
	assertionLineRE = regexp.MustCompile(`m\.pml:(\d+), Error: assertion violated`)
	commentRE       = regexp.MustCompile(`/\* (.*) \*/`)
)

// verify generates the verifier, compiles it and runs the search, which ends at the first
// violation.
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
		switches = append(switches, "-DMUTATION_"+c.mutation)
	}
	compile := []string{"-w", "-DCOLLAPSE", "-DVECTORSZ=2048", "-DMEMLIM=" + memoryLimitMB, "-o", "pan", "pan.c"}
	var search []string
	if c.liveness {
		switches = append(switches, "-DENDS")
		search = append(search, "-a")
	} else {
		compile = append(compile, "-DSAFETY")
	}
	if c.isShort() {
		search = append(search, "-m100000", "-w18") // a longer one takes a quarter of a second to clear its memory
	} else {
		search = append(search, "-m2000000")
		compile = append(compile, "-O1")
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
		r.verdict = "FAILED: the search was not completed"
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
		r.verdict = "FAILED: not detected"
	default:
		r.verdict = "broken: " + violationText(dir, out, switches)
		if !r.passed {
			r.verdict = "FAILED: " + r.verdict
		}
	}
	return r
}

// violationText describes a violation with the comment of the violated assertion.
func violationText(dir, out string, switches []string) string {
	what := "broken"
	if m := panErrorRE.FindStringSubmatch(out); m != nil {
		what = strings.TrimSpace(m[1])
	}
	if what == "assertion violated" || strings.HasPrefix(what, "assertion") {
		replay, _ := runIn(dir, append(append([]string{"spin"}, switches...), "-k", "m.pml.trail", "m.pml")...) // fails: the assertion is violated
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
		return "a process waits for ever"
	case "acceptance cycle":
		return "it does not end"
	}
	return what
}

// searchTimeout is enough for a search with large bounds.
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
