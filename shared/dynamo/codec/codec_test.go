package codec

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

func TestDecodeExecution_RefusesOtherVersions(t *testing.T) {
	good, err := EncodeExecution(&workflow.Execution{Events: testEvents()})
	if err != nil {
		t.Fatal(err)
	}
	for name, doc := range map[string][]byte{
		"an unknown format":  append([]byte{99}, good[1:]...),
		"an unknown field":   executionCompressor.Compress([]byte(`{"x":{"novelty":1}}`)),
		"an unknown member":  executionCompressor.Compress([]byte(`{"x":{},"z":1}`)),
		"a number as a line": executionCompressor.Compress([]byte(`{"x":{},"e":[1,2,["x"]]}`)),
	} {
		if _, err := DecodeExecution(doc); !workflow.Is(err, workflow.CodeUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := DecodeExecution(append([]byte{1}, "not deflate at all"...)); !workflow.Is(err, workflow.CodeInternal) {
		t.Errorf("a damaged document: %v", err)
	}
	p := &workflow.Pack{}
	if err := DecodePack(p, packCompressor.Compress([]byte(`{"b":0,"j":[[1,"Q"]]}`))); !workflow.Is(err, workflow.CodeUnavailable) {
		t.Errorf("an unknown job code: %v", err)
	}
	if _, err := EncodePack(&workflow.Pack{Jobs: []workflow.JobRecord{{Code: "ODD"}}}); !workflow.Is(err, workflow.CodeInternal) {
		t.Errorf("a job code that cannot be stored: %v", err)
	}
}

func TestEncodeExecution_RefusesSequenceGap(t *testing.T) {
	gap := testEvents()
	gap = append(gap[:2:2], gap[3:]...)
	if _, err := EncodeExecution(&workflow.Execution{Events: gap}); !workflow.Is(err, workflow.CodeInternal) {
		t.Errorf("got %v", err)
	}
}

// testEvents has events whose values could be mistaken for the shorthand.
func testEvents() []workflow.Event {
	at := time.Date(2026, 11, 21, 5, 15, 10, 999_000_000, time.UTC)
	return []workflow.Event{
		{Sequence: 7, At: at, Layer: "execution", Type: "execution.created", To: "NEW", Actor: "ann"},
		{Sequence: 8, At: at, Layer: "execution", Type: "execution.validated", From: "NEW", To: "VALID"},
		{Sequence: 9, At: at.Add(-time.Second), Layer: "step", Type: "step.entered", From: "PENDING", To: "RUNNING", Step: "a", Data: json.RawMessage(`{"jobs":1}`)},
		{Sequence: 10, At: at, Layer: "step", Type: "step.exited", From: "RUNNING", To: "COMPLETED", Step: "a"},
		{Sequence: 11, At: at, Layer: "workflow", Type: "execution.odd", From: "NEW", To: "NEW", Entity: "device/a"},
		{Sequence: 12, At: at, Layer: "execution", Type: "execution.ready", From: "NEW", To: "READY"},
		{Sequence: 13, At: at, Layer: "execution", Type: "lock.deferred", From: "READY", Data: json.RawMessage(`[]`)},
		{Sequence: 14, At: at, Layer: "", Type: ""},
	}
}

func TestEncodeEvents_RoundTrips(t *testing.T) {
	want := testEvents()
	want[7].Layer = "execution" // an event without a layer gets the execution's
	packed, err := EncodeEvents(testEvents())
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeEvents(packed)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestEncodeExecution_RoundTripsRandomDocuments(t *testing.T) {
	text := rapid.OneOf(rapid.Just(""), rapid.SampledFrom([]string{"NEW", "RUNNING", "a"}), rapid.String())
	times := rapid.Custom(func(t *rapid.T) time.Time {
		return table.FromMillis(rapid.Int64Range(0, 4e12).Draw(t, "ms"))
	})
	raw := rapid.Custom(func(t *rapid.T) json.RawMessage {
		return rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`{"a":1}`), json.RawMessage(`"x"`), json.RawMessage(`0`)}).Draw(t, "raw")
	})
	rapid.Check(t, func(t *rapid.T) {
		valid := func(name string) string { return strings.ToValidUTF8(text.Draw(t, name), "?") }
		var all []workflow.Event
		for i := range rapid.IntRange(0, 12).Draw(t, "events") {
			all = append(all, workflow.Event{
				Sequence: int64(3 + i), At: rapid.Custom(func(t *rapid.T) time.Time { return table.FromMillis(rapid.Int64Range(1, 4e12).Draw(t, "ms")) }).Draw(t, "at"),
				Layer: rapid.SampledFrom([]string{"execution", "step", "workflow"}).Draw(t, "layer"), Type: valid("type"),
				From: rapid.SampledFrom([]string{"", "NEW", "RUNNING"}).Draw(t, "from"), To: rapid.SampledFrom([]string{"", "NEW", "RUNNING"}).Draw(t, "to"),
				Step: valid("step"), Entity: valid("entity"), Actor: valid("actor"), Data: raw.Draw(t, "data"),
			})
		}
		packed, err := EncodeExecution(&workflow.Execution{Events: all})
		if err != nil {
			t.Fatal(err)
		}
		x, err := DecodeExecution(packed)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(all, x.Events); diff != "" {
			t.Fatal(diff)
		}

		p := &workflow.Pack{ClaimedAt: times.Draw(t, "claimed")}
		for i := range rapid.IntRange(0, 12).Draw(t, "jobs") {
			j := workflow.JobRecord{
				Index: i, Code: rapid.SampledFrom([]workflow.JobCode{"NONE", "STARTED", "OK", "FAIL", "UNKNOWN", "NOT_EXECUTED"}).Draw(t, "code"),
				StartedAt: times.Draw(t, "started"), EndedAt: times.Draw(t, "ended"), Result: raw.Draw(t, "result"), Updates: raw.Draw(t, "updates"),
				Outcome: rapid.SampledFrom([]statemachines.Outcome{"", "OK", "ERROR"}).Draw(t, "outcome"),
			}
			if rapid.Bool().Draw(t, "failed") {
				j.Failure = &workflow.Failure{Code: valid("failure"), Retryable: rapid.Bool().Draw(t, "retryable"), Details: raw.Draw(t, "details")}
			}
			p.Jobs = append(p.Jobs, j)
		}
		packed, err = EncodePack(p)
		if err != nil {
			t.Fatal(err)
		}
		back := &workflow.Pack{ClaimedAt: p.ClaimedAt}
		if err := DecodePack(back, packed); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, back); diff != "" {
			t.Fatal(diff)
		}
	})
}

