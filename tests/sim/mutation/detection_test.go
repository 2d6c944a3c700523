package mutation_test

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/tests/sim/mutation"
)

// fewSeeds are mistakes that a few hundred seeds show: one of the locks, one of the
// delivery, one of what a run does besides. `make mutations` makes all of them.
var fewSeeds = []string{
	"a held lock counts as free",
	"a pack is finished without comparing the token",
	"a cancel is accepted during a rollback",
}

var (
	brokenRE = regexp.MustCompile(`(?m)^seed (\d+) broken: ([^:]+):`)
	onceRE   = regexp.MustCompile(`(?m)^(\d+) calls and (\d+) faults are left of (\d+) and (\d+); once more:\n  make simulate SEED=(\d+) CUT='([^']*)'$`)
)

// TestMutation_DetectedAndShrunk: a mistake breaks a law in some seed; the play
// is made shorter, still breaks the same law, and does so again by the command that
// is printed with it.
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
		t.Error("no play was made shorter")
	}
}

// checkShrinks plays until a law is broken, and reports whether the play was made shorter.
func checkShrinks(t *testing.T, name, program string) bool {
	out, err := exec.CommandContext(t.Context(), program, "-seeds", "600", "-parallel", "1").CombinedOutput()
	broken, rerun := brokenRE.FindSubmatch(out), onceRE.FindSubmatch(out)
	if err == nil || broken == nil || rerun == nil {
		t.Errorf("%s is not seen: %v\n%s", name, err, out[max(0, len(out)-2000):])
		return false
	}
	invariant, seed, cut := string(broken[2]), string(rerun[5]), string(rerun[6])
	if !strings.Contains(string(out), "\nbroken: "+invariant+":") || string(broken[1]) != seed {
		t.Errorf("%s: the short play is of another seed, or breaks another law than %q:\n%s", name, invariant, out)
	}
	again, err := exec.CommandContext(t.Context(), program, "-seed", seed, "-cut", cut).CombinedOutput()
	if err == nil || !strings.Contains(string(again), "\nbroken: "+invariant+":") {
		t.Errorf("%s: once more with %q: %v\n%s", name, cut, err, again[max(0, len(again)-2000):])
	}
	var n [4]int
	for i := range n {
		n[i], _ = strconv.Atoi(string(rerun[1+i]))
	}
	t.Logf("%s: %q in seed %s, %d calls and %d faults of %d and %d, with %s", name, invariant, seed, n[0], n[1], n[2], n[3], cut)
	if n[0] >= n[2] && n[1] >= n[3] {
		t.Errorf("%s: nothing is gained", name)
	}
	return n[0] < n[2]
}
