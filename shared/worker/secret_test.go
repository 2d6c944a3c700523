package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// secrets are those of tests, by name.
type secrets map[string]string

func (s secrets) Secret(_ context.Context, tenant, name string) (string, error) {
	switch value, ok := s[name]; {
	case tenant != "t":
		return "", errors.New("another tenant")
	case name == "broken":
		return "", errors.New("throttled")
	case !ok:
		return "", workflow.Errorf(workflow.CodeNotFound, "there is no secret %q", name)
	default:
		return value, nil
	}
}

const hostile = `p"<ä&/ s=`

// endpoint records what it is called with, and answers with it.
type endpoint struct {
	answer  worker.JobResult
	headers map[string]string
	key     string
	job     worker.Job
	calls   int
}

func (e *endpoint) Call(_ context.Context, to *workflow.Endpoint, job *worker.Job) worker.JobResult {
	e.calls++
	e.headers, e.key, e.job = to.Headers, to.SignKey, *job
	return e.answer
}

// secretMessage is a message of a block served over HTTP, with secrets in its parameters and headers.
func (r *fixture) secretMessage() *workflow.PackMessage {
	m := r.newMessage(idempotent, 0, 1, 1)
	m.Work.HTTP = &workflow.Endpoint{URL: "http://x", Headers: map[string]string{"Authorization": "Bearer ${secret.bank/key}", "X-Plain": "${secret", "X-Two": "${secret.a1}${secret.bank/key}."}}
	m.Work.HTTP.Sign = &workflow.Signing{Secret: "a1"}
	m.Jobs[0].Parameters = json.RawMessage(`{"a":["x","key=${secret.a1};"],"same":"${secret.a1}"}`)
	m.Work.Secrets = []workflow.SecretPlace{{Path: []string{"a", "1"}, Parts: []workflow.SecretPart{{Text: "key="}, {Secret: "a1"}, {Text: ";"}}}}
	return m
}

// A job is called with the values of secrets in the places of its step and in the headers of its
// endpoint. Whatever it answers is recorded with the references in their place.
func TestSecrets_AreFilledInAndRemoved(t *testing.T) {
	r := newFixture(t)
	quoted, _ := json.Marshal(hostile)
	e := &endpoint{answer: worker.JobResult{
		Outcome: sm.OutcomeOK,
		Result:  json.RawMessage(`{"echo":"got 77777777 and ` + string(quoted[1:len(quoted)-1]) + `","77777777":[77777777,17],"query":"p%22%3C%C3%A4%26%2F+s%3D","base":"NzY3NzczNzc3 Nzc3Nzc3Nzc=","keep":1.50}`),
		Updates: json.RawMessage(`[{"entity":{"type":"device","id":"d0"},"set":{"a":"77777777"}}]`),
	}}
	w := r.worker(func(o *worker.Options) { o.HTTPBlocks, o.Secrets = e, secrets{"bank/key": hostile, "a1": "77777777"} })
	m := r.secretMessage()
	r.mustHandle(w, m)
	if got := string(e.job.Parameters); got != `{"a":["x","key=77777777;"],"same":"${secret.a1}"}` {
		t.Errorf("called with %s", got)
	}
	if e.headers["Authorization"] != "Bearer "+hostile || e.headers["X-Plain"] != "${secret" || e.headers["X-Two"] != "77777777"+hostile+"." || e.key != "77777777" || m.Work.HTTP.SignKey != "" {
		t.Errorf("called with %q", e.headers)
	}
	rec := r.pack(m.Key).Jobs[0]
	const want = `{"${secret.a1}":["${secret.a1}",17],"base":"NzY3NzczNzc3 ${secret.a1}","echo":"got ${secret.a1} and ${secret.bank/key}","keep":1.50,"query":"${secret.bank/key}"}`
	if string(rec.Result) != want || !strings.Contains(string(rec.Updates), `"a":"${secret.a1}"`) {
		t.Errorf("recorded %s, %s", rec.Result, rec.Updates)
	}
	for _, text := range []string{"77777777", hostile} {
		if where := r.Storing(text); len(where) > 0 {
			t.Errorf("%s is stored in %v", text, where)
		}
	}
	if !slices.Equal(jobCodes(r.pack(m.Key)), []workflow.JobCode{codeOK}) || m.Work.HTTP.Headers["Authorization"] != "Bearer ${secret.bank/key}" || strings.Contains(string(m.Jobs[0].Parameters), "77777777") {
		t.Errorf("the message has changed: %+v", m)
	}
}

