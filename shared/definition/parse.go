// Package definition reads what authors publish. It parses a definition from YAML or JSON, reports
// everything that is wrong with it at once, each issue with its line and column, and compiles its
// expressions.
//
//   - parse.go is the entry point. Package yamldoc parses the text.
//   - root.go, config.go, step.go, flow.go, condition.go and cron.go declare the fields, from the kinds of
//     values in scalars.go: how each is read, and its JSON Schema. A field that is
//     planned and not built yet is refused with not_implemented.
//   - check.go checks what needs the whole definition. Package program compiles the
//     expressions and checks what they read.
//   - schema.go writes the JSON Schema of definitions. Package schema validates values
//     against such schemas.
//   - block.go checks function blocks. canonical.go decides when two definitions are the
//     same.
package definition

import (
	"strings"

	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// MaxSource is the largest definition, in bytes.
const MaxSource = 256 << 10

const invalidDefinition = "the definition is not valid"

// Parse reads and checks a definition in YAML or JSON. The error is CodeInvalid with every
// issue and its position, in the order of the text, or CodeTooLarge.
func Parse(source []byte) (*spec.Definition, error) {
	d, _, err := parse(source, false)
	return d, err
}

// ParseStrict is ParseAndCompile for a definition that is about to be published. It also refuses
// what can only be a mistake, but what definitions published earlier may contain.
func ParseStrict(source []byte) (*spec.Definition, *Compiled, error) { return parse(source, true) }

// ParseAndCompile is Parse that also returns the compiled expressions, which Parse needs to check
// them.
func ParseAndCompile(source []byte) (*spec.Definition, *Compiled, error) { return parse(source, false) }

func parse(source []byte, strict bool) (*spec.Definition, *Compiled, error) {
	if len(source) > MaxSource {
		return nil, nil, workflow.Errorf(workflow.CodeTooLarge, "a definition holds at most %d bytes, this has %d", MaxSource, len(source))
	}
	doc, root := yamldoc.Parse(source)
	r := &reader{doc}
	d, compiled := &spec.Definition{}, (*Compiled)(nil)
	if root != nil {
		r.definition(d).Read(root, "")
		r.checkDefinition(d)
		compiled = program.Compile(d, doc)
		if strict {
			r.checkDeclaredParameters(d)
			r.checkFlowNames(d)
			r.checkStepTimeouts(d)
		}
	}
	if err := workflow.Invalid(invalidDefinition, r.Issues()); err != nil {
		return nil, nil, err
	}
	return d, compiled, nil
}

// NameOf returns the package/name:version that a text names, valid or not; "" if it names none.
func NameOf(source []byte) string {
	if len(source) > MaxSource {
		return ""
	}
	doc, root := yamldoc.Parse(source)
	if root == nil {
		return ""
	}
	r, d := &reader{doc}, &spec.Definition{}
	r.Object(yamldoc.Fields{"package": r.Text(&d.Package), "name": r.Text(&d.Name), "version": r.Text(&d.Version)}).Read(root, "")
	ref, err := workflow.ParseRef(d.Package + "/" + d.Name + ":" + d.Version)
	if err != nil {
		return ""
	}
	return ref.String()
}

// LocateIssues adds lines and columns to issues of a source that has been parsed. An issue
// about a missing value has the position of the object that should hold it.
func LocateIssues(source []byte, issues []workflow.Issue) []workflow.Issue {
	doc, root := yamldoc.Parse(source)
	if root == nil {
		return issues
	}
	for _, i := range issues {
		at := i.Path
		for at != "" && !doc.Has(at) {
			at = at[:max(strings.LastIndexAny(at, ".["), 0)]
		}
		if at == "" {
			at = i.Path
		}
		doc.ReportAtNode(at, i.Path, i.Code, "%s", i.Message)
	}
	return doc.Issues()
}

// Compiled is a definition whose expressions are ready to be evaluated.
type Compiled = program.Compiled

// Target is where an execution continues in a definition.
type Target = program.Target

// reader reads the fields of a definition from a document.
type reader struct{ *yamldoc.Reader }
