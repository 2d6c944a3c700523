package yamldoc

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Parse parses a text. Where root is nil, the reader's issues say why.
func Parse(source []byte) (r *Reader, root ast.Node) {
	r = &Reader{nodes: map[string]ast.Node{}}
	return r, r.parse(bytes.TrimPrefix(source, []byte("\ufeff")))
}

// Issues are the issues in the order of the text.
func (r *Reader) Issues() []workflow.Issue {
	slices.SortStableFunc(r.issues, func(a, b workflow.Issue) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path))
	})
	return r.issues
}

// IssueCount is how many issues there are, to see whether reading added one.
func (r *Reader) IssueCount() int { return len(r.issues) }

// parse parses the text into its one document and checks what holds for any
// document. The parser is a library that meets whatever an author sends: should
// it panic on some text, the text is what is at fault for the caller.
func (r *Reader) parse(source []byte) (root ast.Node) {
	defer func() {
		if recover() != nil {
			root = nil
			r.Report(nil, "", "syntax", notYAML)
		}
	}()
	if !utf8.Valid(source) {
		r.Report(nil, "", "encoding", "the text is not UTF-8")
		return nil
	}
	r.lines = strings.Split(string(source), "\n")
	tokens := lexer.Tokenize(string(source))
	if !r.withinLimits(tokens) {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // ours are reported with their path
	if err != nil {
		r.reportSyntax(err)
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
		r.Report(nil, "", "required", "the document is empty")
		return nil
	case len(docs) > 1:
		r.Report(docs[1].Body, "", "syntax", "want one document, there is another")
		return nil
	}
	if !r.indexNodes(docs[0].Body, "", 0) {
		return nil
	}
	return docs[0].Body
}

const notYAML = "this cannot be read as YAML"

// reportSyntax reports what the parser says. Its errors print the text around the
// place too, which takes long and is not wanted here.
func (r *Reader) reportSyntax(err error) {
	i := workflow.Issue{Code: "syntax"}
	var e yaml.Error
	if errors.As(err, &e) {
		i.Message = e.GetMessage()
		if tok := e.GetToken(); tok != nil && tok.Position != nil {
			i.Line, i.Column = tok.Position.Line, max(tok.Position.Column, 1)
		}
	} else {
		i.Message = notYAML
	}
	r.issues = append(r.issues, i)
}
