// Package mutation proves that the simulation finds mistakes. It contains deliberate mistakes in
// the engine, the worker and the stores, each of which violates an invariant or fails a test.
//
// A mistake replaces text in source files. Only the compiler gets the changed files; the tree stays
// as it is. mutation.go applies a mistake and builds the simulation with it, or the test that finds
// it if no simulation does: because it lies between two calls of one lease, or needs too many
// coincidences.
//
// locks.go and narrow.go have the mistakes in the lock protocol, rules.go those in the rules that
// the invariants have in their own form, outcomes.go those in the outcomes of entities,
// partaking.go those in the participants of step runs, packs.go those in the pack protocol,
// mailbox.go those about signals, keys.go those about business keys, regions.go those about
// regions, waits.go those in steps that wait, retries.go those about where a retry begins, and
// engine_steps.go those in what the engine does itself, laws.go one for each law that no other breaks,
// and executions.go the others. adapters.go has those in the real adapters, for tests/protocol.
package mutation

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Mutation is a deliberate mistake.
type Mutation struct {
	Name  string
	Edits []Edit
	// Test is the test that finds the mistake if no simulation does, such as
	// "shared/worker:TestRemoteLease_ResultsArriveInParts"; "" if an invariant finds it.
	Test string
}

// Edit replaces a text that occurs exactly once in a file.
type Edit struct{ File, Old, New string }

// All returns all mistakes: those in the code that the simulation runs, and [Borders].
func All() []Mutation {
	return slices.Concat(locks, judged, measured, retained, narrowing, telling, partaking, packs, dispatches, executions, plans, branches, more, further, stalls, refusals, waves, reruns, restores, engineSteps, laws, Borders())
}

// Apply returns the changed text of each file of a mutation, by its path below root. It fails if a
// replaced text does not occur exactly once.
func (m Mutation) Apply(root string) (map[string]string, error) {
	changed := map[string]string{}
	for _, e := range m.Edits {
		text, ok := changed[e.File]
		if !ok {
			raw, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.Name, err)
			}
			text = string(raw)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			return nil, fmt.Errorf("%s: %s contains this text %d times, want once:\n%s", m.Name, e.File, n, e.Old)
		}
		changed[e.File] = strings.Replace(text, e.Old, e.New, 1)
	}
	return changed, nil
}

// Overlay writes the mutation into dir, as a file for the compiler's -overlay.
func (m Mutation) Overlay(root, dir string) (plan string, err error) {
	changed, err := m.Apply(root)
	if err != nil {
		return "", err
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for file, text := range changed {
		real, err := filepath.Abs(filepath.Join(root, file))
		if err != nil {
			return "", err
		}
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[real] = to
	}
	raw, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	plan = filepath.Join(dir, "overlay.json")
	return plan, os.WriteFile(plan, raw, 0o600)
}

// Build builds a program of the module at root with the mutation, into dir. command is the
// subcommand of go with its arguments.
func (m Mutation) Build(ctx context.Context, root, dir string, command ...string) (program string, err error) {
	plan, err := m.Overlay(root, dir)
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, "program")
	build := exec.CommandContext(ctx, "go", append([]string{command[0], "-overlay", plan, "-o", program}, command[1:]...)...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s does not compile: %w\n%s", m.Name, err, out)
	}
	return program, nil
}

// Simulation builds the simulation with the mutation.
func (m Mutation) Simulation(ctx context.Context, root, dir string) (program string, err error) {
	return m.Build(ctx, root, dir, "build", "./tests/sim/cmd/simulate")
}

// DetectedByTest runs the mutation's test on the module at root with the mutation, and reports
// whether it fails, as it should. It is an error if the mutation does not compile or the test does
// not exist.
func (m Mutation) DetectedByTest(ctx context.Context, root, dir string) (detected bool, err error) {
	pkg, test, _ := strings.Cut(m.Test, ":")
	program, err := m.Build(ctx, root, dir, "test", "-c", "./"+pkg)
	if err != nil {
		return false, err
	}
	cmd := exec.CommandContext(ctx, program, "-test.run", "^"+test+"$", "-test.v", "-test.timeout", "2m")
	cmd.Dir = filepath.Join(root, pkg)
	out, err := cmd.CombinedOutput()
	if !strings.Contains(string(out), "=== RUN   "+test) {
		return false, fmt.Errorf("%s: there is no test %s", m.Name, m.Test)
	}
	return err != nil, nil
}
