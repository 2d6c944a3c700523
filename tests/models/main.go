// Command models checks the models of docs/models with Spin. It also checks that they detect
// errors: each mutation of a protocol has to break its model. It prints a line for each
// check, and fails if a model breaks or a mutation does not.
//
// checks.go lists the checks with their bounds; check.go runs one.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

func main() {
	bounds := flag.String("bounds", "default", "bounds of the checks: small, default or large")
	only := flag.String("only", "", "only checks whose name contains this text")
	modelsDir := flag.String("models", "docs/models", "folder of the models")
	parallel := flag.Int("parallel", 0, "checks at a time; 0 for what the memory of most machines allows")
	flag.Parse()
	level, known := map[string]int{"small": small, "default": usual, "large": large}[*bounds]
	if !known {
		fail("unknown bounds %q: use small, default or large", *bounds)
	}
	if *parallel == 0 {
		*parallel = runtime.NumCPU()
		if level > small {
			*parallel = max(1, *parallel/2) // a check takes gigabytes
		}
	}
	for tool, install := range map[string]string{"spin": "apt-get install spin", "gcc": "apt-get install gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			fail("%s is needed but not found: %s", tool, install)
		}
	}
	var chosen []check
	for _, c := range checks() {
		if c.minLevel <= level && strings.Contains(c.model+" "+c.name(), *only) {
			chosen = append(chosen, c)
		}
	}
	began := time.Now()
	results := make([]result, len(chosen))
	slots := make(chan struct{}, *parallel)
	var wg sync.WaitGroup
	for i, c := range chosen {
		slots <- struct{}{}
		wg.Go(func() {
			results[i] = c.verify(*modelsDir)
			fmt.Fprintf(os.Stderr, "%s %s: %s\n", c.model, c.name(), results[i].verdict)
			<-slots
		})
	}
	wg.Wait()
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "model\tproperty or mutation\tstates\tdepth\ttime\tverdict")
	states, failed, detected := 0, 0, 0
	for i, r := range results {
		c := chosen[i]
		if !r.passed {
			failed++
		}
		if c.mutation != "" && r.passed {
			detected++
		}
		states += r.states
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%.1fs\t%s\n", c.model, c.name(), r.states, r.depth, r.duration.Seconds(), r.verdict)
	}
	if err := w.Flush(); err != nil {
		fail("%v", err)
	}
	fmt.Printf("%d checks, %d mutations detected, %d states, %.0fs\n", len(chosen), detected, states, time.Since(began).Seconds())
	if failed > 0 {
		fail("%d checks failed", failed)
	}
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "models: "+format+"\n", args...)
	os.Exit(1)
}
