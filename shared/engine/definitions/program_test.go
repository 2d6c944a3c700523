package definitions_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Nodes carry what their surrounding embedded definitions say about failures and about jobs in
// flight: the innermost tolerance, and the lowest limit.
func TestProgram_CarriesConfigOfEmbeddedDefinitions(t *testing.T) {
	registry, ctx := sim.New(1).Open().Registry, context.Background()
	publish := func(name, config, more string) {
		t.Helper()
		source := "package: p\nname: " + name + "\nversion: 1.0.0\nconfig: {" + config + "}\nsteps:\n  - {label: one, functionBlock: p/b:1, runOn: device}\n" + more
		d := workflow.PublishedDefinition{Ref: workflow.Ref{Package: "p", Name: name, Version: "1.0.0"}, Source: []byte(source)}
		if _, err := registry.PutDefinition(ctx, "acme", d); err != nil {
			t.Fatal(err)
		}
	}
	embed := func(name string) string {
		return "  - {label: " + name + ", workflowReference: {workflow: p/" + name + "}}\n"
	}
	publish("plain", "timeout: 1h", "")
	publish("loose", "failureTolerance: 20%, maxInFlight: 9", embed("plain"))
	publish("strict", "failureTolerance: 1, maxInFlight: 2", embed("loose"))
	publish("none", "failureTolerance: 0", "")
	publish("root", "failureTolerance: 3, maxInFlight: 5", embed("strict")+embed("plain")+embed("loose")+embed("none")+"  - {label: last, functionBlock: p/b:1, runOn: device}\n")
	p, problem, err := new(definitions.Cache).Program(ctx, registry, "acme", workflow.Ref{Package: "p", Name: "root", Version: "1.0.0"}, nil)
	if problem != nil || err != nil {
		t.Fatal(problem, err)
	}
	for label, want := range map[string]string{
		"one": "5 as the root", "strict.one": "2 {1 0}", "strict.loose.one": "2 {0 20}", "strict.loose.plain.one": "2 {0 20}",
		"plain.one": "5 as the root", "loose.one": "5 {0 20}", "none.one": "5 {0 0}", "last": "5 as the root",
	} {
		at := p.IndexOf(label)
		got := fmt.Sprint(p.MaxInFlight(at), " as the root")
		if tolerance := p.Nodes[at].DefinitionTolerance; tolerance != nil {
			got = fmt.Sprint(p.MaxInFlight(at), " ", *tolerance)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", label, got, want)
		}
	}
	if p.Nodes[p.IndexOf("loose.one")].DefinitionTolerance == p.Nodes[p.IndexOf("strict.loose.one")].DefinitionTolerance {
		t.Error("a definition that is embedded twice has one tolerance for both places")
	}
}
