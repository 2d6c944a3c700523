package definition_test

import (
	"fmt"
	"testing"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// The method of an http step, and what its author says, decide what may be done with its jobs.
func TestHTTPStep_BlockByMethod(t *testing.T) {
	for call, want := range map[string]string{
		"http: {url: \"http://a/\"}": workflow.HTTPReadBlock, "http: {url: \"http://a/\", method: HEAD}, idempotent: true": workflow.HTTPReadBlock,
		"http: {url: \"http://a/\", method: PUT}": workflow.HTTPSetBlock, "http: {url: \"http://a/\", method: DELETE}": workflow.HTTPSetBlock,
		"http: {url: \"http://a/\", method: POST}": workflow.HTTPSendBlock, "http: {url: \"http://a/\", method: PATCH}, idempotent: false": workflow.HTTPSendBlock,
		"http: {url: \"http://a/\", method: POST}, idempotent: true": workflow.HTTPSetBlock, "idempotent: true, http: {method: PATCH, url: \"http://a/\"}": workflow.HTTPSetBlock,
	} {
		d, err := definition.Parse(fmt.Appendf(nil, "package: p\nname: w\nversion: 1.0.0\nsteps: [{label: x, runOn: global, %s}]\n", call))
		if err != nil {
			t.Errorf("%s: %v", call, err)
			continue
		}
		ref, err := workflow.ParseRef(d.Steps[0].FunctionBlock)
		if b, ok := workflow.BuiltinBlock(ref); err != nil || !ok || b.Ref().String() != want || d.Schema() != 2 || !workflow.IsHTTPStep(b.Ref().String()) {
			t.Errorf("%s: %s, schema %d", call, b.Ref(), d.Schema())
		}
	}
	for _, name := range []string{"http_read", "http_set", "http_send"} {
		if err := definition.ValidateBlock(&workflow.Block{Package: "lockstep", Name: name, Version: "9.0.0"}); err == nil {
			t.Errorf("a block lockstep/%s can be registered", name)
		}
	}
}
