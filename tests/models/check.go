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
	model   string // the file without its ending
	what    string // the property, or the mistake in words
	mistake string // its number; the model has to break
	bounds  string // -D switches, without the -D
	ends    bool   // the property is that everyone ends, in temporal logic
	from    int    // the bounds from which on it is checked
}

func (c check) name() string {
	if c.mistake != "" {
		return "mistake " + c.mistake + ": " + c.what
	}
	return c.what + " (" + c.bounds + ")"
}

type result struct {
	states, depth int
	took          time.Duration
	good          bool
	verdict       string
}

// memory is the most that one check may take, in megabytes.
const memory = "3800"

var (
	storedRE = regexp.MustCompile(`(\d+(?:\.\d+e\+\d+)?) states, stored`)
	depthRE  = regexp.MustCompile(`depth reached (\d+)`)
	errorsRE = regexp.MustCompile(`errors: (\d+)`)
	brokenRE = regexp.MustCompile(`pan:1: ([^(]*)`)
	whereRE  = regexp.MustCompile(`m\.pml:(\d+), Error: assertion violated`)
	noteRE   = regexp.MustCompile(`/\* (.*) \*/`)
)

// run translates the model, compiles the search and lets it go to its end, which
// for a mistake is the first trace that breaks the model.
func (c check) run(folder string) (r result) {
	began := time.Now()
	defer func() { r.took = time.Since(began) }()
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
	for _, s := range strings.Fields(c.bounds) {
		switches = append(switches, "-D"+s)
	}
	if c.mistake != "" {
		switches = append(switches, "-DMISTAKE_"+c.mistake)
	}
	compile := []string{"-w", "-DCOLLAPSE", "-DVECTORSZ=2048", "-DMEMLIM=" + memory, "-o", "pan", "pan.c"}
	search := []string{"-m2000000"}
	if c.ends {
		switches = append(switches, "-DENDS")
		search = append(search, "-a")
	} else {
		compile = append(compile, "-DSAFETY")
	}
	if c.mistake == "" {
		compile = append(compile, "-O1") // a mistake is found before that pays
	}
	for _, step := range [][]string{
		append([]string{"spin", "-a"}, append(switches, "m.pml")...),
		append([]string{"gcc"}, compile...),
	} {
		if out, err := in(dir, step...); err != nil {
			return result{verdict: fmt.Sprintf("FAILED: %s: %v: %s", step[0], err, strings.TrimSpace(out))}
		}
	}
	out, err := in(dir, append([]string{"./pan"}, search...)...)
	r = result{states: number(storedRE, out), depth: number(depthRE, out)}
	switch {
	case err != nil, !errorsRE.MatchString(out), strings.Contains(out, "search not completed"),
		strings.Contains(out, "max search depth too small"):
		r.verdict = "FAILED: the search did not come to its end"
		if c.mistake == "" || number(errorsRE, out) == 0 {
			return r
		}
	}
	broken := number(errorsRE, out) > 0
	r.good = broken == (c.mistake != "")
	switch {
	case !broken && r.good:
		r.verdict = "holds"
	case !broken:
		r.verdict = "FAILED: not found"
	default:
		r.verdict = "broken: " + why(dir, out, switches)
		if !r.good {
			r.verdict = "FAILED: " + r.verdict
		}
	}
	return r
}

// why says what broke, in the words that stand beside the assertion.
func why(dir, out string, switches []string) string {
	what := "broken"
	if m := brokenRE.FindStringSubmatch(out); m != nil {
		what = strings.TrimSpace(m[1])
	}
	if what == "assertion violated" || strings.HasPrefix(what, "assertion") {
		// Its exit code says that the assertion is violated, which is no news.
		replay, _ := in(dir, append(append([]string{"spin"}, switches...), "-k", "m.pml.trail", "m.pml")...)
		if at := number(whereRE, replay); at > 0 {
			text, err := os.ReadFile(filepath.Join(dir, "m.pml"))
			lines := strings.Split(string(text), "\n")
			if err == nil && at <= len(lines) {
				if m := noteRE.FindStringSubmatch(lines[at-1]); m != nil {
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

// patience is for a whole search with large bounds.
const patience = 2 * time.Hour

func in(dir string, command ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // from the list of checks
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func number(re *regexp.Regexp, text string) int {
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
