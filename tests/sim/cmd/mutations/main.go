// The program makes each mistake of package mutation in a copy of the sources that only the
// compiler sees, and simulates until an invariant is violated. It prints which invariant, after how
// many seeds, or which test fails if no simulation finds the mistake. It fails if a mistake was not
// found.
//
// With -judge protocol it runs the tests of tests/protocol instead, which cover only the lock and
// pack protocols, and prints which test failed, and how. A mistake that is not found is no failure
// then, because most mistakes lie elsewhere.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"

	"github.com/lockstep-run/lockstep/tests/sim/mutation"
)

func main() { os.Exit(run()) }

func run() int {
	seeds := flag.Int("seeds", 4000, "number of seeds simulated with each mistake")
	only := flag.String("only", "", "make only mistakes whose names match this expression")
	parallel := flag.Int("parallel", runtime.GOMAXPROCS(0), "number of mistakes tried at a time")
	small := flag.String("small", "", "make no mistake: write small bounds into this folder, as overlay.json for the compiler")
	detector := flag.String("judge", "simulation", "what finds the mistakes: simulation or protocol")
	flag.Parse()
	if *small != "" {
		if err := writeSmall(*small); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		return 0
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	detect := func(m mutation.Mutation) (string, bool) { return detectBySimulation(m, *seeds) }
	every := mutation.All()
	if *detector == "protocol" {
		detect, every = detectByProtocol, append(every, mutation.Adapters()...)
	}
	var chosen []mutation.Mutation
	for _, m := range every {
		if wanted.MatchString(m.Name) {
			chosen = append(chosen, m)
		}
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	missed := 0
	next := make(chan mutation.Mutation)
	for range *parallel {
		all.Go(func() {
			for m := range next {
				line, ok := detect(m)
				mu.Lock()
				if !ok {
					missed++
				}
				fmt.Println(line)
				mu.Unlock()
			}
		})
	}
	for _, m := range chosen {
		next <- m
	}
	close(next)
	all.Wait()
	fmt.Printf("%d of %d found\n", len(chosen)-missed, len(chosen))
	if missed > 0 && *detector != "protocol" {
		return 1
	}
	return 0
}

// writeSmall writes the small bounds into a folder.
func writeSmall(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	_, err := mutation.Small().Overlay(".", dir)
	return err
}

func row(m mutation.Mutation, invariant, after string) string {
	return fmt.Sprintf("| %-58s | %-66s | %7s |", m.Name, invariant, after)
}

var failedRE = regexp.MustCompile(`--- FAIL: (Test\w+/\w+)[^\n]*\n[^\n]*\[rapid\] (?:failed|panic) after (\d+) tests: ([^\n]*)`)

// detectByProtocol builds the protocol's tests with a mistake and runs them.
func detectByProtocol(m mutation.Mutation) (line string, ok bool) {
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return row(m, err.Error(), ""), false
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	program, err := m.Build(ctx, ".", dir, "test", "-c", "./tests/protocol")
	if err != nil {
		return row(m, err.Error(), ""), false
	}
	args := []string{"-rapid.nofailfile", "-rapid.shrinktime=1s"}
	if strings.HasPrefix(m.Name, "dynamo:") {
		args = append(args, "-test.run=Test(Locking|Dispatch)_KeepsInvariantsUnderFaults/dynamo", "-rapid.checks=300")
	} else {
		args = append(args, "-test.run=Test(Locking|Dispatch)_KeepsInvariantsUnderFaults/simulated", "-rapid.checks=6000")
	}
	test := exec.CommandContext(ctx, program, args...)
	test.Dir = "tests/protocol"
	out, err := test.CombinedOutput()
	found := failedRE.FindAllSubmatch(out, -1)
	for _, f := range found {
		line += row(m, fmt.Sprintf("%s: %s", f[1], f[3]), string(f[2])) + "\n"
	}
	switch {
	case found != nil:
		return strings.TrimSuffix(line, "\n"), true
	case err != nil:
		return row(m, "the tests crashed: "+strings.TrimSpace(string(out[max(0, len(out)-300):])), ""), false
	}
	return row(m, "not found", ""), false
}

var violatedRE = regexp.MustCompile(`(?m)^seed (\d+) violated "([^"]+)": `)

// detectBySimulation builds and runs the simulation with a mistake.
func detectBySimulation(m mutation.Mutation, seeds int) (line string, ok bool) {
	ctx := context.Background()
	row := func(invariant, after string) string { return row(m, invariant, after) }
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return row(err.Error(), ""), false
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if m.Test != "" {
		detected, err := m.DetectedByTest(ctx, ".", dir)
		switch {
		case err != nil:
			return row(err.Error(), ""), false
		case !detected:
			return row("NOT FOUND by "+m.Test, ""), false
		}
		return row(m.Test, "test"), true
	}
	program, err := m.Simulation(ctx, ".", dir)
	if err != nil {
		return row(err.Error(), ""), false
	}
	out, err := exec.CommandContext(ctx, program, "-seeds", fmt.Sprint(seeds), "-parallel", "1", "-brief").CombinedOutput()
	found := violatedRE.FindSubmatch(out)
	switch {
	case found != nil:
		var seed int
		_, _ = fmt.Sscan(string(found[1]), &seed)
		return row(string(found[2]), fmt.Sprint(seed+1)), true
	case err != nil:
		return row("the program crashed: "+strings.TrimSpace(string(out[max(0, len(out)-300):])), ""), false
	}
	return row("NOT FOUND", fmt.Sprint(seeds)), false
}
