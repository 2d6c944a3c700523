package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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

// runImport imports an inventory into a service that answers with answer.
func runImport(t *testing.T, lines []byte, answer func(part int, body []byte) (int, string)) (n int, notes string, parts [][]byte, err error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, failure := io.ReadAll(r.Body)
		if failure != nil {
			t.Error(failure)
		}
		status, text := answer(len(parts), body)
		parts = append(parts, body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}))
	defer server.Close()
	api, err := client.New(client.Options{URL: server.URL, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	var notesText strings.Builder
	n, err = importEntities(t.Context(), api, lines, &notesText)
	return n, notesText.String(), parts, err
}

func storeAll(_ int, body []byte) (int, string) {
	return http.StatusOK, fmt.Sprintf(`{"imported":%d}`, bytes.Count(body, []byte("{\"type")))
}

// A long inventory is sent in parts of whole lines that fit into a Lambda event, and
// nothing is lost or changed. A short one is sent unchanged in one request.
func TestImportEntities_SplitsLongInventories(t *testing.T) {
	for name, c := range map[string]struct {
		lines []byte
		parts int
		n     int
	}{
		"short":            {[]byte("not JSON, which the service reports"), 1, 0},
		"exactly one part": {makeInventory(3<<10, 1<<10), 1, 3 << 10},
		"one line more":    {makeInventory(3<<10+1, 1<<10), 2, 3<<10 + 1},
		"no last newline":  {bytes.TrimSpace(makeInventory(7<<10, 1<<10)), 3, 7 << 10},
		"many short lines": {makeInventory(importPartLines+1, 70), 2, importPartLines + 1},
		"empty lines":      {append(makeInventory(3<<10, 1<<10), "\n\n\r\n"...), 2, 3 << 10},
	} {
		n, _, parts, err := runImport(t, c.lines, storeAll)
		if err != nil || n != c.n || len(parts) != c.parts || !bytes.Equal(bytes.Join(parts, nil), c.lines) {
			t.Errorf("%s: %d of %d entities in %d parts, want %d: %v", name, n, c.n, len(parts), c.parts, err)
		}
		for i, p := range parts {
			if len(p) > importPartBytes || i+1 < len(parts) && p[len(p)-1] != '\n' {
				t.Errorf("%s: part %d of %d bytes ends with %q", name, i, len(p), p[len(p)-1])
			}
		}
	}
}

// Nothing of a long inventory is sent if any line is invalid, and the error names the line.
func TestImportEntities_ValidatesBeforeSending(t *testing.T) {
	good := makeInventory(4<<10, 1<<10)
	for name, c := range map[string]struct {
		last string
		want string
	}{
		"invalid id":       {`{"type":"device","id":"a/b"}`, "id"},
		"invalid JSON":     {`{"type":"device"`, "ends too early"},
		"duplicate entity": {`{"type":"device","id":"d-000000"}`, "is already on line 1"},
		"a line too long":  {string(bytes.TrimSpace(makeInventory(1, 64<<10+2))), "at most 65536 bytes"},
		"an unknown field": {`{"type":"device","id":"n","size":1}`, "no such field"},
	} {
		_, _, parts, err := runImport(t, append(bytes.Clone(good), c.last...), storeAll)
		var e *workflow.Error
		if !errors.As(err, &e) || len(e.Issues) == 0 || e.Issues[0].Line != 4<<10+1 || !strings.Contains(e.Issues[0].String(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if len(parts) != 0 {
			t.Errorf("%s: %d parts were sent", name, len(parts))
		}
	}
}

// If a part is refused or lost, a note gives the number of stored entities, and line
// numbers are those of the file.
func TestImportEntities_ReportsStoredCountOnFailure(t *testing.T) {
	for status, body := range map[int]string{
		http.StatusBadRequest:         `{"code":"invalid","detail":"no","errors":[{"line":2,"code":"x","message":"y"}]}`,
		http.StatusServiceUnavailable: ``,
	} {
		n, notes, parts, err := runImport(t, makeInventory(7<<10, 1<<10), func(part int, sent []byte) (int, string) {
			if part == 1 {
				return status, body
			}
			return storeAll(part, sent)
		})
		if err == nil || n != 3<<10 || len(parts) != 2 || !strings.Contains(notes, "note: 3072 of 7168 entities are stored") || !strings.Contains(notes, "run the same command again to complete the import") {
			t.Errorf("%d: %d stored in %d parts, %v\n%s", status, n, len(parts), err, notes)
		}
		var e *workflow.Error
		if status == http.StatusBadRequest && (!errors.As(err, &e) || len(e.Issues) != 1 || e.Issues[0].Line != 3<<10+2) {
			t.Errorf("%v: %+v", err, e)
		}
	}
}
