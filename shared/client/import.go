package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/lockstep-run/lockstep/shared/inventory"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Bounds of one import request. On AWS it becomes a Lambda event of at most 6 MiB, with the body as
// a JSON string in which every quote takes two bytes. That many lines are stored in about a second.
const (
	importPartBytes = 3 << 20
	importPartLines = 2000

	maxImportIssues = 50 // reported by one error
)

// ImportOptions configure [Client.Import].
type ImportOptions struct {
	// FirstLine is the line to begin with; 0 means the first.
	FirstLine int

	// Replace replaces entities instead of merging the lines into them: what a line lacks is gone
	// afterwards.
	Replace bool

	// Progress, if set, is called whenever lines have been stored.
	Progress func(ImportProgress)
}

// ImportProgress is the progress of an import.
type ImportProgress struct {
	Line, Lines int // all lines up to Line of Lines are stored
	Stored      int // entities stored by this call
}

// ImportError is why an import ended early. Everything before NextLine is stored; some of
// what follows may be. Storing an entity twice is harmless.
type ImportError struct {
	NextLine, Lines int
	Stored          int // entities stored by this call
	Err             error
}

func (e *ImportError) Error() string {
	return fmt.Sprintf("stored up to line %d of %d: %v", e.NextLine-1, e.Lines, e.Err)
}

// Unwrap returns the reason.
func (e *ImportError) Unwrap() error { return e.Err }

// ImportEntities is [Client.Import] of all lines.
func (c *Client) ImportEntities(ctx context.Context, lines io.Reader) (int, error) {
	return c.Import(ctx, lines, ImportOptions{})
}

// Import merges entities into the inventory, one JSON object per line, and returns their number. It
// sends many lines in parts, continues where the service says that it ran out of time, and repeats
// a part after a server error. If a line is invalid, it stores nothing. Once something is stored,
// the error is an [*ImportError].
func (c *Client) Import(ctx context.Context, lines io.Reader, opt ImportOptions) (int, error) {
	source, err := io.ReadAll(lines) // so that it can be checked and repeated
	if err != nil {
		return 0, err
	}
	rest, skipped := skipLines(source, opt.FirstLine-1)
	if len(rest) == 0 && opt.FirstLine > 1 {
		return 0, workflow.Errorf(workflow.CodeInvalid, "there is no line %d: the last one is %d", opt.FirstLine, skipped)
	}
	if part, _ := cutPart(rest); len(part) < len(source) { // the service checks what fits into one request
		if err := validateImport(source); err != nil {
			return 0, err
		}
	}
	i := importer{client: c, opt: opt, at: skipped, total: countLines(source)}
	for first := true; first || len(rest) > 0; first = false {
		part, n := cutPart(rest)
		if err := i.send(ctx, part, n); err != nil {
			return i.stored, err
		}
		rest = rest[len(part):]
	}
	return i.stored, nil
}

// importer sends the parts of an import.
type importer struct {
	client    *Client
	opt       ImportOptions
	at, total int // lines stored or skipped, lines of the source
	stored    int // entities
}

