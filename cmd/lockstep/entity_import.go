package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/inventory"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// One request of an inventory carries so many bytes at most, and so many lines. On
// AWS it is an event of Lambda's, which ends at 6 MiB; the body is a text in it,
// where every quote takes two bytes.
const (
	importPartBytes = 3 << 20
	importPartLines = 20_000

	maxImportIssues = 50 // mistakes, at a time
)

// importPart is some lines of an inventory, whole.
type importPart struct {
	text        []byte
	linesBefore int // lines that stand before it
	entities    int
}

// splitImport cuts an inventory into parts.
func splitImport(lines []byte) []importPart {
	var all []importPart
	var p importPart
	from, at, n, linesInPart := 0, 0, 0, 0
	flush := func() {
		p.text = lines[from:at]
		all = append(all, p)
		from, linesInPart, p = at, 0, importPart{linesBefore: n}
	}
	for line := range bytes.Lines(lines) {
		if linesInPart > 0 && (at-from+len(line) > importPartBytes || linesInPart == importPartLines) {
			flush()
		}
		at, n, linesInPart = at+len(line), n+1, linesInPart+1
		if len(bytes.TrimSpace(line)) > 0 {
			p.entities++
		}
	}
	if linesInPart > 0 {
		flush()
	}
	return all
}

// validateImport holds every line of an inventory to what the service holds it to, so that
// nothing has been sent when one is not valid.
func validateImport(source []byte) error {
	issues, err := inventory.ReadImport(bytes.NewReader(source), maxImportIssues, func(workflow.Entity) error { return nil })
	if err != nil {
		return err
	}
	return workflow.Invalid("the import is not valid; nothing was sent", issues)
}

// importEntities imports an inventory of any length and returns how many entities it has.
// One that fits into a request is the service's to check. A longer one is checked
// here first, whole, and sent in parts; notes say how far it is, and what is there
// if it does not come to its end.
func importEntities(ctx context.Context, to *client.Client, lines []byte, notes io.Writer) (int, error) {
	parts := splitImport(lines)
	if len(parts) > 1 {
		if err := validateImport(lines); err != nil {
			return 0, err
		}
	}
	total, stored := 0, 0
	for _, p := range parts {
		total += p.entities
	}
	for i, p := range parts {
		what := fmt.Sprintf("importing %d entities", p.entities)
		if len(parts) > 1 {
			what += fmt.Sprintf(", part %d of %d", i+1, len(parts))
		}
		stop := render.StartProgressNotes(notes, what)
		n, err := to.ImportEntities(ctx, bytes.NewReader(p.text))
		stop()
		if err != nil {
			if len(parts) > 1 {
				fmt.Fprintf(notes, "note: %d of %d entities are stored, and perhaps some of the %d after them; the same command again completes it\n", stored, total, p.entities)
			}
			return stored, shiftLines(err, p.linesBefore)
		}
		if stored += n; i+1 < len(parts) {
			fmt.Fprintf(notes, "note: %d of %d entities imported\n", stored, total)
		}
	}
	return stored, nil
}

// shiftLines is an error about a part, with the lines of the whole.
func shiftLines(err error, lines int) error {
	var e *workflow.Error
	if lines == 0 || !errors.As(err, &e) {
		return err
	}
	placed := *e
	placed.Issues = nil
	for _, i := range e.Issues {
		if i.Line > 0 {
			i.Line += lines
		}
		placed.Issues = append(placed.Issues, i)
	}
	return &placed
}
