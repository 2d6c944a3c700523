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

// Mutation is a mistake.
type Mutation struct {
	Name  string
	Edits []Edit
	// Test is the test that sees the mistake where no play can, as
	// "shared/worker:TestRemoteLease_ResultsArriveInParts"; "" leaves it to the laws.
	Test string
}

// Edit replaces a text that stands once in a file.
type Edit struct{ File, Old, New string }

// All are all mistakes.
func All() []Mutation { return slices.Concat(locks, packs, dispatches, executions, restores) }

// Apply is the changed text of each file of a mutation, by its path below root. A
// text that does not stand there exactly once is an error.
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
			return nil, fmt.Errorf("%s: in %s this stands %d times, not once:\n%s", m.Name, e.File, n, e.Old)
		}
		changed[e.File] = strings.Replace(text, e.Old, e.New, 1)
	}
	return changed, nil
}

// Overlay writes the mutation into dir, as a plan for the compiler's -overlay.
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

// Build builds a program of the module at root with the mutation, into dir.
func (m Mutation) Build(ctx context.Context, root, dir string, how ...string) (program string, err error) {
	plan, err := m.Overlay(root, dir)
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, "program")
	build := exec.CommandContext(ctx, "go", append([]string{how[0], "-overlay", plan, "-o", program}, how[1:]...)...)
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

// DetectedByTest runs the mutation's judge on the module at root with the mutation, and
// reports whether it fails, as it should. A mutation that does not compile, or a
// judge that does not exist, is an error.
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
