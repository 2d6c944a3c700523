// Package workflowtest runs workflow definitions without a service. A test file names a definition,
// describes its blocks and entities, the answers of blocks, people and signals, and the
// expectations; docs/testing.md has the format.
//
// A test runs the real engine with the worker of the SDK, on the in-memory store, locks and queues
// of package sim, under a clock that jumps to the next event. Nothing waits.
//
//   - format.go reads test files, and makes their JSON Schema.
//   - world.go makes the engine and delivers messages. script.go answers the calls of blocks.
//   - follow_up.go starts what the end of an execution starts.
//   - play.go runs one test, with what people do in it. check.go compares the outcome.
package workflowtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Result is the outcome of one test. It passed if it has no failures.
type Result struct {
	File     string           `json:"file"`
	Name     string           `json:"name"`
	Passed   bool             `json:"passed"`
	Failures []workflow.Issue `json:"failures"` // each with the line of the expectation

	Execution string            `json:"execution"` // id; empty if the start was refused
	State     string            `json:"state"`
	Status    string            `json:"status"`
	Outcome   string            `json:"outcome"` // empty until it has ended
	Error     *workflow.Failure `json:"error"`
	Steps     []string          `json:"steps"`     // labels, in the order in which they were entered
	Jobs      []string          `json:"jobs"`      // calls of blocks that execute, in their order
	Rollbacks []string          `json:"rollbacks"` // calls that undo
	FollowUps []FollowUp        `json:"followUps"` // what its ends have started, in this order
	Took      workflow.Duration `json:"took"`      // from the start to the end, or to where the test stopped, in its simulated time
}

// FileError is a mistake in a file: the test file, a definition or a list of blocks.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string { return e.Path + ": " + e.Err.Error() }

func (e *FileError) Unwrap() error { return e.Err }

// Run runs the tests of a file whose names selected accepts, in order. The error describes what is
// wrong with a file; it is a [FileError].
func Run(ctx context.Context, path string, selected func(name string) bool) ([]Result, error) {
	source, err := readFile(path)
	if err != nil {
		return nil, &FileError{path, withoutPath(err)}
	}
	f, err := parse(source)
	if err != nil {
		return nil, &FileError{path, err}
	}
	s, err := load(path, f)
	if err != nil {
		return nil, err
	}
	results := []Result{}
	for i := range f.tests {
		if !selected(f.tests[i].name) {
			continue
		}
		p, err := newPlay(ctx, s, i)
		if err != nil {
			return nil, err
		}
		result := p.run(ctx)
		result.File, result.Failures = path, definition.LocateIssues(source, result.Failures)
		if result.Passed = len(result.Failures) == 0; result.Passed {
			result.Failures = []workflow.Issue{}
		}
		results = append(results, result)
	}
	return results, nil
}

// setting is a test file with the files that it names.
type setting struct {
	*file
	path        string
	main        source
	definitions []source
	blocks      []block
}

// source is a file of a definition.
type source struct {
	path string
	text []byte
}

// load reads the files that a test file names.
func load(path string, f *file) (*setting, error) {
	s := &setting{file: f, path: path}
	dir := filepath.Dir(path)
	read := func(name, at string) ([]byte, error) {
		text, err := readFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return nil, s.wrong(at, "file", "%s cannot be read: %v", name, withoutPath(err))
		}
		return text, nil
	}
	text, err := read(f.definition, "definition")
	if err != nil {
		return nil, err
	}
	s.main = source{filepath.Join(dir, f.definition), text}
	for i, name := range f.definitions {
		if text, err = read(name, fmt.Sprintf("definitions[%d]", i)); err != nil {
			return nil, err
		}
		s.definitions = append(s.definitions, source{filepath.Join(dir, name), text})
	}
	for i, name := range f.blockFiles {
		if text, err = read(name, fmt.Sprintf("blockFiles[%d]", i)); err != nil {
			return nil, err
		}
		var all []workflow.Block
		if err := json.Unmarshal(text, &all); err != nil {
			return nil, &FileError{filepath.Join(dir, name), fmt.Errorf("want a list of blocks in JSON: %w", workflow.JSONError(err))}
		}
		for _, b := range all {
			s.blocks = append(s.blocks, block{Block: b, name: b.Ref().String()})
		}
	}
	for i, b := range f.blocks {
		ref, err := workflow.ParseRef(b.name)
		if err != nil || ref.Version != "" && !ref.Exact() {
			return nil, s.wrong(fmt.Sprintf("blocks[%d].name", i), "format", "want PACKAGE/NAME or PACKAGE/NAME:VERSION with a version such as 1.0.0")
		}
		b.Package, b.Name, b.Version = ref.Package, ref.Name, ref.Version
		if b.Version == "" {
			b.Version = "1.0.0"
		}
		s.blocks = append(s.blocks, b)
	}
	for i := range f.entities {
		e := &f.entities[i]
		key, _ := parseKey(e.key) // was read as one
		e.Type, e.ID = key.Type, key.ID
		if e.Attributes == nil {
			e.Attributes = json.RawMessage("{}")
		}
	}
	return s, nil
}

// wrong returns a mistake in the test file.
func (s *setting) wrong(path, code, format string, args ...any) error {
	issues := []workflow.Issue{{Path: path, Code: code, Message: fmt.Sprintf(format, args...)}}
	if text, err := readFile(s.path); err == nil {
		issues = definition.LocateIssues(text, issues)
	}
	return &FileError{s.path, workflow.Invalid("the test file is not valid", issues)}
}

// readFile reads a file, unless it is too large.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("a file holds at most %d bytes", maxFile)
	}
	return text, err
}

// withoutPath returns the error of a file without its path.
func withoutPath(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// maxFile bounds the size of a file, in bytes.
const maxFile = 4 << 20

// startTime is the start time of tests that name none.
var startTime = time.Date(2030, 1, 7, 8, 0, 0, 0, time.UTC)
