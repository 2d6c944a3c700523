// The program plays seeds of the simulation, as many as are asked for, and says
// how many. The first play that breaks a law is made short and told.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/tests/sim/simulator"
)

func main() { os.Exit(run()) }

func run() int {
	seeds := flag.Int("seeds", 1000, "how many seeds are played")
	from := flag.Uint64("from", 0, "the first of them")
	seed := flag.Int64("seed", -1, "play this one, and tell of it")
	cut := flag.String("cut", "", "with -seed: what is left out, as a shrunk play says")
	enough := flag.Int("enough", 1, "stop when so many have failed")
	parallel := flag.Int("parallel", runtime.GOMAXPROCS(0), "how many are played at a time")
	brief := flag.Bool("brief", false, "tell of failures in one line, and do not shrink them")
	quiet := flag.Bool("quiet", false, "with -seed: tell of the end only")
	profile := flag.String("profile", "", "write a profile of the processor to this file")
	flag.Parse()
	debug.SetGCPercent(400)
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		defer pprof.StopCPUProfile()
	}
	if *seed >= 0 {
		return simulateOne(uint64(*seed), *cut, *quiet)
	}
	return simulateMany(*from, *seeds, *parallel, *enough, *brief)
}

// simulateOne plays one seed and tells of it.
func simulateOne(seed uint64, text string, quiet bool) int {
	cut, err := simulator.ParseCut(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	r := simulator.Trace(seed, cut, func(line string) {
		if !quiet {
			fmt.Println(line)
		}
	})
	fmt.Printf("seed %d: %d calls, %d runs, %s of time, %d faults\n", seed, r.Calls, r.Executions, r.SimulatedTime, len(r.Faults))
	if r.Violation == nil {
		fmt.Println("all laws hold")
		return 0
	}
	fmt.Printf("broken: %v\n", r.Violation)
	return 1
}

// maxShrinkRuns bounds how often a play is repeated to make it short.
const maxShrinkRuns = 400

func simulateMany(from uint64, seeds, parallel, enough int, brief bool) int {
	begin, lastReport, failed := time.Now(), time.Now(), 0
	sum := simulator.RunSeeds(from, seeds, parallel, enough, func(s simulator.Summary) {
		if len(s.Failed) > failed {
			failed = len(s.Failed)
			fmt.Printf("one more is broken: %s\n", formatSeeds(s.Failed))
		}
		if time.Since(lastReport) > 10*time.Second {
			lastReport = time.Now()
			fmt.Println(formatSummary(s, time.Since(begin)))
		}
	})
	fmt.Println(formatSummary(sum, time.Since(begin)))
	for _, r := range sum.Failed {
		fmt.Printf("seed %d broken: %v\n", r.Seed, r.Violation)
	}
	if len(sum.Failed) == 0 {
		return 0
	}
	if brief {
		return 1
	}
	first := sum.Failed[0]
	cut, short := simulator.Shrink(first.Seed, first.Violation.Invariant, maxShrinkRuns)
	simulator.Trace(first.Seed, cut, func(line string) { fmt.Println(line) })
	fmt.Printf("broken: %v\n%d calls and %d faults are left of %d and %d; once more:\n  make simulate SEED=%d CUT='%s'\n",
		short.Violation, short.Calls, len(short.Faults), first.Calls, len(first.Faults), first.Seed, cut)
	return 1
}

func formatSeeds(failed []simulator.Result) string {
	var seeds []string
	for _, r := range failed {
		seeds = append(seeds, fmt.Sprintf("seed %d (%s)", r.Seed, r.Violation.Invariant))
	}
	return strings.Join(seeds, ", ")
}

func formatSummary(s simulator.Summary, took time.Duration) string {
	return fmt.Sprintf("%d seeds in %s (%.0f a second): %d runs, %d calls, %d faults, %.0f hours of their time, %d broken",
		s.Seeds, took.Round(time.Second), float64(s.Seeds)/took.Seconds(), s.Executions, s.Calls, s.Faults, s.SimulatedTime.Hours(), len(s.Failed))
}
