package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A refusal for want of a role says once which it is, and how a local stack is told of it.
func TestPrintError_SaysHowARoleIsGiven(t *testing.T) {
	var out bytes.Buffer
	err := render.AsServiceError(&workflow.Error{Code: workflow.CodeForbidden, Message: "this needs the role operator", Issues: []workflow.Issue{{Code: "role", Message: "want operator"}}})
	printError(&out, err)
	if got := out.String(); strings.Count(got, "operator") != 1 || !strings.Contains(got, "takes the roles of --roles") {
		t.Error(got)
	}
	if doc := newErrorDocument(err); !strings.Contains(doc.Hint, "--roles") || len(doc.Errors) != 1 {
		t.Errorf("%+v", doc)
	}
}
