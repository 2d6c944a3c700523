package transfer

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// formatVersion is the version of the file format. It grows when an older command
// would misread a file.
const formatVersion = 1

// The kinds of records, in the order of a file.
const (
	kindBlocks      = "blocks"
	kindDefinitions = "definitions"
	kindEntities    = "entities"
)

var kinds = []string{kindBlocks, kindDefinitions, kindEntities}

// header is the first line of a file.
type header struct {
	Kind   string `json:"lockstep"` // "export"
	Format int    `json:"format"`
}

// record is any other line. It has exactly one of Block, Definition, Entity and End.
type record struct {
	Block    json.RawMessage `json:"block,omitempty"`
	Withheld []string        `json:"withheld,omitempty"` // names of the fields left out of the block, see secretFields

	Definition json.RawMessage `json:"definition,omitempty"`
	Archived   bool            `json:"archived,omitempty"` // of the definition
	Draft      bool            `json:"draft,omitempty"`

	Entity json.RawMessage `json:"entity,omitempty"`

	// End is the last line. Its counts reveal a file that was cut short.
	End *totals `json:"end,omitempty"`
}

// totals counts the records of each kind.
type totals struct {
	Blocks      int `json:"blocks"`
	Definitions int `json:"definitions"`
	Entities    int `json:"entities"`
}

func (t totals) String() string {
	return fmt.Sprintf("%d blocks, %d definitions, %d entities", t.Blocks, t.Definitions, t.Entities)
}

// entity is the exported part of an entity. It leaves out version and token, which
// count what happened in the old stage.
type entity struct {
	Type       string          `json:"type"`
	ID         string          `json:"id"`
	Attributes json.RawMessage `json:"attributes"`
	Groups     []string        `json:"groups,omitempty"`
}

func toEntity(e workflow.Entity) entity {
	return entity{e.Type, e.ID, e.Attributes, e.Groups}
}

// normalizeBlock removes null schemas and metadata, so that an absent one has one form.
func normalizeBlock(b workflow.Block) workflow.Block {
	for _, field := range []*json.RawMessage{&b.ParameterSchema, &b.ResultSchema, &b.Metadata} {
		if string(*field) == "null" {
			*field = nil
		}
	}
	return b
}

// writer writes the lines of a file.
type writer struct {
	out    io.Writer
	counts totals
}

func (w *writer) writeLine(v any) error {
	text, err := workflow.EncodeJSON(v)
	if err != nil {
		return err
	}
	_, err = w.out.Write(append(text, '\n'))
	return err
}

func (w *writer) writeHeader() error { return w.writeLine(header{"export", formatVersion}) }
func (w *writer) writeEnd() error    { return w.writeLine(record{End: &w.counts}) }

func (w *writer) writeBlock(b workflow.Block) error {
	withheld := secretFields(b)
	raw, err := workflow.EncodeJSON(withholdFields(normalizeBlock(b), withheld))
	if err != nil {
		return err
	}
	w.counts.Blocks++
	return w.writeLine(record{Block: raw, Withheld: withheld})
}

func (w *writer) writeDefinition(source json.RawMessage, archived, draft bool) error {
	w.counts.Definitions++
	return w.writeLine(record{Definition: source, Archived: archived, Draft: draft})
}

func (w *writer) writeEntity(e workflow.Entity) error {
	raw, err := workflow.EncodeJSON(toEntity(e))
	if err != nil {
		return err
	}
	w.counts.Entities++
	return w.writeLine(record{Entity: raw})
}

// secretNameRE matches names of headers and parameters whose values grant access. Export files are
// passed around more freely than a stage's credentials should be.
var secretNameRE = regexp.MustCompile(`(?i)auth|cookie|credential|key|password|secret|session|signature|token|^\??sig$`)

// parameterPrefix marks a URL parameter among the names of withheld fields. No header
// name contains it.
const parameterPrefix = "?"

// secretFields returns the names of a block's headers and URL parameters that look secret, by name
// or by the form of the value.
func secretFields(b workflow.Block) []string {
	if b.HTTP == nil {
		return nil
	}
	var names []string
	for _, name := range sortedKeys(b.HTTP.Headers) {
		if value := b.HTTP.Headers[name]; refersToSecrets(value) {
			continue // the value is not here
		} else if secretNameRE.MatchString(name) || observe.RedactText(value) != value {
			names = append(names, name)
		}
	}
	_, query, _ := strings.Cut(b.HTTP.URL, "?")
	for piece := range strings.SplitSeq(query, "&") {
		name, value := parseParameter(piece)
		if !slices.Contains(names, name) && isSecretParameter(name, value) {
			names = append(names, name)
		}
	}
	return names
}

// parseParameter splits one parameter of a query into its prefixed name and its value.
func parseParameter(piece string) (name, value string) {
	name, value, _ = strings.Cut(piece, "=")
	return parameterPrefix + unescape(name), unescape(value)
}

// schemeRE matches the text that may surround a reference to a secret in a header and grants no
// access itself.
var schemeRE = regexp.MustCompile(`(?i)^(bearer|basic|token|apikey|digest)?[ =:]*$`)

// refersToSecrets reports whether a header refers to secrets instead of containing values.
func refersToSecrets(value string) bool {
	return workflow.HasSecrets(value) && schemeRE.MatchString(workflow.JoinSecrets(workflow.SplitSecrets(value), func(string) string { return "" }))
}

// isSecretParameter reports whether a parameter looks secret. Some servers treat a semicolon as the
// start of another parameter, so the value is matched too.
func isSecretParameter(name, value string) bool {
	return secretNameRE.MatchString(name) || strings.Contains(value, ";") && secretNameRE.MatchString(value) || observe.RedactText(value) != value
}

func unescape(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}

// withholdFields returns a copy of a block without the named fields. The rest stays
// the same byte for byte.
func withholdFields(b workflow.Block, names []string) workflow.Block {
	if b.HTTP == nil || len(names) == 0 {
		return b
	}
	copied := *b.HTTP
	copied.Headers = nil
	for name, value := range b.HTTP.Headers {
		if slices.Contains(names, name) {
			continue
		}
		if copied.Headers == nil {
			copied.Headers = map[string]string{}
		}
		copied.Headers[name] = value
	}
	if base, query, found := strings.Cut(b.HTTP.URL, "?"); found {
		pieces := slices.DeleteFunc(strings.Split(query, "&"), func(piece string) bool {
			name, _ := parseParameter(piece)
			return slices.Contains(names, name)
		})
		if copied.URL = base; len(pieces) > 0 {
			copied.URL += "?" + strings.Join(pieces, "&")
		}
	}
	b.HTTP = &copied
	return b
}

// withheldHint explains how to fill in a field that the export left out.
func withheldHint(name string) string {
	if parameter, ok := strings.CutPrefix(name, parameterPrefix); ok {
		return fmt.Sprintf("the URL parameter %s was not exported: add %s=VALUE to the query of http.url of the line", parameter, url.QueryEscape(parameter))
	}
	return fmt.Sprintf("the header %s was not exported: add it to http.headers of the line", name)
}
