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

// Parse reads a definition from YAML or JSON and checks it whole. The error is
// CodeInvalid with every issue and its place, in the order of the text, or
// CodeTooLarge.
func Parse(source []byte) (*spec.Definition, error) { return parse(source, false) }

// ParseStrict is Parse of what an author hands in. It also refuses what can only be
// a slip of the pen, and which definitions that were published earlier may hold.
func ParseStrict(source []byte) (*spec.Definition, error) { return parse(source, true) }

func parse(source []byte, strict bool) (*spec.Definition, error) {
	if len(source) > MaxSource {
		return nil, workflow.Errorf(workflow.CodeTooLarge, "a definition holds at most %d bytes, this has %d", MaxSource, len(source))
	}
	doc, root := yamldoc.Parse(source)
	r := &reader{doc}
	d := &spec.Definition{}
	if root != nil {
		r.definition(d).Read(root, "")
		r.checkDefinition(d)
		program.Compile(d, doc)
		if strict {
			r.checkDeclaredParameters(d)
		}
	}
	if err := workflow.Invalid(invalidDefinition, r.Issues()); err != nil {
		return nil, err
	}
	return d, nil
}

// LocateIssues gives issues of a source that has been parsed their lines and columns:
// those of what is missing the place where it should be.
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

// Compile compiles every expression of a definition that has been parsed.
func Compile(d *spec.Definition) (*Compiled, error) {
	r := &yamldoc.Reader{}
	c := program.Compile(d, r)
	if err := workflow.Invalid(invalidDefinition, r.Issues()); err != nil {
		return nil, err
	}
	return c, nil
}

// reader reads the fields of a definition from a document.
type reader struct{ *yamldoc.Reader }
