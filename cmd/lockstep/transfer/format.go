package transfer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// formatVersion is the form of files that this command writes. It grows when an older
// command would misread one.
const formatVersion = 1

// The kinds of what is moved, in the order in which they stand in a file.
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

// record is any other line: one of its fields.
type record struct {
	Block    json.RawMessage `json:"block,omitempty"`
	Withheld []string        `json:"withheld,omitempty"` // what of the block looks secret, as secrets names it

	Definition json.RawMessage `json:"definition,omitempty"`
	Archived   bool            `json:"archived,omitempty"` // of the definition

	Entity json.RawMessage `json:"entity,omitempty"`

	// End is the last line: how many there are of each kind, so that a file that
	// was cut short is not taken for a whole one.
	End *totals `json:"end,omitempty"`
}

// totals are how many there are of each kind.
type totals struct {
	Blocks      int `json:"blocks"`
	Definitions int `json:"definitions"`
	Entities    int `json:"entities"`
}

func (t totals) String() string {
	return fmt.Sprintf("%d blocks, %d definitions, %d entities", t.Blocks, t.Definitions, t.Entities)
}

// entity is what of an entity is moved: its version and its token count what
// happened where it comes from.
type entity struct {
	Type       string          `json:"type"`
	ID         string          `json:"id"`
	Attributes json.RawMessage `json:"attributes"`
	Groups     []string        `json:"groups,omitempty"`
}

func toEntity(e workflow.Entity) entity {
	return entity{e.Type, e.ID, e.Attributes, e.Groups}
}

// normalizeBlock is a block as it is written: what it does not say is left out.
func normalizeBlock(b workflow.Block) workflow.Block {
	for _, schema := range []*json.RawMessage{&b.ParameterSchema, &b.ResultSchema} {
		if string(*schema) == "null" {
			*schema = nil
		}
	}
	return b
}

// writer writes lines.
type writer struct {
	out    io.Writer
	counts totals
}

func (w *writer) writeLine(v any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // a line is read by people too
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.out.Write(text.Bytes())
	return err
}

func (w *writer) writeHeader() error { return w.writeLine(header{"export", formatVersion}) }
func (w *writer) writeEnd() error    { return w.writeLine(record{End: &w.counts}) }

func (w *writer) writeBlock(b workflow.Block) error {
	withheld := secretFields(b)
	raw, err := marshal(withholdFields(normalizeBlock(b), withheld))
	if err != nil {
		return err
	}
	w.counts.Blocks++
	return w.writeLine(record{Block: raw, Withheld: withheld})
}

func (w *writer) writeDefinition(source json.RawMessage, archived bool) error {
	w.counts.Definitions++
	return w.writeLine(record{Definition: source, Archived: archived})
}

func (w *writer) writeEntity(e workflow.Entity) error {
	raw, err := marshal(toEntity(e))
	if err != nil {
		return err
	}
	w.counts.Entities++
	return w.writeLine(record{Entity: raw})
}

func marshal(v any) (json.RawMessage, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(text.Bytes()), err
}
