package worker

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// SecretSource reads the values of secrets.
type SecretSource interface {
	// Secret is the value of a tenant's secret; CodeNotFound if there is none that can be
	// used. No error contains a value.
	Secret(ctx context.Context, tenant, name string) (string, error)
}

// secretTimeout bounds the time in which the secrets of one job are read.
const secretTimeout = 10 * time.Second

// jobSecrets are the values of the secrets that one job is called with, by name.
type jobSecrets map[string]string

// loadSecrets reads the secrets that a message's jobs are called with: those of its parameters and
// of the headers of its endpoint. A failure says that the job was not called.
func (w *Worker) loadSecrets(ctx context.Context, m *workflow.PackMessage) (jobSecrets, *workflow.Failure) {
	names := secretsOf(&m.Work)
	if len(names) == 0 {
		return nil, nil
	}
	if w.opts.Secrets == nil {
		return nil, secretFailure(workflow.FailureSecret, "this worker has no secrets: set secrets.from")
	}
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	all := jobSecrets{}
	for _, name := range names {
		value, err := w.opts.Secrets.Secret(ctx, m.Key.Tenant, name)
		switch {
		case workflow.Is(err, workflow.CodeNotFound):
			return nil, secretFailure(workflow.FailureSecret, err.Error())
		case err != nil:
			return nil, secretFailure(workflow.FailureSecretUnavailable, fmt.Sprintf("the secret %q cannot be read: %s", name, err))
		case len(value) < workflow.MinSecretBytes || len(value) > workflow.MaxSecretBytes || !utf8.ValidString(value):
			return nil, secretFailure(workflow.FailureSecret, fmt.Sprintf("the secret %q is not a text of %d to %d bytes", name, workflow.MinSecretBytes, workflow.MaxSecretBytes))
		}
		all[name] = value
	}
	return all, nil
}

// errSecretsWithheld is why another program gets no jobs with secrets.
const errSecretsWithheld = "the step is called with secrets, which are not given to workers that poll over HTTP: serve its block over HTTP, or with the SDK"

// secretsOf are the names of the secrets that jobs are called with.
func secretsOf(work *workflow.Work) (names []string) {
	for _, p := range work.Secrets {
		names = workflow.SecretNames(names, p.Parts)
	}
	if work.HTTP != nil {
		for _, value := range work.HTTP.Headers {
			names = workflow.SecretNames(names, workflow.SplitSecrets(value))
		}
		if work.HTTP.Sign != nil {
			names = append(names, work.HTTP.Sign.Secret)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func secretFailure(code, message string) *workflow.Failure {
	return &workflow.Failure{Code: code, Message: message, Retryable: code == workflow.FailureSecretUnavailable, Unsent: true}
}

func (all jobSecrets) value(name string) string { return all[name] }

// fill puts the secrets into a job's parameters.
func (all jobSecrets) fill(job *Job, places []workflow.SecretPlace) *workflow.Failure {
	if len(places) == 0 {
		return nil
	}
	filled, err := workflow.FillSecrets(job.Parameters, places, all.value)
	if err != nil {
		return secretFailure(workflow.FailureSecret, err.Error())
	}
	job.Parameters = filled
	return nil
}

// endpoint returns an endpoint with the secrets in its headers, and the key of its signature.
func (all jobSecrets) endpoint(e *workflow.Endpoint) *workflow.Endpoint {
	if len(all) == 0 {
		return e
	}
	filled := *e
	if e.Sign != nil {
		filled.SignKey = all[e.Sign.Secret]
	}
	filled.Headers = make(map[string]string, len(e.Headers))
	for name, value := range e.Headers {
		filled.Headers[name] = workflow.JoinSecrets(workflow.SplitSecrets(value), all.value)
	}
	return &filled
}

// removed returns a result in which the reference to a secret stands wherever its value did: as it
// is, and as it is written in JSON, in an address and in base64.
func (all jobSecrets) removed(a JobResult) JobResult {
	if len(all) == 0 {
		return a
	}
	text := all.replacer().Replace
	a.Result, a.Updates, a.Next = removeFromJSON(a.Result, text), removeFromJSON(a.Updates, text), text(a.Next)
	if a.Failure != nil {
		failure := *a.Failure
		failure.Code, failure.Message, failure.Details = text(failure.Code), text(failure.Message), removeFromJSON(failure.Details, text)
		a.Failure = &failure
	}
	if len(a.Entities) > 0 {
		a.Entities = slices.Clone(a.Entities)
		for i := range a.Entities {
			a.Entities[i].Type, a.Entities[i].ID = text(a.Entities[i].Type), text(a.Entities[i].ID)
		}
	}
	if a.Wait != nil {
		wait := *a.Wait
		wait.Reason, wait.Signal = text(wait.Reason), text(wait.Signal)
		if wait.Input != nil {
			input := *wait.Input
			input.Schema = removeFromJSON(input.Schema, text)
			input.Who.Actors, input.Who.Roles = replaceEach(input.Who.Actors, text), replaceEach(input.Who.Roles, text)
			wait.Input = &input
		}
		a.Wait = &wait
	}
	return a
}

func replaceEach(texts []string, text func(string) string) []string {
	texts = slices.Clone(texts)
	for i := range texts {
		texts[i] = text(texts[i])
	}
	return texts
}

// replacer replaces every form of every secret. Longer ones come first: one secret may be a part of
// another.
func (all jobSecrets) replacer() *strings.Replacer {
	forms := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value := all[name]
		quoted, _ := workflow.EncodeJSON(value) // a text can be encoded
		var escaped bytes.Buffer                // as others write it who escape <, > and &
		json.HTMLEscape(&escaped, quoted)
		for _, form := range []string{
			value, string(quoted[1 : len(quoted)-1]), escaped.String()[1 : escaped.Len()-1], url.QueryEscape(value), url.PathEscape(value),
			base64.StdEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value)),
		} {
			if forms[form] == "" {
				forms[form] = workflow.SecretReference(name)
			}
		}
	}
	sorted := slices.SortedFunc(maps.Keys(forms), func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, form := range sorted {
		pairs = append(pairs, form, forms[form])
	}
	return strings.NewReplacer(pairs...)
}

// removeFromJSON replaces texts in a value: in strings, names of fields and numbers. A value without
// any stays as it is, and so does its order. What is no JSON is replaced as text.
func removeFromJSON(raw json.RawMessage, text func(string) string) json.RawMessage {
	if len(raw) == 0 {
		return raw
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return json.RawMessage(text(string(raw)))
	}
	changed := false
	v = removeFromValue(v, func(s string) string {
		replaced := text(s)
		changed = changed || replaced != s
		return replaced
	})
	if !changed {
		return raw
	}
	replaced, err := workflow.EncodeJSON(v)
	if err != nil {
		return json.RawMessage("null") // what has been decoded can be encoded
	}
	return replaced
}

func removeFromValue(v any, text func(string) string) any {
	switch v := v.(type) {
	case string:
		return text(v)
	case json.Number:
		if replaced := text(v.String()); replaced != v.String() {
			return replaced
		}
	case map[string]any:
		all := make(map[string]any, len(v))
		for name, field := range v {
			all[text(name)] = removeFromValue(field, text)
		}
		return all
	case []any:
		for i := range v {
			v[i] = removeFromValue(v[i], text)
		}
	}
	return v
}
