package sqs

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

func testPack() *workflow.PackMessage {
	return &workflow.PackMessage{
		Key:      workflow.PackKey{Tenant: "acme", Execution: "019a", StepRunOrdinal: 1, StepRunSeq: 3, Lane: 5, Attempt: 2},
		Work:     workflow.Work{Kind: workflow.JobExecute, Block: "fleet/upgrade:1.0.0", Step: "upgrade", Pool: "p", Timeout: workflow.Duration(time.Minute), Retry: &workflow.Retry{MaxRetries: 2}, Lanes: 9},
		Jobs:     []workflow.JobInput{{Index: 50, Entity: &workflow.EntityKey{Type: "device", ID: "a"}, Parameters: json.RawMessage(`{"v":1}`), Token: 7}},
		NotAfter: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC),
	}
}

func mustEncode(t *testing.T, body string, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestEncodePack_RoundTrips(t *testing.T) {
	lane := 4
	wakeup := workflow.Wakeup{Tenant: "acme", Execution: "019a", Reason: "x", Lane: &lane, Cost: workflow.Cost{QueueRequests: 1}}
	body, err := EncodeWakeup(wakeup)
	got, err := DecodeWakeup(mustEncode(t, body, err))
	if diff := cmp.Diff(wakeup, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for name, size := range map[string]int{"small": 10, "compressed": 3 << 20} {
		m := testPack()
		m.Jobs[0].Parameters = json.RawMessage(`"` + strings.Repeat("same again ", size/11) + `"`)
		body, err := EncodePack(m)
		body = mustEncode(t, body, err)
		if strings.HasPrefix(body, compressPrefix) != (size > compressThreshold) {
			t.Errorf("%s starts with %.20s", name, body)
		}
		back, err := DecodePack(body)
		if err != nil {
			t.Fatal(err)
		}
		if back.Key != m.Key || string(back.Jobs[0].Parameters) != string(m.Jobs[0].Parameters) {
			t.Errorf("%s has changed", name)
		}
	}
}

// SQS accepts tab, line feed, carriage return, and every character from U+0020 on except
// surrogates, U+FFFE and U+FFFF.
func TestEncodePack_WritesOnlyWhatSQSAccepts(t *testing.T) {
	var all strings.Builder
	for r := rune(0); r <= 0x10FFFF; r += 1 + r/0x3000 {
		all.WriteRune(r)
	}
	text := all.String() + "\uFFFD\uFFFE\uFFFF\U0001FFFE\U0010FFFF"
	for _, size := range []int{1000, len(text)} { // the whole text is compressed
		part := strings.ToValidUTF8(text[len(text)-size:], "")
		m := testPack()
		m.Jobs[0].Parameters, _ = workflow.EncodeJSON(part)
		m.Work.Step = "a\xffb"
		body, err := EncodePack(m)
		body = mustEncode(t, body, err)
		for _, r := range body {
			if r < 0x20 && !strings.ContainsRune("\t\n\r", r) || r == 0xFFFE || r == 0xFFFF || r == utf8.RuneError && !strings.Contains(part, string(utf8.RuneError)) {
				t.Fatalf("%d bytes have %U in the body", size, r)
			}
		}
		if !utf8.ValidString(body) {
			t.Errorf("%d bytes: the body is not UTF-8", size)
		}
		back, err := DecodePack(body)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if err := json.Unmarshal(back.Jobs[0].Parameters, &got); err != nil || got != part {
			t.Errorf("%d bytes have changed: %v", size, err)
		}
	}
}

func TestEncodePack_RefusesTooLarge(t *testing.T) {
	noise := make([]byte, 2<<20)
	for i := range noise {
		noise[i] = byte(' ' + 1 + rand.IntN(90))
	}
	m := testPack()
	m.Jobs[0].Parameters, _ = json.Marshal(string(noise))
	if _, err := EncodePack(m); !workflow.Is(err, workflow.CodeTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestDecodePack_RefusesForeignBodies(t *testing.T) {
	body, err := EncodePack(testPack())
	good := mustEncode(t, body, err)
	for name, c := range map[string]struct {
		body string
		code workflow.Code
	}{
		"an empty body":               {"", workflow.CodeInvalid},
		"not JSON":                    {"hello", workflow.CodeInvalid},
		"an array":                    {`[1]`, workflow.CodeInvalid},
		"null":                        {`null`, workflow.CodeInvalid},
		"no version":                  {strings.Replace(good, `"v":1,`, "", 1), workflow.CodeInvalid},
		"a newer version":             {strings.Replace(good, `"v":1,`, `"v":2,"novelty":1,`, 1), workflow.CodeUnavailable},
		"an unknown field":            {strings.Replace(good, `"v":1,`, `"v":1,"novelty":1,`, 1), workflow.CodeInvalid},
		"trailing data":               {good + "{}", workflow.CodeInvalid},
		"no tenant":                   {strings.Replace(good, `"tenant":"acme"`, `"tenant":""`, 1), workflow.CodeInvalid},
		"no attempt":                  {strings.Replace(good, `"a":2`, `"a":0`, 1), workflow.CodeInvalid},
		"a negative lane":             {strings.Replace(good, `"l":5`, `"l":-5`, 1), workflow.CodeInvalid},
		"no block":                    {strings.Replace(good, "fleet/upgrade:1.0.0", "", 1), workflow.CodeInvalid},
		"no jobs":                     {`{"v":1,"key":{"tenant":"a","x":"b","v":1,"r":1,"l":0,"a":1},"work":{"kind":"EXECUTE","block":"a/b:1.0.0","timeout":"1s"},"jobs":[],"notAfter":"2026-11-22T00:00:00Z"}`, workflow.CodeInvalid},
		"not base64":                  {compressPrefix + "***", workflow.CodeInvalid},
		"not deflate":                 {compressPrefix + "aGVsbG8=", workflow.CodeInvalid},
		"decompresses too big":        {deflate(make([]byte, maxDecodedBytes+10)), workflow.CodeInvalid},
		"longer than SQS takes":       {strings.Repeat(" ", maxBody) + good, workflow.CodeInvalid},
		"a wake-up":                   {`{"v":1,"tenant":"a","execution":"b"}`, workflow.CodeInvalid},
		"a number as a string":        {strings.Replace(good, `"acme"`, `1`, 1), workflow.CodeInvalid},
		"a newer version, compressed": {deflate([]byte(`{"v":7}`)), workflow.CodeUnavailable},
	} {
		if c.body == good {
			t.Fatalf("%s: the replacement did not match", name)
		}
		if _, err := DecodePack(c.body); !workflow.Is(err, c.code) {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
	for name, body := range map[string]string{
		"a pack": good, "no execution": `{"v":1,"tenant":"a"}`, "no tenant": `{"v":1,"execution":"a"}`, "an empty object": `{}`,
	} {
		if _, err := DecodeWakeup(body); !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("decode %s as a wake-up: %v", name, err)
		}
	}
}

// A message holds its jobs or a reference to them; one that has neither is invalid.
func TestEncodePack_OffloadedJobs(t *testing.T) {
	key := workflow.StepRunKey{Tenant: "t", Execution: "x", Ordinal: 1, Seq: 2}.Pack(3, 1)
	m := &workflow.PackMessage{Key: key, Work: workflow.Work{Kind: workflow.JobExecute, Block: "p/b:1.0.0"}}
	body, err := EncodePack(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodePack(body); !workflow.Is(err, workflow.CodeInvalid) {
		t.Errorf("a message without jobs: %v", err)
	}
	stored := workflow.NewPayloadRef([]byte("[]"))
	m.JobsRef = stored.InPack(key)
	if body, err = EncodePack(m); err != nil {
		t.Fatal(err)
	}
	got, err := DecodePack(body)
	if diff := cmp.Diff(m, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// A delivery has events, or jobs of which rows are made.
func TestDecodeDelivery_OfRows(t *testing.T) {
	d := &workflow.Delivery{Tenant: "t", Execution: "x", Subscription: "~table/a", SubscriptionID: "~table/a", Through: 7, Rows: &workflow.PipedJobs{Table: "a", StepRun: 2, From: 500, To: 700, Jobs: []workflow.PipedJob{{Index: 500, Entity: &workflow.EntityKey{Type: "device", ID: "d1"}}}}}
	body, err := EncodeDelivery(d)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeDelivery(body); err != nil || !cmp.Equal(got, d) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, wrong := range []workflow.PipedJobs{{StepRun: 2, To: 1, Jobs: []workflow.PipedJob{{}}}, {Table: "a", To: 1}, {Table: "a", StepRun: 2, From: -1, To: 1}, {Table: "a", StepRun: 2, From: 3, To: 3}, {Table: "a", StepRun: 2, From: 3, To: 4, Jobs: []workflow.PipedJob{{Index: 4}}}} {
		d.Rows = &wrong
		body, err := EncodeDelivery(d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeDelivery(body); !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

// The delivery of an end has that one event, and says of which try it is.
func TestDecodeDelivery_OfAnEnd(t *testing.T) {
	end := workflow.ObservedEvent{ID: "x:7", Sequence: 7, Type: "execution.failed", To: "FAILED_SAFE"}
	for _, c := range []struct {
		try    int
		events []workflow.ObservedEvent
		valid  bool
	}{{2, []workflow.ObservedEvent{end}, true}, {2, []workflow.ObservedEvent{end, end}, false}, {-1, []workflow.ObservedEvent{end}, false}} {
		d := &workflow.Delivery{Tenant: "t", Execution: "x", Subscription: workflow.OnEndSubscriber, SubscriptionID: workflow.OnEndSubscriber, Through: 7, Events: c.events, Try: c.try}
		body, err := EncodeDelivery(d)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeDelivery(body)
		if c.valid && (err != nil || !cmp.Equal(got, d)) || !c.valid && !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("try %d, %d events: %+v, %v", c.try, len(c.events), got, err)
		}
	}
}
