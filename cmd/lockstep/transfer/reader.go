package transfer

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/inventory"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

const (
	// maxLineBytes bounds a line: a block with both schemas, or a definition.
	maxLineBytes = 2 << 20

	// maxIssues is the number of issues that one error reports.
	maxIssues = 50
)

// fileContent is the content of a valid file.
type fileContent struct {
	blocks      []withLine[workflow.Block]
	definitions []withLine[parsedDefinition]
	entities    []withLine[workflow.Entity]
	lines       int
}

// withLine is a record and its line.
type withLine[T any] struct {
	line     int
	value    T
	withheld []string
}

// parsedDefinition is a definition with its canonical source.
type parsedDefinition struct {
	ref      workflow.Ref
	source   json.RawMessage
	digest   string
	archived bool
	draft    bool
	cron     bool
}

// reader collects the content of a file and its issues.
type reader struct {
	fileContent
	issues      []workflow.Issue
	seen        map[string]int // lines by name
	wrongFormat bool           // the header is wrong
	ended       bool
	counted     totals
	skip        func(kind string) bool
}

// parseFile reads a whole file. The error has an issue for each invalid line.
func parseFile(in io.Reader, only []string) (fileContent, error) {
	r := &reader{seen: map[string]int{}}
	r.skip = func(kind string) bool { return len(only) > 0 && !slices.Contains(only, kind) }
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), maxLineBytes)
	for lines.Scan() && len(r.issues) < maxIssues {
		r.lines++
		text := lines.Bytes()
		if r.lines == 1 {
			var err error
			if text, err = render.Text(text); err != nil {
				return fileContent{}, err
			}
		}
		if text = bytes.TrimSpace(text); len(text) > 0 {
			r.readLine(slices.Clone(text)) // the scanner reuses its buffer
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		r.lines++
		r.addIssue("", "too_large", fmt.Sprintf("a line holds at most %d bytes", maxLineBytes))
	case err != nil:
		return fileContent{}, err
	case r.lines == 0:
		r.lines++
		r.addIssue("", "format", "it is empty")
	case !r.ended && len(r.issues) == 0:
		r.lines++
		r.addIssue("", "format", "the last line with the counts is missing: the file was cut short")
	}
	return r.fileContent, workflow.Invalid("this cannot be imported; nothing was changed", r.issues)
}

func (r *reader) addIssue(path, code, message string) {
	r.issues = append(r.issues, workflow.Issue{Line: r.lines, Path: path, Code: code, Message: message})
}

// addError adds the issues of an error, at the current line.
func (r *reader) addError(err error) {
	var e *workflow.Error
	if !errors.As(err, &e) || len(e.Issues) == 0 {
		r.addIssue("", "invalid", err.Error())
		return
	}
	for _, i := range e.Issues {
		i.Line, i.Column = r.lines, 0 // a column within the record is not a column of the line
		r.issues = append(r.issues, i)
	}
}

// checkUnique reports whether no earlier line has the same name. It adds an issue otherwise.
func (r *reader) checkUnique(name string) bool {
	if line, duplicate := r.seen[name]; duplicate {
		r.addIssue("", "duplicate", fmt.Sprintf("%s is already on line %d", name, line))
		return false
	}
	r.seen[name] = r.lines
	return true
}

// IsExport reports whether a file begins as one of "lockstep export" does.
func IsExport(file []byte) bool {
	first, _, _ := bytes.Cut(file, []byte("\n"))
	var h header
	return decodeStrict(bytes.TrimSpace(first), &h) == nil && h.Kind == "export"
}

