package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

const (
	maxDepth  = 100 // of a value
	maxDigits = 400 // of a number, and the largest exponent
)

// CheckValue finds values that no schema forbids but no later reader can use: a number that is no
// float64, whose exact value may need more memory than there is, and a value that nests too deep. v
// is as json.Decoder returns it with UseNumber, path names it, and join returns the path of a
// field. CheckValue returns the first issue, nil if there is none.
func CheckValue(v any, path string, join func(path, name string) string) *workflow.Issue {
	issue, location := checkValue(v, 0)
	if issue != nil {
		slices.Reverse(location)
		issue.Path = instancePath(v, location, path, join)
	}
	return issue
}

// checkValue returns the location innermost first, so that a path is built for an issue
// only.
func checkValue(v any, depth int) (issue *workflow.Issue, location []string) {
	if depth > maxDepth {
		return &workflow.Issue{Code: "depth", Message: fmt.Sprintf("nests deeper than %d", maxDepth)}, nil
	}
	switch v := v.(type) {
	case json.Number:
		if !numberInRange(string(v)) {
			return &workflow.Issue{Code: "number", Message: "the number is out of range"}, nil
		}
	case []any:
		for i, item := range v {
			if issue, location := checkValue(item, depth+1); issue != nil {
				return issue, append(location, strconv.Itoa(i))
			}
		}
	case map[string]any:
		for name, item := range v {
			if issue, location := checkValue(item, depth+1); issue != nil {
				return issue, append(location, name)
			}
		}
	}
	return nil, nil
}

// CheckJSON finds what prevents a JSON value from being stored, because everyone who reads it later
// must be able to, including the API's clients and an import. It must be one JSON value in UTF-8,
// without a key that an object has twice, and with nothing that CheckValue refuses. encoding/json
// accepts all of these. path names the value, and join returns the path of a field. CheckJSON
// returns the first issue, nil if there is none.
func CheckJSON(raw []byte, path string, join func(path, name string) string) *workflow.Issue {
	if !utf8.Valid(raw) {
		return &workflow.Issue{Path: path, Code: "encoding", Message: "the text is not UTF-8"}
	}
	v, err := decodeValue(raw)
	if err != nil {
		return &workflow.Issue{Path: path, Code: "json", Message: "this is not JSON: " + err.Error()}
	}
	if issue := CheckValue(v, path, join); issue != nil {
		return issue
	}
	if d := FindDuplicateKey(raw, path, join); d != nil {
		return &workflow.Issue{Path: join(d.Path, d.Key), Code: "duplicate_field", Message: fmt.Sprintf("the field %q stands here a second time", d.Key)}
	}
	return nil
}

// decodeValue decodes exactly one JSON value, as CheckValue takes it.
func decodeValue(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the first JSON value")
	}
	return v, nil
}

func numberInRange(number string) bool {
	if len(number) > maxDigits {
		return false
	}
	if e := strings.IndexAny(number, "eE"); e >= 0 {
		if n, err := strconv.Atoi(strings.TrimPrefix(number[e+1:], "+")); err != nil || n < -maxDigits || n > maxDigits {
			return false
		}
	}
	_, err := strconv.ParseFloat(number, 64)
	return err == nil
}

// DuplicateKey is a key that one object has twice.
type DuplicateKey struct {
	Path string // of the object
	Key  string
	End  int64 // offset of the first byte after the second key
}

// FindDuplicateKey finds the first key that an object in raw has twice, nil if there is none.
// Readers differ in which of the two values they use, so one that checks and one that acts may see
// different things. join returns the path of a field. Text that is not JSON is searched up to the
// mistake.
func FindDuplicateKey(raw []byte, path string, join func(path, name string) string) *DuplicateKey {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var open []*container
	for {
		token, err := d.Token()
		if err != nil {
			return nil
		}
		var in *container
		if len(open) > 0 {
			in = open[len(open)-1]
		}
		if end, ok := token.(json.Delim); ok && (end == '}' || end == ']') {
			open = open[:len(open)-1]
			continue
		}
		if in != nil && in.keys != nil && !in.keyRead {
			key, _ := token.(string)
			if in.keys[key] {
				return &DuplicateKey{Path: innermostPath(path, open, join), Key: key, End: d.InputOffset()}
			}
			in.keys[key], in.key, in.keyRead = true, key, true
			continue
		}
		if in != nil {
			in.keyRead = false
			in.next++
		}
		switch token {
		case json.Delim('{'):
			open = append(open, &container{keys: map[string]bool{}})
		case json.Delim('['):
			open = append(open, &container{})
		}
	}
}

// innermostPath returns the path of the last of the open containers. path is the path of the first.
func innermostPath(path string, open []*container, join func(path, name string) string) string {
	for _, c := range open[:len(open)-1] {
		if c.keys != nil {
			path = join(path, c.key)
		} else {
			path += "[" + strconv.Itoa(c.next-1) + "]"
		}
	}
	return path
}

// container is an object or a list whose end has not been read.
type container struct {
	keys    map[string]bool // of an object; nil for a list
	key     string          // the last key read
	keyRead bool            // the value of key comes next
	next    int             // index of the next item of a list
}
