// The program simulates seeds and prints how many. It shrinks and prints the first simulation
// that violates an invariant.
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

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/simulator"
)

func main() { os.Exit(run()) }

func run() int {
	seeds := flag.Int("seeds", 1000, "number of seeds")
	from := flag.Uint64("from", 0, "first seed")
	seed := flag.Int64("seed", -1, "simulate only this seed, and print its trace")
	cut := flag.String("cut", "", "with -seed: what to leave out, as printed for a shrunk simulation")
	enough := flag.Int("enough", 1, "stop after so many failed seeds")
	small := flag.Bool("small", false, "shrink the bounds of engine and world, so that few entities reach them")
	parallel := flag.Int("parallel", runtime.GOMAXPROCS(0), "number of seeds simulated at a time")
	brief := flag.Bool("brief", false, "print failures in one line, and do not shrink them")
	quiet := flag.Bool("quiet", false, "with -seed: print only the result")
	profile := flag.String("profile", "", "write a CPU profile to this file")
	flag.Parse()
	debug.SetGCPercent(1600) // a world is small and short-lived, so memory is cheaper than time
	debug.SetMemoryLimit(2 << 30)
	simulator.Small = *small
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
	fmt.Printf("seeds %d to %d\n", *from, *from+uint64(*seeds)-1)
	return simulateMany(*from, *seeds, *parallel, *enough, *brief)
}

// simulateOne simulates one seed and prints its trace.
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
	fmt.Printf("seed %d: %d executions, %d calls, %d faults, %s of simulated time\n", seed, r.Executions, r.Calls, len(r.Faults), r.SimulatedTime)
	if r.Violation == nil {
		fmt.Println("all invariants hold")
		return 0
	}
	fmt.Printf("violated %q: %s\n", r.Violation.Invariant, r.Violation.Text)
	return 1
}

// maxShrinkRuns is how often a seed is simulated to shrink it.
const maxShrinkRuns = 400

// manySeeds are so many that some execution stores its outcomes in items of their own, if the bound of those in its
// state item is below smallSetBytes, as it is where make SMALL=1 has shrunk it.
const (
	manySeeds     = 500
	smallSetBytes = 64
)

func simulateMany(from uint64, seeds, parallel, enough int, brief bool) int {
	begin, lastReport, failed := time.Now(), time.Now(), 0
	sum := simulator.RunSeeds(from, seeds, parallel, enough, func(s simulator.Summary) {
		if len(s.Failed) > failed {
			failed = len(s.Failed)
			fmt.Printf("violated: %s\n", formatSeeds(s.Failed))
		}
		if time.Since(lastReport) > 10*time.Second {
			lastReport = time.Now()
			fmt.Println(formatSummary(s, time.Since(begin)))
		}
	})
	fmt.Println(formatSummary(sum, time.Since(begin)))
	for _, r := range sum.Failed {
		fmt.Printf("seed %d violated %q: %s\n", r.Seed, r.Violation.Invariant, r.Violation.Text)
	}
	if len(sum.Failed) == 0 {
		if workflow.MaxInlineSetBytes < smallSetBytes && sum.Seeds >= manySeeds && sum.StoredOutcomes == 0 {
			fmt.Println("no execution has stored what became of its entities in items of their own: nothing was compared")
			return 1
		}
		return 0
	}
	if brief {
		return 1
	}
	first := sum.Failed[0]
	cut, short := simulator.Shrink(first.Seed, first.Violation.Invariant, maxShrinkRuns)
	simulator.Trace(first.Seed, cut, func(line string) { fmt.Println(line) })
	fmt.Printf("violated %q: %s\n%d of %d calls and %d of %d faults remain; to repeat:\n  make simulate SEED=%d CUT='%s'%s\n",
		short.Violation.Invariant, short.Violation.Text, short.Calls, first.Calls, len(short.Faults), len(first.Faults), first.Seed, cut, settingsArguments())
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
	return fmt.Sprintf("%d seeds in %s (%.0f per second): %d executions, %d calls, %d faults, %.0f hours of simulated time, %d of %d ends of later tries judged; %s",
		s.Seeds, took.Round(time.Second), float64(s.Seeds)/took.Seconds(), s.Executions, s.Calls, s.Faults, s.SimulatedHours, s.Ends.Judged, s.Ends.Later, formatFailed(len(s.Failed)))
}

func formatFailed(n int) string {
	if n == 0 {
		return "all invariants hold"
	}
	return fmt.Sprintf("%d seeds violated an invariant", n)
}

func settingsArguments() string {
	if simulator.Small {
		return " SMALL=1"
	}
	return ""
}
