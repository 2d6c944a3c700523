package transfer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/lockstep-run/lockstep/cmd/lockstep/given"
	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/inventory"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

const (
	// longest is the longest line: a block with both of its schemas, a definition.
	longest = 2 << 20

	// shown is how many mistakes are told at a time.
	shown = 50
)

// content is a file that is sound, each thing with its line.
type content struct {
	blocks      []placed[workflow.Block]
	definitions []placed[published]
	entities    []placed[workflow.Entity]
	lines       int
}

// placed is a thing and where it stands.
type placed[T any] struct {
	line     int
	value    T
	withheld []string
}

// published is a definition with its canonical source.
type published struct {
	ref      workflow.Ref
	source   json.RawMessage
	digest   string
	archived bool
	cron     bool
}

// reader collects what a file holds, and what is wrong with it.
type reader struct {
	content
	issues []workflow.Issue
	seen   map[string]int // names, with their lines
	other  bool           // it is no file of this kind
	ended  bool
	end    totals
	skip   func(kind string) bool
}

// read reads a whole file. The error names every line that cannot be used.
func read(in io.Reader, only []string) (content, error) {
	r := &reader{seen: map[string]int{}}
	r.skip = func(kind string) bool { return len(only) > 0 && !slices.Contains(only, kind) }
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), longest)
	for lines.Scan() && len(r.issues) < shown {
		r.lines++
		if text := bytes.TrimSpace(lines.Bytes()); len(text) > 0 {
			r.take(slices.Clone(text)) // the scanner uses its room again
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		r.lines++
		r.bad("", "too_large", fmt.Sprintf("a line holds at most %d bytes", longest))
	case err != nil:
		return content{}, err
	case r.lines == 0:
		r.lines++
		r.bad("", "format", "it is empty")
	case !r.ended && len(r.issues) == 0:
		r.lines++
		r.bad("", "format", "the file ends before its last line, which says how much it holds: it was cut short")
	}
	return r.content, workflow.Invalid("this cannot be imported; nothing was changed", r.issues)
}

func (r *reader) bad(path, code, message string) {
	r.issues = append(r.issues, workflow.Issue{Line: r.lines, Path: path, Code: code, Message: message})
}

// wrong adds what an error says, in its places on the line.
func (r *reader) wrong(err error) {
	var e *workflow.Error
	if !errors.As(err, &e) || len(e.Issues) == 0 {
		r.bad("", "invalid", err.Error())
		return
	}
	for _, i := range e.Issues {
		i.Line, i.Column = r.lines, 0 // a column of the part would not be that of the line
		r.issues = append(r.issues, i)
	}
}

// once notes that a thing stands here, and reports whether it does not stand
// elsewhere as well.
func (r *reader) once(name string) bool {
	if at, twice := r.seen[name]; twice {
		r.bad("", "duplicate", fmt.Sprintf("%s stands on line %d already", name, at))
		return false
	}
	r.seen[name] = r.lines
	return true
}

func (r *reader) take(text []byte) {
	if r.lines == 1 {
		var h head
		switch err := strictly(text, &h); {
		case err != nil || h.Lockstep != "export":
			r.bad("", "format", "this is no file of \"lockstep export\"; entities alone are imported by \"lockstep entities import\"")
		case h.Format > format:
			r.bad("format", "format", fmt.Sprintf("the file has format %d, this command reads up to %d: use a newer one", h.Format, format))
		}
		r.other = len(r.issues) > 0
		return
	}
	if r.other {
		return // its lines would all be wrong
	}
	if r.ended {
		r.bad("", "format", "nothing may stand behind the line that ends the file")
		return
	}
	var c record
	if err := strictly(text, &c); err != nil {
		r.bad("", "json", err.Error())
		return
	}
	switch {
	case c.Block != nil:
		r.end.Blocks++
		if !r.skip(kindBlocks) {
			r.block(c)
		}
	case c.Definition != nil:
		r.end.Definitions++
		if !r.skip(kindDefinitions) {
			r.definition(c)
		}
	case c.Entity != nil:
		r.end.Entities++
		if !r.skip(kindEntities) {
			r.entity(c.Entity)
		}
	case c.End != nil:
		r.ended = true
		if *c.End != r.end {
			r.bad("end", "format", fmt.Sprintf("it says %s, and the file holds %s", *c.End, r.end))
		}
	default:
		r.bad("", "format", "a line is a block, a definition, an entity or the end")
	}
}

// strictly decodes one value and no more.
func strictly(text []byte, v any) error {
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

func (r *reader) block(c record) {
	blocks, err := given.Blocks(c.Block)
	switch {
	case err != nil:
		r.wrong(err)
	case len(blocks) != 1:
		r.bad("block", "format", "want one block")
	case r.once("block " + blocks[0].Ref().String()):
		r.blocks = append(r.blocks, placed[workflow.Block]{r.lines, blocks[0], c.Withheld})
	}
}

func (r *reader) definition(c record) {
	d, err := definition.Parse(c.Definition)
	if err != nil {
		r.wrong(err)
		return
	}
	p := published{refOfSpec(d), c.Definition, definition.Digest(d), c.Archived, d.Cron != nil}
	if r.once("definition " + p.ref.String()) {
		r.definitions = append(r.definitions, placed[published]{line: r.lines, value: p})
	}
}

func refOfSpec(d *spec.Definition) workflow.Ref {
	return workflow.Ref{Package: d.Package, Name: d.Name, Version: d.Version}
}

func (r *reader) entity(raw json.RawMessage) {
	e, issues := inventory.Read(raw)
	for _, i := range issues {
		i.Line, i.Column = r.lines, 0
		r.issues = append(r.issues, i)
	}
	if len(raw) > inventory.MaxLine {
		r.bad("", "too_large", fmt.Sprintf("an entity has at most %d bytes", inventory.MaxLine))
	} else if len(issues) == 0 && r.once("entity "+e.Key().String()) {
		r.entities = append(r.entities, placed[workflow.Entity]{line: r.lines, value: e})
	}
}