// What became of entities is not in the state item where it is stored in items of its own, whether it has
// been read or not.
func TestEncodeExecution_LeavesOutcomesInItemsOfTheirOwn(t *testing.T) {
	ref := workflow.NewPayloadRef([]byte("{}"))
	result := func(stored *workflow.PayloadRef) *workflow.Result {
		return &workflow.Result{
			Sets: workflow.OutcomeSets{workflow.EntityFailedSafe: workflow.NewPlaces(1, 3)}, Stored: stored,
			Count: map[workflow.EntityOutcome]int{workflow.EntityFailedSafe: 2},
		}
	}
	for _, stored := range []*workflow.PayloadRef{nil, &ref} {
		x := &workflow.Execution{Result: result(stored), LastEnd: &workflow.LastEnd{Result: result(stored)}}
		packed, err := EncodeExecution(x)
		if err != nil {
			t.Fatal(err)
		}
		read, err := DecodeExecution(packed)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []*workflow.Result{read.Result, read.LastEnd.Result} {
			if r.Unread() != (stored != nil) || r.Count[workflow.EntityFailedSafe] != 2 || stored == nil && r.Sets[workflow.EntityFailedSafe].Len() != 2 {
				t.Errorf("stored %v: read %+v", stored, r)
			}
		}
		if x.Result.Sets[workflow.EntityFailedSafe].Len() != 2 || x.LastEnd.Result.Sets == nil {
			t.Error("encoding has changed the execution")
		}
	}
}

// The dictionaries repeat stored JSON tags: a tag that is renamed in package workflow
// has to be renamed in them too, or documents grow.
func TestDictionaries_UseStoredTags(t *testing.T) {
	tags := map[string]bool{}
	collectTags(reflect.TypeFor[executionDocument](), tags)
	collectTags(reflect.TypeFor[packDocument](), tags)
	collectTags(reflect.TypeFor[workflow.JobRecord](), tags)
	collectTags(reflect.TypeFor[workflow.Update](), tags)
	data := []string{"device", "executions", "jobs", "locks", "registry", "trigger", "ok", "failed", "skipped", "entities"} // keys of maps and of event data
	for _, match := range regexp.MustCompile(`"([A-Za-z]+)":`).FindAllStringSubmatch(executionDictionary1+packDictionary1, -1) {
		if !tags[match[1]] && !slices.Contains(data, match[1]) {
			t.Errorf("the dictionaries have the tag %q, which no document has", match[1])
		}
	}
}

// collectTags adds the JSON tags of a type and of the types of its fields.
func collectTags(typ reflect.Type, tags map[string]bool) {
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		collectTags(typ.Elem(), tags)
	case reflect.Struct:
		for i := range typ.NumField() {
			field := typ.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if field.Anonymous || name != "" && name != "-" && !tags[name+" "+typ.String()] {
				tags[name], tags[name+" "+typ.String()] = true, true
				collectTags(field.Type, tags)
			}
		}
	}
}
