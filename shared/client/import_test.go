package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// makeInventory returns an inventory of n lines of size bytes each.
func makeInventory(n, size int) []byte {
	var text bytes.Buffer
	for i := range n {
		head := fmt.Sprintf(`{"type":"device","id":"d-%06d","attributes":{"x":"`, i)
		text.WriteString(head + strings.Repeat("x", size-len(head)-4) + "\"}}\n")
	}
	return text.Bytes()
}

// importRun is an import into a scripted service.
type importRun struct {
	stored   int
	err      error
	parts    [][]byte // the bodies of all requests
	progress []client.ImportProgress
	pauses   int
}

// runImport imports an inventory into a service that answers with answer.
func runImport(t *testing.T, lines []byte, firstLine int, answer func(request int, body []byte) (int, string)) *importRun {
	t.Helper()
	run := &importRun{}
	var mu sync.Mutex // the connection of one request may still be open when the next comes
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, failure := io.ReadAll(r.Body)
		if failure != nil {
			t.Error(failure)
		}
		mu.Lock()
		status, text := answer(len(run.parts), body)
		run.parts = append(run.parts, body)
		mu.Unlock()
		if status == 0 {
			panic(http.ErrAbortHandler) // the connection is lost
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}))
	defer server.Close()
	api, err := client.New(client.Options{URL: server.URL, Retries: 2, Sleep: func(context.Context, time.Duration) error {
		run.pauses++
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	run.stored, run.err = api.Import(t.Context(), bytes.NewReader(lines), client.ImportOptions{
		FirstLine: firstLine, Progress: func(p client.ImportProgress) { run.progress = append(run.progress, p) },
	})
	return run
}

func storeAll(_ int, body []byte) (int, string) {
	return http.StatusOK, fmt.Sprintf(`{"imported":%d}`, bytes.Count(body, []byte("{\"type")))
}

// A long inventory is sent in parts of whole lines that fit into a Lambda event and are
// stored within seconds, and nothing is lost or changed. A short one is sent unchanged.
func TestImport_SplitsLongInventories(t *testing.T) {
	for name, c := range map[string]struct {
		lines []byte
		parts int
		n     int
	}{
		"short":            {[]byte("not JSON, which the service reports"), 1, 0},
		"empty":            {nil, 1, 0},
		"one part":         {makeInventory(2000, 1<<10), 1, 2000},
		"one line more":    {makeInventory(2001, 1<<10), 2, 2001},
		"long lines":       {makeInventory(200, 32<<10), 3, 200},
		"no last newline":  {bytes.TrimSpace(makeInventory(4001, 1<<10)), 3, 4001},
		"many short lines": {makeInventory(20_000, 70), 10, 20_000},
		"empty lines":      {append(makeInventory(2000, 1<<10), "\n\n\r\n"...), 2, 2000},
	} {
		run := runImport(t, c.lines, 0, storeAll)
		if run.err != nil || run.stored != c.n || len(run.parts) != c.parts || !bytes.Equal(bytes.Join(run.parts, nil), c.lines) {
			t.Errorf("%s: %d of %d entities in %d parts, want %d: %v", name, run.stored, c.n, len(run.parts), c.parts, run.err)
		}
		for i, p := range run.parts {
			if len(p) > 3<<20 || i+1 < len(run.parts) && p[len(p)-1] != '\n' {
				t.Errorf("%s: part %d of %d bytes ends with %q", name, i, len(p), p[len(p)-1])
			}
		}
		lines := len(bytes.SplitAfter(bytes.TrimSuffix(c.lines, []byte("\n")), []byte("\n")))
		if last := run.progress[len(run.progress)-1]; last.Stored != c.n || len(c.lines) > 0 && (last.Line != lines || last.Lines != lines) {
			t.Errorf("%s: the last progress is %+v, want %d lines", name, last, lines)
		}
	}
}

// Nothing of a long inventory is sent if any line is invalid, and the error names the line.
func TestImport_ValidatesBeforeSending(t *testing.T) {
	good := makeInventory(200, 20<<10) // more than one part
	for name, c := range map[string]struct{ last, want string }{
		"invalid id":       {`{"type":"device","id":"a/b"}`, "id"},
		"invalid JSON":     {`{"type":"device"`, "ends too early"},
		"duplicate entity": {`{"type":"device","id":"d-000000"}`, "is already on line 1"},
		"a line too long":  {string(bytes.TrimSpace(makeInventory(1, 64<<10+2))), "at most 65536 bytes"},
		"an unknown field": {`{"type":"device","id":"n","size":1}`, "no such field"},
	} {
		for _, firstLine := range []int{0, 190} {
			run := runImport(t, append(bytes.Clone(good), c.last...), firstLine, storeAll)
			var e *workflow.Error
			if !errors.As(run.err, &e) || len(e.Issues) == 0 || e.Issues[0].Line != 201 || !strings.Contains(e.Issues[0].String(), c.want) {
				t.Errorf("%s: %v", name, run.err)
			}
			if len(run.parts) != 0 {
				t.Errorf("%s: %d parts were sent", name, len(run.parts))
			}
		}
	}
}

// A part that a server error or a lost connection hit is repeated with growing pauses, and
// the import goes on.
func TestImport_RepeatsAfterServerErrors(t *testing.T) {
	lines := makeInventory(5000, 70)
	for _, status := range []int{500, 502, 503, 504, 429, 0} {
		run := runImport(t, lines, 0, func(n int, sent []byte) (int, string) {
			if n%2 == 1 {
				return status, ""
			}
			return storeAll(n, sent)
		})
		if run.err != nil || run.stored != 5000 || len(run.parts) != 5 || run.pauses != 2 || !bytes.Equal(run.parts[1], run.parts[2]) {
			t.Errorf("%d: %d stored in %d requests with %d pauses, %v", status, run.stored, len(run.parts), run.pauses, run.err)
		}
	}
}

// An import continues at the line at which the service had no more time, as often as it
// takes, without a pause.
func TestImport_ContinuesWhereTheServiceStopped(t *testing.T) {
	lines := append([]byte("\n"), makeInventory(3000, 70)...)
	kept := map[string]int{}
	run := runImport(t, lines, 0, func(_ int, sent []byte) (int, string) {
		n, entities := 0, 0
		for line := range bytes.Lines(sent) {
			if n == 700 {
				return http.StatusServiceUnavailable, `{"code":"unavailable","detail":"no time","errors":[{"line":701,"code":"not_stored","message":"here"}]}`
			}
			if n++; len(bytes.TrimSpace(line)) > 0 {
				kept[string(line)]++
				entities++
			}
		}
		return http.StatusOK, fmt.Sprintf(`{"imported":%d}`, entities)
	})
	if run.err != nil || run.stored != 3000 || len(kept) != 3000 || run.pauses != 0 {
		t.Errorf("%d stored, %d kept, %d pauses, %v", run.stored, len(kept), run.pauses, run.err)
	}
	for line, n := range kept {
		if n != 1 {
			t.Fatalf("%s was sent %d times", line, n)
		}
	}
}

// If a part is refused, or fails for good, the error says from which line to continue, and
// continuing there sends exactly the rest.
func TestImport_SaysWhereToContinue(t *testing.T) {
	lines := makeInventory(7000, 70)
	for status, c := range map[int]struct {
		body     string
		requests int
	}{
		http.StatusBadRequest:         {`{"code":"invalid","detail":"no","errors":[{"line":2,"code":"x","message":"y"}]}`, 2},
		http.StatusServiceUnavailable: {``, 6}, // 2 retries, doubled after the first part
	} {
		run := runImport(t, lines, 0, func(n int, sent []byte) (int, string) {
			if n > 0 {
				return status, c.body
			}
			return storeAll(n, sent)
		})
		var partly *client.ImportError
		if !errors.As(run.err, &partly) || run.stored != 2000 || partly.NextLine != 2001 || partly.Lines != 7000 || partly.Stored != 2000 || len(run.parts) != c.requests {
			t.Fatalf("%d: %d stored in %d requests: %+v, %v", status, run.stored, len(run.parts), partly, run.err)
		}
		var e *workflow.Error
		if !errors.As(run.err, &e) || status == http.StatusBadRequest && (len(e.Issues) != 1 || e.Issues[0].Line != 2002) {
			t.Errorf("%v: %+v", run.err, e)
		}
		rest := runImport(t, lines, partly.NextLine, storeAll)
		if rest.err != nil || rest.stored != 5000 || !bytes.Equal(bytes.Join(append(run.parts[:1], rest.parts...), nil), lines) {
			t.Errorf("continued: %d stored, %v", rest.stored, rest.err)
		}
	}
	if run := runImport(t, lines, 7001, storeAll); !workflow.Is(run.err, workflow.CodeInvalid) || len(run.parts) > 0 {
		t.Errorf("from a line after the last: %v", run.err)
	}
}