// send stores a part of n lines. It retries failures, and gives up after several in a row that
// stored nothing. Once something is stored, it is more patient.
func (i *importer) send(ctx context.Context, part []byte, n int) error {
	opt := i.client.transport.opt
	backoff, failures := opt.Backoff, 0
	query := url.Values{}
	if i.opt.Replace {
		query.Set("replace", "true")
	}
	for {
		answer, err := do[views.ImportResult](ctx, i.client, request{method: http.MethodPost, path: "/entities/import", query: query, body: part, contentType: "application/x-ndjson", once: true})
		if err == nil {
			i.advance(n, answer.Imported)
			return nil
		}
		if done := storedLines(err, n); done > 0 {
			i.advance(done, countEntities(part, done))
			part, _ = skipLines(part, done)
			n, backoff, failures = n-done, opt.Backoff, 0
			continue
		}
		patience := opt.Retries
		if i.stored > 0 {
			patience *= 2
		}
		if failures++; failures > patience || !isServerFailure(err) || ctx.Err() != nil {
			return i.failed(err)
		}
		if sleepErr := opt.Sleep(ctx, backoff-time.Duration(opt.Jitter()*float64(backoff)/2)); sleepErr != nil {
			return i.failed(sleepErr)
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

func (i *importer) advance(lines, entities int) {
	i.at, i.stored = i.at+lines, i.stored+entities
	if i.opt.Progress != nil {
		i.opt.Progress(ImportProgress{Line: i.at, Lines: i.total, Stored: i.stored})
	}
}

func (i *importer) failed(err error) error {
	err = shiftLines(err, i.at)
	if i.stored == 0 && i.total <= importPartLines {
		return err
	}
	return &ImportError{NextLine: i.at + 1, Lines: i.total, Stored: i.stored, Err: err}
}

// isServerFailure reports whether repeating an import can help: the service failed, or the
// connection was lost.
func isServerFailure(err error) bool {
	var unreachable *UnreachableError
	var network net.Error
	if errors.As(err, &unreachable) {
		return errors.As(err, &network) && network.Timeout() || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
			errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	}
	code := workflow.CodeOf(err)
	return code == workflow.CodeInternal || code == workflow.CodeUnavailable
}

// storedLines returns how many of a part's n lines the service had stored when it ran out of time,
// 0 if err does not say so.
func storedLines(err error, n int) int {
	var e *workflow.Error
	if !errors.As(err, &e) {
		return 0
	}
	for _, issue := range e.Issues {
		if issue.Code == inventory.IssueNotStored && issue.Line > 1 && issue.Line <= n {
			return issue.Line - 1
		}
	}
	return 0
}

// validateImport checks every line as the service does, so that nothing is sent if one is
// invalid.
func validateImport(source []byte) error {
	issues, err := inventory.ReadImport(bytes.NewReader(source), maxImportIssues, func(int, workflow.Entity) error { return nil })
	if err != nil {
		return err
	}
	message := "the import is not valid; nothing was sent"
	if len(issues) >= maxImportIssues {
		message += fmt.Sprintf("; these are the first %d mistakes", len(issues))
	}
	return workflow.Invalid(message, issues)
}

// cutPart returns the first lines that fit into a request, and their number.
func cutPart(text []byte) (part []byte, lines int) {
	size := 0
	for line := range bytes.Lines(text) {
		if lines > 0 && (size+len(line) > importPartBytes || lines == importPartLines) {
			break
		}
		size, lines = size+len(line), lines+1
	}
	return text[:size], lines
}

// skipLines returns what follows the first n lines, and how many lines it skipped.
func skipLines(text []byte, n int) (rest []byte, skipped int) {
	size := 0
	for line := range bytes.Lines(text) {
		if skipped >= n {
			break
		}
		size, skipped = size+len(line), skipped+1
	}
	return text[size:], skipped
}

func countLines(text []byte) int {
	n := 0
	for range bytes.Lines(text) {
		n++
	}
	return n
}

// countEntities counts those of the first n lines that are not empty.
func countEntities(text []byte, n int) int {
	entities := 0
	for line := range bytes.Lines(text) {
		if n--; n < 0 {
			break
		}
		if len(bytes.TrimSpace(line)) > 0 {
			entities++
		}
	}
	return entities
}

// shiftLines turns line numbers of a part into line numbers of the source.
func shiftLines(err error, lines int) error {
	var e *workflow.Error
	if lines == 0 || !errors.As(err, &e) {
		return err
	}
	shifted := *e
	shifted.Issues = nil
	for _, i := range e.Issues {
		if i.Line > 0 {
			i.Line += lines
		}
		shifted.Issues = append(shifted.Issues, i)
	}
	return &shifted
}
