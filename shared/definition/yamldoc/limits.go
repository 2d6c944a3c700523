package yamldoc

import (
	"strconv"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Limits of a document. The parser takes quadratic time in the keys of a mapping and
// recurses into nested values, so tokens are counted before it starts.
const (
	maxDepth  = 32
	maxTokens = 40_000
	maxKeys   = 10_000
)

// withinLimits refuses what only an attacker would use: anchors, aliases, merge keys, tags,
// directives, and more of anything than a definition needs.
func (r *Reader) withinLimits(tokens token.Tokens) bool {
	flow, keys, line, inLine := 0, 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, inLine = t.Position.Line, 0
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			r.reportToken(t, "anchor", "anchors, aliases and merge keys are not supported; repeat the value")
		case token.TagType, token.DirectiveType:
			r.reportToken(t, "tag", "tags and directives are not supported; a text that begins with ! or % needs quotes")
		case token.InfinityType, token.NanType:
			r.reportToken(t, "value", "JSON has no such number")
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType:
			inLine++ // in a block, these can nest within one line
		case token.MappingValueType:
			keys++
		}
		if flow > maxDepth || inLine > maxDepth {
			r.reportToken(t, "depth", "the document is nested deeper than "+strconv.Itoa(maxDepth))
			return false
		}
	}
	switch {
	case len(tokens) > maxTokens:
		r.Report(nil, "", "limit", "the document has more than %d parts", maxTokens)
	case keys > maxKeys:
		r.Report(nil, "", "limit", "the document has more than %d fields", maxKeys)
	}
	return len(r.issues) == 0
}

// indexNodes records every value by its path, and reports whether the nesting is within
// the limit. It reports keys that are given twice.
func (r *Reader) indexNodes(n ast.Node, path string, depth int) bool {
	if depth > maxDepth {
		r.Report(n, path, "depth", "the document is nested deeper than %d", maxDepth)
		return false
	}
	r.nodes[path] = n
	if s, ok := n.(*ast.SequenceNode); ok {
		for i, v := range s.Values {
			if !r.indexNodes(v, path+"["+strconv.Itoa(i)+"]", depth+1) {
				return false
			}
		}
		return true
	}
	seen := map[string]bool{}
	for _, v := range pairs(n) {
		key := KeyOf(v)
		if seen[key] {
			r.Report(v.Key, JoinPath(path, key), "duplicate", "this field is given twice")
		}
		seen[key] = true
		if !r.indexNodes(v.Value, JoinPath(path, key), depth+1) {
			return false
		}
	}
	return true
}
