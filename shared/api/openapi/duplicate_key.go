package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// frame is an object or a list whose end has not been read.
type frame struct {
	path    string          // its place
	keys    map[string]bool // of an object; nil of a list
	key     string          // whose value comes next, if named
	keyRead bool            // a key has been read, and not its value
	next    int             // of a list, the index of what comes next
}

// findDuplicateKey finds the first key that stands twice in one object. What a reader
// makes of such an object is up to the reader, so that two of them, one that
// checks and one that acts, may see different things. body is JSON.
func findDuplicateKey(body []byte) *workflow.Issue {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var open []*frame
	for {
		token, err := dec.Token()
		if err != nil {
			return nil // the end, or what the parser has complained of already
		}
		var in *frame
		if len(open) > 0 {
			in = open[len(open)-1]
		}
		if d, ok := token.(json.Delim); ok && (d == '}' || d == ']') {
			open = open[:len(open)-1]
			continue
		}
		if in != nil && in.keys != nil && !in.keyRead {
			key, _ := token.(string)
			if in.keys[key] {
				line, column := position(body, keyStart(body, dec.InputOffset()))
				return &workflow.Issue{
					Path: memberPath(in.path, key), Line: line, Column: column, Code: "duplicate_field",
					Message: fmt.Sprintf("the field %q stands here a second time", truncate(key)),
				}
			}
			in.keys[key], in.key, in.keyRead = true, key, true
			continue
		}
		at := ""
		if in != nil {
			if at = in.path + "[" + strconv.Itoa(in.next) + "]"; in.keys != nil {
				at = memberPath(in.path, in.key)
			}
			in.keyRead = false
			in.next++
		}
		switch token {
		case json.Delim('{'):
			open = append(open, &frame{path: at, keys: map[string]bool{}})
		case json.Delim('['):
			open = append(open, &frame{path: at})
		}
	}
}

// keyStart is where the text that ends before the offset begins.
func keyStart(body []byte, end int64) int64 {
	for i := end - 2; i >= 0; i-- {
		if body[i] != '"' {
			continue
		}
		slashes := 0
		for j := i - 1; j >= 0 && body[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
	return end
}