func (r *reader) readLine(text []byte) {
	if r.lines == 1 {
		var h header
		switch err := decodeStrict(text, &h); {
		case err != nil || h.Kind != "export":
			r.addIssue("", "format", "this is not a file of \"lockstep export\"; \"lockstep entities import\" imports entities alone")
		case h.Format > formatVersion:
			r.addIssue("format", "format", fmt.Sprintf("the file has format %d, this command reads up to %d: use a newer one", h.Format, formatVersion))
		}
		r.wrongFormat = len(r.issues) > 0
		return
	}
	if r.wrongFormat {
		return // every line would have an issue
	}
	if r.ended {
		r.addIssue("", "format", "no line may follow the last one with the counts")
		return
	}
	var c record
	if err := decodeStrict(text, &c); err != nil {
		r.addIssue("", "json", err.Error())
		return
	}
	switch {
	case c.Block != nil:
		r.counted.Blocks++
		if !r.skip(kindBlocks) {
			r.readBlock(c)
		}
	case c.Definition != nil:
		r.counted.Definitions++
		if !r.skip(kindDefinitions) {
			r.readDefinition(c)
		}
	case c.Entity != nil:
		r.counted.Entities++
		if !r.skip(kindEntities) {
			r.readEntity(c.Entity)
		}
	case c.End != nil:
		r.ended = true
		if *c.End != r.counted {
			r.addIssue("end", "format", fmt.Sprintf("it counts %s, and the file has %s", *c.End, r.counted))
		}
	default:
		r.addIssue("", "format", "want a block, a definition, an entity or the end")
	}
}

// decodeStrict decodes exactly one value and refuses unknown fields.
func decodeStrict(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("this cannot be read: %w", workflow.JSONError(err))
	}
	if d.More() {
		return errors.New("more than one value on the line")
	}
	return nil
}

func (r *reader) readBlock(c record) {
	blocks, err := ParseBlocks(c.Block)
	switch {
	case err != nil:
		r.addError(err)
	case len(blocks) != 1:
		r.addIssue("block", "format", "want one block")
	case r.checkUnique("block " + blocks[0].Ref().String()):
		r.blocks = append(r.blocks, withLine[workflow.Block]{r.lines, blocks[0], c.Withheld})
	}
}

func (r *reader) readDefinition(c record) {
	d, err := definition.Parse(c.Definition)
	if err != nil {
		r.addError(err)
		return
	}
	p := parsedDefinition{specRef(d), c.Definition, definition.Digest(d), c.Archived, c.Draft, d.Cron != nil || len(d.Crons) > 0}
	if r.checkUnique("definition " + p.ref.String()) {
		r.definitions = append(r.definitions, withLine[parsedDefinition]{line: r.lines, value: p})
	}
}

func specRef(d *spec.Definition) workflow.Ref {
	return workflow.Ref{Package: d.Package, Name: d.Name, Version: d.Version}
}

func (r *reader) readEntity(raw json.RawMessage) {
	e, issues := inventory.ParseLine(raw)
	for _, i := range issues {
		i.Line, i.Column = r.lines, 0
		r.issues = append(r.issues, i)
	}
	if len(raw) > inventory.MaxLineBytes {
		r.addIssue("", "too_large", fmt.Sprintf("an entity has at most %d bytes", inventory.MaxLineBytes))
	} else if len(issues) == 0 && r.checkUnique("entity "+e.Key().String()) {
		r.entities = append(r.entities, withLine[workflow.Entity]{line: r.lines, value: e})
	}
}

// ParseBlocks parses and checks one block or a list of blocks. It refuses unknown
// fields.
func ParseBlocks(source []byte) ([]workflow.Block, error) {
	blocks := make([]workflow.Block, 1)
	var into any = &blocks[0]
	if bytes.HasPrefix(bytes.TrimSpace(source), []byte("[")) {
		into = &blocks
	}
	d := json.NewDecoder(bytes.NewReader(source))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	switch {
	case err != nil:
		return nil, workflow.JSONError(err)
	case d.More():
		return nil, errors.New("something follows the JSON: several blocks are an array")
	case len(blocks) == 0:
		return nil, errors.New("it holds no block")
	}
	for i := range blocks {
		blocks[i].Pool = cmp.Or(blocks[i].Pool, "default")
		if err := definition.ValidateBlock(&blocks[i]); err != nil {
			return nil, err
		}
	}
	return blocks, nil
}
