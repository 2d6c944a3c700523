// Command models checks the protocol models of docs/models with Spin, and shows
// that each can see: every mistake that the protocols' documents list has to break
// its model. It prints a line for each check, and fails if a model breaks or a
// mistake is not found.
//
// checks.go lists what is checked, within which bounds; check.go runs one of them.
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
	bounds := flag.String("bounds", "default", "how far: small, default or large")
	only := flag.String("only", "", "only checks whose line holds this text")
	modelsDir := flag.String("models", "docs/models", "the folder of the models")
	parallel := flag.Int("parallel", max(1, runtime.NumCPU()/2), "checks at a time")
	flag.Parse()
	level, known := map[string]int{"small": small, "default": usual, "large": large}[*bounds]
	if !known {
		fail("there are no bounds %q: say small, default or large", *bounds)
	}
	for tool, how := range map[string]string{"spin": "apt-get install spin", "gcc": "apt-get install gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			fail("%s is needed to check the models, and is not here: %s", tool, how)
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
	var all sync.WaitGroup
	for i, c := range chosen {
		slots <- struct{}{}
		all.Go(func() {
			results[i] = c.verify(*modelsDir)
			fmt.Fprintf(os.Stderr, "%s %s: %s\n", c.model, c.name(), results[i].verdict)
			<-slots
		})
	}
	all.Wait()
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "model\tproperty or mistake\tstates\tdepth\ttime\tverdict")
	states, failed, broken := 0, 0, 0
	for i, r := range results {
		c := chosen[i]
		if !r.passed {
			failed++
		}
		if c.mutation != "" && r.passed {
			broken++
		}
		states += r.states
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%.1fs\t%s\n", c.model, c.name(), r.states, r.depth, r.duration.Seconds(), r.verdict)
	}
	if err := w.Flush(); err != nil {
		fail("%v", err)
	}
	fmt.Printf("%d checks, %d mistakes found, %d states, %.0fs\n", len(chosen), broken, states, time.Since(began).Seconds())
	if failed > 0 {
		fail("%d checks did not come out as they must", failed)
	}
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "models: "+format+"\n", args...)
	os.Exit(1)
}
