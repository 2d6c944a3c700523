package catalog_test

import (
	"context"
	"slices"
	"testing"
	"time"
)

// Lint warns of waits under locks only where there are locks that others want.
func TestCatalog_LintWarnsOfLongWaits(t *testing.T) {
	for name, test := range map[string]struct {
		head, steps string
		want        []string
	}{
		"entities":    {"seedEntity: device", "{label: a, wait: {for: 2h}}", []string{"steps[0].wait.for long_wait"}},
		"acquired":    {"acquire: [{type: device}]", "{label: a, wait: {for: 2h}}", []string{"steps[0].wait.for long_wait"}},
		"no entities": {"description: x", "{label: a, wait: {for: 2h}}", nil},
		"shared":      {"seedEntity: device\nconfig: {lockMode: shared}", "{label: a, wait: {for: 2h}}", nil},
		"short":       {"seedEntity: device", "{label: a, wait: {for: 1h}}, {label: b, delay: 1h, set: {x: 1}}", nil},
		"signal":      {"seedEntity: device", "{label: a, wait: {signal: {name: s, deadline: 3h}}}", []string{"steps[0].wait.signal.deadline long_wait"}},
		"condition":   {"seedEntity: device", "{label: a, wait: {when: 'now > now'}}", []string{"steps[0].wait long_wait"}},
		"approval":    {"seedEntity: device", "{label: a, wait: {approval: {title: t, deadline: 10m}}}", nil},
		"rollout": {"seedEntity: device", "{label: a, rollout: {batches: [1], pause: 2h}, workflow: {steps: [{label: b, set: {x: 1}}]}}",
			[]string{"steps[0].rollout.pause long_wait"}},
	} {
		t.Run(name, func(t *testing.T) {
			source := "package: p\nname: w\nversion: 1.0.0\n" + test.head + "\nsteps: [" + test.steps + "]\n"
			issues, err := newCatalog().Lint(context.Background(), ann, []byte(source), time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, i := range issues {
				got = append(got, i.Path+" "+i.Code)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%q, want %q: %v", got, test.want, issues)
			}
		})
	}
}

// Lint warns of a step that reads a parameter which a start may leave out.
func TestCatalog_LintWarnsOfOptionalParameters(t *testing.T) {
	for name, test := range map[string]struct{ required, steps, want string }{
		"read":           {"", `{label: a, set: {x: "${parameters.n}", y: "${parameters.n}"}}`, "steps[0].set optional_parameter"},
		"required":       {"required: [n], ", `{label: a, set: {x: "${parameters.n}"}}`, ""},
		"asked for":      {"", `{label: a, set: {x: "${has(parameters.n) ? parameters.n : 1}"}}`, ""},
		"asked before":   {"", `{label: a, condition: has(parameters.n), set: {x: "${parameters.n}"}}`, ""},
		"in a text":      {"", `{label: a, set: {x: "${'parameters.n'}"}}`, ""},
		"of another one": {"", `{label: a, set: {x: "${has(parameters.m) ? parameters.n : 1}"}}`, "steps[0].set optional_parameter"},
	} {
		source := "package: p\nname: w\nversion: 1.0.0\nparameters: {type: object, " + test.required + "properties: {n: {type: integer, default: 1}, m: {type: integer}}}\nsteps: [" + test.steps + "]\n"
		issues, err := newCatalog().Lint(context.Background(), ann, []byte(source), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, i := range issues {
			got += i.Path + " " + i.Code
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q: %v", name, got, test.want, issues)
		}
	}
}
