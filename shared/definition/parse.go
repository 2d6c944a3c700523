package definition

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// MaxSource is the largest definition, in bytes.
const MaxSource = 256 << 10

// Parse reads a definition from YAML or JSON and checks it whole. The error is
// CodeInvalid with every issue and its place, or CodeTooLarge.
func Parse(source []byte) (*workflow.Definition, error) {
	if len(source) > MaxSource {
		return nil, workflow.Errorf(workflow.CodeTooLarge, "a definition holds at most %d bytes, this has %d", MaxSource, len(source))
	}
	r := &reader{places: map[string]ast.Node{}}
	root := r.root(source)
	if root == nil {
		return nil, workflow.Invalid("the definition is not valid", r.issues)
	}
	d := &workflow.Definition{}
	r.definition(root, d)
	if len(r.issues) == 0 {
		r.references(d)
	}
	if err := workflow.Invalid("the definition is not valid", r.issues); err != nil {
		return nil, err
	}
	return d, nil
}

// root parses the text into its one document. The parser is a library that
// meets whatever an author sends: should it panic on some text, the text is what
// is at fault for the caller.
func (r *reader) root(source []byte) (root ast.Node) {
	defer func() {
		if recover() != nil {
			root = nil
			r.issue(nil, "", "syntax", "this cannot be read as YAML")
		}
	}()
	if nests(source) {
		r.issue(nil, "", "depth", "the document is nested deeper than %d", maxDepth)
		return nil
	}
	file, err := parser.ParseBytes(source, 0)
	if err != nil {
		r.syntax(err)
		return nil
	}
	var docs []*ast.DocumentNode
	for _, d := range file.Docs {
		if d.Body != nil {
			docs = append(docs, d)
		}
	}
	switch {
	case len(docs) == 0:
		r.issue(nil, "", "required", "the document is empty")
		return nil
	case len(docs) > 1:
		r.issue(docs[1].Body, "", "syntax", "a file holds one definition")
		return nil
	}
	w := &walker{r: r}
	ast.Walk(w, docs[0].Body)
	if len(r.issues) > 0 {
		return nil
	}
	return docs[0].Body
}

func (r *reader) syntax(err error) {
	i := workflow.Issue{Code: "syntax", Message: firstLine(err)}
	var e yaml.Error
	if errors.As(err, &e) {
		i.Message = e.GetMessage()
		if tok := e.GetToken(); tok != nil && tok.Position != nil {
			i.Line, i.Column = tok.Position.Line, tok.Position.Column
		}
	}
	r.issues = append(r.issues, i)
}

// nests reports whether brackets nest deeper than a definition ever does, before
// any parser recurses over them. Brackets inside texts count too: they are
// balanced in all but contrived ones.
func nests(source []byte) bool {
	depth := 0
	for _, c := range source {
		switch c {
		case '[', '{':
			if depth++; depth > 4*maxDepth {
				return true
			}
		case ']', '}':
			depth = max(0, depth-1)
		}
	}
	return false
}

// walker refuses what a definition has no use for and an attacker has: anchors,
// aliases, merge keys, tags, deep nesting.
type walker struct{ r *reader }

func (w *walker) Visit(n ast.Node) ast.Visitor {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		w.r.issue(n, n.GetPath(), "anchor", "anchors, aliases and merge keys are not supported; write it out")
		return nil
	case *ast.TagNode, *ast.DirectiveNode:
		w.r.issue(n, n.GetPath(), "tag", "tags and directives are not supported")
		return nil
	case *ast.InfinityNode, *ast.NanNode:
		w.r.issue(n, n.GetPath(), "value", "this is not a number that JSON has")
		return nil
	}
	if depthOf(n.GetPath()) > maxDepth {
		w.r.issue(n, "", "depth", "the document is nested deeper than %d", maxDepth)
		return nil
	}
	return w
}

func depthOf(path string) int {
	n := 0
	for _, c := range path {
		if c == '.' || c == '[' {
			n++
		}
	}
	return n
}

var errNoSteps = fmt.Sprintf("a definition has 1 to %d steps", maxSteps)
