package intake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/lockstep-run/lockstep/cmd/lockstep/show"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/inventory"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// One request of an inventory carries so many bytes at most, and so many lines. On
// AWS it is an event of Lambda's, which ends at 6 MiB; the body is a text in it,
// where every quote takes two bytes.
const (
	bytesPerPart = 3 << 20
	linesPerPart = 20_000

	shown = 50 // mistakes, at a time
)

// part is some lines of an inventory, whole.
type part struct {
	text     []byte
	before   int // lines that stand before it
	entities int
}

// split cuts an inventory into parts.
func split(lines []byte) []part {
	var all []part
	var p part
	from, at, n, held := 0, 0, 0, 0
	end := func() {
		p.text = lines[from:at]
		all = append(all, p)
		from, held, p = at, 0, part{before: n}
	}
	for line := range bytes.Lines(lines) {
		if held > 0 && (at-from+len(line) > bytesPerPart || held == linesPerPart) {
			end()
		}
		at, n, held = at+len(line), n+1, held+1
		if len(bytes.TrimSpace(line)) > 0 {
			p.entities++
		}
	}
	if held > 0 {
		end()
	}
	return all
}

// check holds every line of an inventory to what the service holds it to, so that
// nothing has been sent when one is not valid.
func check(source []byte) error {
	issues, err := inventory.Lines(bytes.NewReader(source), shown, func(workflow.Entity) error { return nil })
	if err != nil {
		return err
	}
	return workflow.Invalid("the import is not valid; nothing was sent", issues)
}

// Entities imports an inventory of any length and returns how many entities it has.
// One that fits into a request is the service's to check. A longer one is checked
// here first, whole, and sent in parts; notes say how far it is, and what is there
// if it does not come to its end.
func Entities(ctx context.Context, to *client.Client, lines []byte, notes io.Writer) (int, error) {
	parts := split(lines)
	if len(parts) > 1 {
		if err := check(lines); err != nil {
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
		stop := show.Meanwhile(notes, what)
		n, err := to.ImportEntities(ctx, bytes.NewReader(p.text))
		stop()
		if err != nil {
			if len(parts) > 1 {
				fmt.Fprintf(notes, "note: %d of %d entities are stored, and perhaps some of the %d after them; the same command again completes it\n", stored, total, p.entities)
			}
			return stored, moved(err, p.before)
		}
		if stored += n; i+1 < len(parts) {
			fmt.Fprintf(notes, "note: %d of %d entities imported\n", stored, total)
		}
	}
	return stored, nil
}

// moved is an error about a part, with the lines of the whole.
func moved(err error, by int) error {
	var e *workflow.Error
	if by == 0 || !errors.As(err, &e) {
		return err
	}
	placed := *e
	placed.Issues = nil
	for _, i := range e.Issues {
		if i.Line > 0 {
			i.Line += by
		}
		placed.Issues = append(placed.Issues, i)
	}
	return &placed
}