// Nothing of a failure, and nothing that a block asks for, has a secret.
func TestSecrets_AreRemovedFromFailures(t *testing.T) {
	r := newFixture(t)
	e := &endpoint{answer: worker.JobResult{Outcome: sm.OutcomeError, Failure: &workflow.Failure{Code: "E77777777", Message: "no 77777777", Details: json.RawMessage(`{"x":"77777777"}`)}}}
	w := r.worker(func(o *worker.Options) { o.HTTPBlocks, o.Secrets = e, secrets{"bank/key": hostile, "a1": "77777777"} })
	m := r.secretMessage()
	r.mustHandle(w, m)
	if f := r.pack(m.Key).Jobs[0].Failure; f.Code != "E${secret.a1}" || f.Message != "no ${secret.a1}" || string(f.Details) != `{"x":"${secret.a1}"}` {
		t.Errorf("%+v %s", f, f.Details)
	}
	e.answer = worker.JobResult{Outcome: sm.OutcomeOK, Wait: &workflow.AskedWait{Reason: "for 77777777", Input: &workflow.AskedInput{Schema: json.RawMessage(`{"const":"77777777"}`), Who: workflow.Who{Actors: []string{"77777777"}}}}}
	r = newFixture(t)
	m = r.secretMessage()
	m.Jobs[0].Entity = nil
	r.mustHandle(w, m)
	asked := r.pack(m.Key).Jobs[0].Wait
	if asked == nil || asked.Reason != "for ${secret.a1}" || string(asked.Input.Schema) != `{"const":"${secret.a1}"}` || asked.Input.Who.Actors[0] != "${secret.a1}" {
		t.Errorf("%+v", asked)
	}
	e.answer = worker.JobResult{Outcome: sm.OutcomeOK, Result: json.RawMessage(`{"a":"77777777","a":1}`)}
	r = newFixture(t)
	r.mustHandle(w, r.secretMessage())
	if where := r.Storing("77777777"); len(where) > 0 {
		t.Errorf("an answer that cannot be read is stored in %v", where)
	}
}

// A secret is no part of a number. If it appears where no text is, the response is not recorded,
// and the job fails and is not retried.
func TestSecrets_FailWhereNoReferenceCanStand(t *testing.T) {
	for answer, code := range map[string]string{
		`{"result":{"bytes":1777777770,"Xa":[0.77777777]}}`:                                                   "",
		`{"result":{"a77777777":1}}`:                                                                          workflow.FailureSecretInResult,
		`{"result":{"77777777":1,"${secret.a1}":2}}`:                                                          workflow.FailureSecretInResult,
		`{"next":"s77777777"}`:                                                                                workflow.FailureSecretInResult,
		`{"entities":[{"type":"device","id":"77777777"}]}`:                                                    workflow.FailureSecretInResult,
		`{"wait":{"signal":"77777777"}}`:                                                                      workflow.FailureSecretInResult,
		`{"updates":[{"entity":{"type":"device","id":"77777777"},"set":{"a":1}}]}`:                            workflow.FailureSecretInResult,
		`{"updates":[{"entity":{"type":"device","id":"d0"},"set":{"77777777":1}}]}`:                           workflow.FailureSecretInResult,
		`{"updates":[{"entity":{"type":"device","id":"d0"},"set":{"a":"77777777"}}],"result":{"77777777":1}}`: "",
	} {
		var a struct {
			Result   json.RawMessage
			Next     string
			Entities []workflow.EntityKey
			Updates  json.RawMessage
			Wait     *workflow.AskedWait
		}
		if err := json.Unmarshal([]byte(answer), &a); err != nil {
			t.Fatal(err)
		}
		r := newFixture(t)
		w := r.worker(func(o *worker.Options) {
			o.HTTPBlocks = &endpoint{answer: worker.JobResult{Outcome: sm.OutcomeOK, Result: a.Result, Next: a.Next, Entities: a.Entities, Updates: a.Updates, Wait: a.Wait}}
			o.Secrets = secrets{"bank/key": hostile, "a1": "77777777"}
		})
		m := r.secretMessage()
		r.mustHandle(w, m)
		f, got := r.pack(m.Key).Jobs[0].Failure, ""
		if f != nil {
			got = f.Code
		}
		if got != code || f != nil && (f.Retryable || f.Unsent || strings.Contains(f.Message, "77777777")) {
			t.Errorf("%s: %+v", answer, f)
		}
	}
}

