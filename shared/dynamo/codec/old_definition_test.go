package codec_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/dynamo/codec"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// oldDefinitions use nothing but what a release with schema 1 knows, each with how its execution ends.
var oldDefinitions = map[string]struct {
	definition string
	fails      string // the step that fails
	end        sm.ExecutionState
}{
	"completed": {`steps:
  - {label: read, functionBlock: p/pure:1, runOn: device}
  - {label: some, functionBlock: p/again:1, runOn: device, condition: "entity.name != 'd001'", parameters: {was: "${read.result}"}, retry: {maxRetries: 1}}
  - {label: inner, workflow: {steps: [{label: twice, functionBlock: p/again:1, runOn: device, repeat: {count: 2}}]}}
  - {label: later, functionBlock: p/pure:1, runOn: global, delay: 1m}
`, "", sm.ExecutionCompletedAck},
	"pipelines": {`config: {executionStrategy: {parallel: true}, maxInFlight: 2, timeout: 1h}
steps:
  - {label: one, functionBlock: p/again:1, runOn: device}
  - {label: two, functionBlock: p/again:1, runOn: device, parameters: {was: "${one.result}"}}
`, "", sm.ExecutionCompletedAck},
	"undone": {`steps:
  - {label: change, functionBlock: p/again:1, runOn: device}
  - {label: fails, functionBlock: p/once:1, runOn: device, retry: {maxRetries: 1}}
`, "fails", sm.ExecutionFailedSafeAck},
	"handed to an operator": {`steps:
  - {label: change, functionBlock: p/forever:1, runOn: device}
  - {label: fails, functionBlock: p/pure:1, runOn: global}
`, "fails", sm.ExecutionFailedUnsafe},
	"goes on": {`steps:
  - {label: fails, functionBlock: p/pure:1, runOn: global, continueOnError: true}
  - {label: after, functionBlock: p/again:1, runOn: device}
`, "fails", sm.ExecutionCompletedAck},
	"embeds": {`steps:
  - {label: inner, workflowReference: {workflow: p/other:1, mode: embed}}
  - {label: after, functionBlock: p/again:1, runOn: device}
`, "", sm.ExecutionCompletedAck},
	"cancelled": {`steps:
  - {label: change, functionBlock: p/again:1, runOn: device}
  - {label: later, functionBlock: p/again:1, runOn: device, delay: 30m}
`, "", sm.ExecutionCancelledAck},
}

// written records each state item that is written.
type written struct {
	documents []json.RawMessage // of schema 1
	newer     []sm.ExecutionState
	err       error
}

func (w *written) ExecutionWritten(_, after *workflow.Execution) {
	packed, err := codec.EncodeExecution(after)
	if err == nil {
		var plain []byte
		switch plain, err = codec.PlainExecution(packed); {
		case after.Schema > 1:
			w.newer = append(w.newer, after.State)
		case err == nil:
			w.documents = append(w.documents, plain)
		}
	}
	if err != nil {
		w.err = err
	}
}

func (w *written) WaitersRemaining(string, int)            {}
func (w *written) LockWritten(_, _ workflow.Lock)          {}
func (w *written) PackWritten(_, _ *workflow.Pack)         {}
func (w *written) EntityWritten(before, _ workflow.Entity) {}
func (w *written) RowWritten(string, workflow.Row)         {}
func (w *written) ScheduleWritten(_, _ spec.Schedule)      {}

// pathsOf adds the paths of the fields of a document to all: "[]" stands for an index, "{}" for a
// key of a map. known are the paths that a release with schema 1 reads; one that ends with " *" may
// have any value.
func pathsOf(v any, at string, known, all map[string]bool) {
	if known[at+" *"] {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			p := strings.TrimPrefix(at+"."+name, ".")
			if slices.ContainsFunc(slices.Collect(maps.Keys(known)), func(k string) bool { return strings.HasPrefix(k, at+"{}") }) {
				p = at + "{}"
			}
			all[p] = true
			pathsOf(field, p, known, all)
		}
	case []any:
		for _, item := range v {
			pathsOf(item, at+"[]", known, all)
		}
	}
}

// mapsOfSchema1 are the maps of texts and numbers, whose keys are no fields.
var mapsOfSchema1 = []string{"x.blocks", "x.workflows", "x.labels", "x.scope.counts", "x.pastScopes", "x.cost.r", "x.cost.w"}

func schema1(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("testdata/schema_1.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		known[strings.TrimSuffix(line, "\n")] = true
	}
	if len(known) < 200 {
		t.Fatalf("only %d paths", len(known))
	}
	for _, p := range mapsOfSchema1 {
		known[p+"{}"] = true
	}
	return known
}

// An execution of a definition that uses nothing new keeps schema 1 from beginning to end. Its
// stored documents have no field that a release with schema 1 does not know, so that such a release
// can read them and continue.
func TestOldDefinitions_StoreNothingNew(t *testing.T) {
	known := schema1(t)
	for name, c := range oldDefinitions {
		t.Run(name, func(t *testing.T) {
			s := harness.New(t, 1, harness.Options())
			s.RegisterBlocks()
			s.ImportDevices(harness.DeviceIDs(3)...)
			s.Publish("other", "steps:\n  - {label: look, functionBlock: p/pure:1, runOn: device}\n")
			s.Publish("w", c.definition)
			s.Script = func(b harness.BlockCall) *harness.Outcome {
				if b.Step == c.fails && b.Kind == workflow.JobExecute {
					return &harness.Outcome{FailCode: "NO", Retryable: true}
				}
				return nil
			}
			w := &written{}
			s.Observer = w
			id := s.Start("w", harness.DeviceIDs(3)...)
			s.RunFor(2 * time.Minute)
			if c.end == sm.ExecutionCancelledAck {
				if _, err := s.Engine.Cancel(t.Context(), harness.Caller, id, views.CancelRequest{Reason: "enough"}); err != nil {
					t.Fatal(err)
				}
			}
			s.RunFor(20 * time.Minute)
			s.ExpectState(id, c.end)
			if w.err != nil || len(w.documents) < 3 {
				t.Fatalf("%d documents, %v", len(w.documents), w.err)
			}
			// The outcomes of the entities are written when a failed execution ends.
			if len(w.newer) > 1 || len(w.newer) == 1 && (c.fails == "" || !sm.Terminal(w.newer[0])) {
				t.Errorf("written with a newer schema in %v", w.newer)
			}
			paths := map[string]bool{}
			for _, document := range w.documents {
				var v any
				if err := json.Unmarshal(document, &v); err != nil {
					t.Fatal(err)
				}
				pathsOf(v, "", known, paths)
			}
			for _, p := range slices.Sorted(maps.Keys(paths)) {
				if !known[p] {
					t.Errorf("stored with %s, which schema 1 has not", p)
				}
			}
			if len(paths) < 30 {
				t.Errorf("only %d fields were found", len(paths))
			}
			if name == "completed" {
				checkGolden(t, w.documents)
			}
		})
	}
}

// checkGolden compares the documents of an execution, as they were written one after the other.
func checkGolden(t *testing.T, documents []json.RawMessage) {
	t.Helper()
	const golden = "testdata/old_definition.golden"
	var got bytes.Buffer
	for i, document := range documents {
		fmt.Fprintf(&got, "commit %d\n", i+1)
		if err := json.Indent(&got, document, "", " "); err != nil {
			t.Fatal(err)
		}
		got.WriteByte('\n')
	}
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("what is stored has changed (-golden +now; rewrite with -update, if a release before can read it):\n%s", diff)
	}
}
