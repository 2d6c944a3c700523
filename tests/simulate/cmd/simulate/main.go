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

	"github.com/lockstep-run/lockstep/tests/simulate"
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
		return one(uint64(*seed), *cut, *quiet)
	}
	return many(*from, *seeds, *parallel, *enough, *brief)
}

// one plays one seed and tells of it.
func one(seed uint64, text string, quiet bool) int {
	cut, err := simulate.ParseCut(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	r := simulate.Tell(seed, cut, func(line string) {
		if !quiet {
			fmt.Println(line)
		}
	})
	fmt.Printf("seed %d: %d calls, %d runs, %s of time, %d faults\n", seed, r.Calls, r.Runs, r.Virtual, len(r.Strikes))
	if r.Violation == nil {
		fmt.Println("all laws hold")
		return 0
	}
	fmt.Printf("broken: %v\n", r.Violation)
	return 1
}

// tries bounds how often a play is repeated to make it short.
const tries = 400

func many(from uint64, seeds, parallel, enough int, brief bool) int {
	begin, told, broken := time.Now(), time.Now(), 0
	sum := simulate.Run(from, seeds, parallel, enough, func(s simulate.Sum) {
		if len(s.Failed) > broken {
			broken = len(s.Failed)
			fmt.Printf("one more is broken: %s\n", seedsOf(s.Failed))
		}
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			fmt.Println(figures(s, time.Since(begin)))
		}
	})
	fmt.Println(figures(sum, time.Since(begin)))
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
	cut, short := simulate.Shrink(first.Seed, first.Violation.Law, tries)
	simulate.Tell(first.Seed, cut, func(line string) { fmt.Println(line) })
	fmt.Printf("broken: %v\n%d calls and %d faults are left of %d and %d; once more:\n  make simulate SEED=%d CUT='%s'\n",
		short.Violation, short.Calls, len(short.Strikes), first.Calls, len(first.Strikes), first.Seed, cut)
	return 1
}

func seedsOf(failed []simulate.Result) string {
	var seeds []string
	for _, r := range failed {
		seeds = append(seeds, fmt.Sprintf("seed %d (%s)", r.Seed, r.Violation.Law))
	}
	return strings.Join(seeds, ", ")
}

func figures(s simulate.Sum, took time.Duration) string {
	return fmt.Sprintf("%d seeds in %s (%.0f a second): %d runs, %d calls, %d faults, %.0f hours of their time, %d broken",
		s.Seeds, took.Round(time.Second), float64(s.Seeds)/took.Seconds(), s.Runs, s.Calls, s.Strikes, s.Virtual.Hours(), len(s.Failed))
}
