package transfer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/inventory"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

const (
	// maxLineBytes is the longest line: a block with both of its schemas, a definition.
	maxLineBytes = 2 << 20

	// maxIssues is how many mistakes are told at a time.
	maxIssues = 50
)

// fileContent is a file that is sound, each thing with its line.
type fileContent struct {
	blocks      []withLine[workflow.Block]
	definitions []withLine[parsedDefinition]
	entities    []withLine[workflow.Entity]
	lines       int
}

// withLine is a thing and where it stands.
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
	cron     bool
}

// reader collects what a file holds, and what is wrong with it.
type reader struct {
	fileContent
	issues      []workflow.Issue
	seen        map[string]int // names, with their lines
	wrongFormat bool           // it is no file of this kind
	ended       bool
	counted     totals
	skip        func(kind string) bool
}

// parseFile reads a whole file. The error names every line that cannot be used.
func parseFile(in io.Reader, only []string) (fileContent, error) {
	r := &reader{seen: map[string]int{}}
	r.skip = func(kind string) bool { return len(only) > 0 && !slices.Contains(only, kind) }
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), maxLineBytes)
	for lines.Scan() && len(r.issues) < maxIssues {
		r.lines++
		if text := bytes.TrimSpace(lines.Bytes()); len(text) > 0 {
			r.readLine(slices.Clone(text)) // the scanner uses its room again
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
		r.addIssue("", "format", "the file ends before its last line, which says how much it holds: it was cut short")
	}
	return r.fileContent, workflow.Invalid("this cannot be imported; nothing was changed", r.issues)
}

func (r *reader) addIssue(path, code, message string) {
	r.issues = append(r.issues, workflow.Issue{Line: r.lines, Path: path, Code: code, Message: message})
}

// addError adds what an error says, in its places on the line.
func (r *reader) addError(err error) {
	var e *workflow.Error
	if !errors.As(err, &e) || len(e.Issues) == 0 {
		r.addIssue("", "invalid", err.Error())
		return
	}
	for _, i := range e.Issues {
		i.Line, i.Column = r.lines, 0 // a column of the part would not be that of the line
		r.issues = append(r.issues, i)
	}
}

// checkUnique notes that a thing stands here, and reports whether it does not stand
// elsewhere as well.
func (r *reader) checkUnique(name string) bool {
	if at, twice := r.seen[name]; twice {
		r.addIssue("", "duplicate", fmt.Sprintf("%s stands on line %d already", name, at))
		return false
	}
	r.seen[name] = r.lines
	return true
}

func (r *reader) readLine(text []byte) {
	if r.lines == 1 {
		var h header
		switch err := decodeStrict(text, &h); {
		case err != nil || h.Kind != "export":
			r.addIssue("", "format", "this is no file of \"lockstep export\"; entities alone are imported by \"lockstep entities import\"")
		case h.Format > formatVersion:
			r.addIssue("format", "format", fmt.Sprintf("the file has format %d, this command reads up to %d: use a newer one", h.Format, formatVersion))
		}
		r.wrongFormat = len(r.issues) > 0
		return
	}
	if r.wrongFormat {
		return // its lines would all be wrong
	}
	if r.ended {
		r.addIssue("", "format", "nothing may stand behind the line that ends the file")
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
			r.addIssue("end", "format", fmt.Sprintf("it says %s, and the file holds %s", *c.End, r.counted))
		}
	default:
		r.addIssue("", "format", "a line is a block, a definition, an entity or the end")
	}
}

// decodeStrict decodes one value and no more.
func decodeStrict(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("this is not JSON: it ends too early")
		}
		return fmt.Errorf("this cannot be read: %w", err)
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
	p := parsedDefinition{specRef(d), c.Definition, definition.Digest(d), c.Archived, d.Cron != nil}
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
