package mutation_test

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/tests/sim/mutation"
)

// fewSeeds are mistakes that a few hundred seeds find: one in the locks, one in the packs, one
// elsewhere. `make mutations` makes all of them.
var fewSeeds = []string{
	"a held lock counts as free",
	"a pack is finished without comparing the token",
	"a cancel is accepted during a rollback",
}

var (
	violatedRE = regexp.MustCompile(`(?m)^seed (\d+) violated "([^"]+)": `)
	repeatRE   = regexp.MustCompile(`(?m)^(\d+) of (\d+) calls and (\d+) of (\d+) faults remain; to repeat:\n  make simulate SEED=(\d+) CUT='([^']*)'$`)
)

// TestMutation_DetectedAndShrunk: some seed violates an invariant; the simulation is shrunk,
// still violates the same invariant, and does so again with the command that is printed.
func TestMutation_DetectedAndShrunk(t *testing.T) {
	shrunk := false
	for _, m := range mutation.All() {
		for _, name := range fewSeeds {
			if m.Name != name {
				continue
			}
			program, err := m.Simulation(t.Context(), root, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			shrunk = checkShrinks(t, name, program) || shrunk
		}
	}
	if !shrunk {
		t.Error("no simulation was shrunk")
	}
}

// smallSeeds broke an invariant once, with small bounds. The first two showed that a start stored the
// entities that it had read ahead under an id that its key could still change.
var smallSeeds = []string{"340", "357", "470001944", "470002010", "1300000896", "70129405", "91000569", "42000000479", "198636872"}

// TestSmall_SeedsThatBrokeAnInvariant simulates these seeds.
func TestSmall_SeedsThatBrokeAnInvariant(t *testing.T) {
	program, err := mutation.Small().Simulation(t.Context(), root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, seed := range smallSeeds {
		if out, err := exec.CommandContext(t.Context(), program, "-small", "-seed", seed, "-quiet").CombinedOutput(); err != nil {
			t.Errorf("seed %s: %v\n%s", seed, err, out)
		}
	}
}

// checkShrinks simulates until an invariant is violated, and reports whether the simulation was
// shrunk.
func checkShrinks(t *testing.T, name, program string) bool {
	out, err := exec.CommandContext(t.Context(), program, "-seeds", "600", "-parallel", "1").CombinedOutput()
	violation, rerun := violatedRE.FindSubmatch(out), repeatRE.FindSubmatch(out)
	if err == nil || violation == nil || rerun == nil {
		t.Errorf("%s is not found: %v\n%s", name, err, out[max(0, len(out)-2000):])
		return false
	}
	invariant, seed, cut := string(violation[2]), string(rerun[5]), string(rerun[6])
	if !strings.Contains(string(out), "\nviolated \""+invariant+"\": ") || string(violation[1]) != seed {
		t.Errorf("%s: the shrunk simulation has another seed, or does not violate %q:\n%s", name, invariant, out)
	}
	again, err := exec.CommandContext(t.Context(), program, "-seed", seed, "-cut", cut).CombinedOutput()
	if err == nil || !strings.Contains(string(again), "\nviolated \""+invariant+"\": ") {
		t.Errorf("%s: repeated with %q: %v\n%s", name, cut, err, again[max(0, len(again)-2000):])
	}
	var n [4]int
	for i := range n {
		n[i], _ = strconv.Atoi(string(rerun[1+i]))
	}
	t.Logf("%s: %q in seed %s, %d calls and %d faults of %d and %d, with %s", name, invariant, seed, n[0], n[2], n[1], n[3], cut)
	if n[0] >= n[1] && n[2] >= n[3] {
		t.Errorf("%s: the simulation is not shorter", name)
	}
	return n[0] < n[1]
}
