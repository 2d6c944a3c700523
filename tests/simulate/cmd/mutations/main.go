// The program makes each mistake of package mutation in a copy of the sources that
// the compiler alone sees, lets the simulation look for it, and prints which law
// has caught it after how many seeds. It fails if one was not caught.
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

	"github.com/lockstep-run/lockstep/tests/simulate/mutation"
)

func main() { os.Exit(run()) }

func run() int {
	seeds := flag.Int("seeds", 4000, "how many seeds are played with each mistake")
	only := flag.String("only", "", "mistakes whose names match this expression")
	parallel := flag.Int("parallel", runtime.GOMAXPROCS(0), "mistakes looked for at a time")
	flag.Parse()
	wanted, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	var chosen []mutation.Mutation
	for _, m := range mutation.All() {
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
				line, ok := sought(m, *seeds)
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
	fmt.Printf("%d of %d caught\n", len(chosen)-missed, len(chosen))
	if missed > 0 {
		return 1
	}
	return 0
}

var brokenRE = regexp.MustCompile(`(?m)^seed (\d+) broken: ([^:]+):`)

// sought builds the simulation with a mistake and lets it look.
func sought(m mutation.Mutation, seeds int) (line string, ok bool) {
	ctx := context.Background()
	row := func(law, after string) string { return fmt.Sprintf("| %-58s | %-66s | %7s |", m.Name, law, after) }
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return row(err.Error(), ""), false
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program, err := m.Build(ctx, ".", dir)
	if err != nil {
		return row(err.Error(), ""), false
	}
	out, err := exec.CommandContext(ctx, program, "-seeds", fmt.Sprint(seeds), "-parallel", "1", "-brief").CombinedOutput()
	found := brokenRE.FindSubmatch(out)
	switch {
	case found != nil:
		var seed int
		_, _ = fmt.Sscan(string(found[1]), &seed)
		return row(string(found[2]), fmt.Sprint(seed+1)), true
	case err != nil:
		return row("the program died: "+strings.TrimSpace(string(out[max(0, len(out)-300):])), ""), false
	}
	return row("NOT CAUGHT", fmt.Sprint(seeds)), false
}