// brokenSource is a fault in the worker's own code.
type brokenSource struct{}

func (brokenSource) Secret(context.Context, string, string) (string, error) { panic("77777777") }

// A panic in the worker's own code fails only the job that it handled: the process continues, and
// so do the other jobs.
func TestHandle_OutlivesItsOwnPanics(t *testing.T) {
	for _, kind := range []string{idempotent, nonIdempotent} {
		synctest.Test(t, func(t *testing.T) {
			r := newFixture(t)
			w := r.worker(concurrent, func(o *worker.Options) {
				o.HTTPBlocks, o.Secrets = &endpoint{answer: worker.JobResult{Outcome: sm.OutcomeOK}}, brokenSource{}
			})
			m := r.newMessage(kind, 0, 2, 1)
			m.NotAfter = time.Now().Add(time.Hour)
			m.Work.HTTP = &workflow.Endpoint{URL: "http://x", Headers: map[string]string{"A": "${secret.k}"}}
			r.mustHandle(w, m)
			for _, rec := range r.pack(m.Key).Jobs {
				if f := rec.Failure; f == nil || f.Code != "INTERNAL" || f.Retryable || f.Unsent || strings.Contains(f.Message, "77777777") {
					t.Errorf("%s: %+v", kind, f)
				}
			}
		})
	}
}

// Without all of its secrets a job is not called, and the failure names the missing one.
func TestSecrets_MissingOnesAreNotSent(t *testing.T) {
	for name, c := range map[string]struct {
		source  worker.SecretSource
		code    string
		message string
	}{
		"no source":   {nil, workflow.FailureSecret, "secrets.from"},
		"missing":     {secrets{"a1": "77777777"}, workflow.FailureSecret, `there is no secret "bank/key"`},
		"unavailable": {secrets{"a1": "77777777"}, workflow.FailureSecretUnavailable, "throttled"},
		"too short":   {secrets{"a1": "7777777", "bank/key": hostile}, workflow.FailureSecret, "not a text of 8 to"},
		"not text":    {secrets{"a1": "\xff\xff\xff\xff\xff", "bank/key": hostile}, workflow.FailureSecret, "not a text of 8 to"},
		"elsewhere":   {secrets{"a1": "77777777", "bank/key": hostile}, workflow.FailureSecret, "another value stands there"},
	} {
		r, e := newFixture(t), &endpoint{}
		w := r.worker(func(o *worker.Options) { o.HTTPBlocks, o.Secrets = e, c.source })
		m := r.secretMessage()
		switch name {
		case "unavailable":
			m.Work.HTTP.Headers = map[string]string{"A": "${secret.broken}"}
		case "elsewhere":
			m.Jobs[0].Parameters = json.RawMessage(`{"a":["x","${secret.a1}"]}`)
		}
		r.mustHandle(w, m)
		f := r.pack(m.Key).Jobs[0].Failure
		if f == nil || f.Code != c.code || !strings.Contains(f.Message, c.message) || !f.Unsent || f.Retryable != (c.code == workflow.FailureSecretUnavailable) || e.calls > 0 {
			t.Errorf("%s: %+v, %d calls", name, f, e.calls)
		}
	}
}

// A worker that polls over HTTP gets no job with secrets, because it would take the reference for
// the value. The job is left to another worker of the pool, and nothing is decided about it.
func TestSecrets_AreWithheldFromRemoteWorkers(t *testing.T) {
	r := newFixture(t)
	m := r.secretMessage()
	lease, d, err := r.worker().LeaseRemote(t.Context(), m, r.ports())
	if lease != nil || err != nil || d.Done || d.RetryAfter <= 0 {
		t.Fatalf("%+v, %+v, %v", lease, d, err)
	}
	e := &endpoint{answer: worker.JobResult{Outcome: sm.OutcomeOK}}
	r.mustHandle(r.worker(func(o *worker.Options) { o.HTTPBlocks, o.Secrets = e, secrets{"bank/key": hostile, "a1": "77777777"} }), m)
	if rec := r.pack(m.Key).Jobs[0]; rec.Code != codeOK || e.calls != 1 {
		t.Errorf("%+v, %d calls", rec, e.calls)
	}
}
