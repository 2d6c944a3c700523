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

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// SecretSource reads the values of secrets.
type SecretSource interface {
	// Secret returns the value of a tenant's secret; CodeNotFound if there is none that can be
	// used. No error contains a value.
	Secret(ctx context.Context, tenant, name string) (string, error)
}

// secretTimeout bounds the reading of the secrets of one job.
const secretTimeout = 10 * time.Second

// jobSecrets maps the names of the secrets that one job is called with to their values.
type jobSecrets map[string]string

// loadSecrets reads the secrets that a message's jobs are called with: those in its parameters and
// in the headers of its endpoint. On a failure the job was not called.
func (w *Worker) loadSecrets(ctx context.Context, m *workflow.PackMessage) (jobSecrets, *workflow.Failure) {
	names := secretsOf(&m.Work)
	if len(names) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	all := jobSecrets{}
	for _, name := range names {
		if parameter, isSealed := workflow.SealedParameter(name); isSealed {
			value, failure := w.openSealed(ctx, m, parameter)
			if failure != nil {
				return nil, failure
			}
			all[name] = value
			continue
		}
		if w.opts.Secrets == nil {
			return nil, secretFailure(workflow.FailureSecret, "this worker has no secrets: set secrets.from")
		}
		value, err := w.opts.Secrets.Secret(ctx, m.Key.Tenant, name)
		switch {
		case workflow.Is(err, workflow.CodeNotFound):
			return nil, secretFailure(workflow.FailureSecret, err.Error())
		case err != nil:
			return nil, secretFailure(workflow.FailureSecretUnavailable, fmt.Sprintf("the secret %q cannot be read: %s", name, err))
		}
		if refused := workflow.CheckSecret(name, value); refused != nil {
			return nil, secretFailure(workflow.FailureSecret, refused.Message)
		}
		all[name] = value
	}
	return all, nil
}

// SealedSource opens sealed parameters.
type SealedSource interface {
	// Open is the value of a sealed parameter of an execution; CodeNotFound if there is none, or it
	// belongs elsewhere. No error contains a value.
	Open(ctx context.Context, tenant, execution string, s *workflow.Sealed, parameter string) (string, error)
}

// openSealed opens a sealed parameter of a message's execution.
func (w *Worker) openSealed(ctx context.Context, m *workflow.PackMessage, parameter string) (string, *workflow.Failure) {
	if w.opts.Sealed == nil {
		return "", secretFailure(workflow.FailureSealed, "this worker opens no sealed parameters: set sealed.key")
	}
	value, err := w.opts.Sealed.Open(ctx, m.Key.Tenant, m.Key.Execution, m.Work.Sealed, parameter)
	switch {
	case workflow.Is(err, workflow.CodeNotFound):
		return "", secretFailure(workflow.FailureSealed, err.Error())
	case err != nil:
		return "", secretFailure(workflow.FailureSecretUnavailable, fmt.Sprintf("the sealed parameter %q cannot be opened: %s", parameter, err))
	}
	return value, nil
}

// secretsDelay is how long a message with secrets stays hidden after a poll that must not have it.
const secretsDelay = 5 * time.Second

// errSecretsWithheld is why another program gets no jobs with secrets. Such a job fails only if a
// worker that has secrets decides so, or if nobody claims it.
var errSecretsWithheld = workflow.Errorf(workflow.CodeUnavailable, "the step is called with secrets or sealed parameters, which are not given to workers that poll over HTTP: serve its block over HTTP, or with the SDK")

// secretsOf returns the names of the secrets that jobs are called with.
func secretsOf(work *workflow.Work) (names []string) {
	for _, p := range work.Secrets {
		names = workflow.SecretNames(names, p.Parts)
	}
	names = append(names, work.HTTP.Secrets()...)
	slices.Sort(names)
	return slices.Compact(names)
}

func secretFailure(code, message string) *workflow.Failure {
	return &workflow.Failure{Code: code, Message: message, Retryable: code == workflow.FailureSecretUnavailable, Unsent: true}
}

func (all jobSecrets) value(name string) string { return all[name] }

// fill inserts the secrets into a job's parameters.
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

// removed returns a result in which each value of a secret is replaced by its reference. It finds
// values in plain form, and as written in JSON, in a URL and in base64. If a value is where no
// reference is possible, as in the id of an entity, the result becomes a failure.
func (all jobSecrets) removed(a JobResult) JobResult {
	if len(all) == 0 {
		return a
	}
	r := all.remover()
	if a.Failure != nil {
		r.inNames = true
		failure := *a.Failure
		failure.Code, failure.Message, failure.Details = r.text(failure.Code), r.text(failure.Message), r.json(failure.Details)
		a.Failure = &failure
	}
	a.Result, a.Updates, a.Checkpoints = r.json(a.Result), r.updates(a.Updates), r.checkpoints(a.Checkpoints)
	r.keep(a.Next, "next")
	for _, e := range a.Entities {
		r.keep(e.Type, "the type of an entity")
		r.keep(e.ID, "the id of an entity")
	}
	if a.Wait != nil {
		r.keep(a.Wait.Signal, "the name of a signal")
		wait := *a.Wait
		wait.Reason = r.text(wait.Reason)
		if wait.Input != nil {
			input := *wait.Input
			input.Schema = r.json(input.Schema)
			input.Who.Actors, input.Who.Roles = replaceEach(input.Who.Actors, r.text), replaceEach(input.Who.Roles, r.text)
			wait.Input = &input
		}
		a.Wait = &wait
	}
	if r.misplaced != "" && a.Failure == nil {
		return failureResult(Terminal(workflow.FailureSecretInResult, fmt.Errorf("the answer of the block has the value of a secret in %s, where no reference to it can stand: the answer is not recorded", r.misplaced)))
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

// remover replaces secrets by the references to them.
type remover struct {
	forms     map[string]string // reference by each form of each secret
	text      func(string) string
	inNames   bool   // also inside the names of fields
	misplaced string // where a secret was found that cannot be replaced
}

// remover returns a remover for every form of every secret. Longer forms come first, because one
// secret may be part of another.
func (all jobSecrets) remover() *remover {
	forms := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value := all[name]
		quoted, _ := workflow.EncodeJSON(value) // a string can always be encoded
		var escaped bytes.Buffer                // as encoders write it that escape <, > and &
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
	return &remover{forms: forms, text: strings.NewReplacer(pairs...).Replace}
}

// keep records that a text contains a secret and cannot be replaced.
func (r *remover) keep(text, where string) {
	if r.text(text) != text {
		r.misplaced = where
	}
}

// json replaces secrets in a value: in strings, in names of fields, and in numbers that equal a
// secret as a whole. A value without secrets stays unchanged, including its order. Text that is not
// JSON is replaced as text.
func (r *remover) json(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return raw
	}
	v, ok := decodeTree(raw)
	if !ok {
		return json.RawMessage(r.text(string(raw)))
	}
	changed := false
	v = r.value(v, &changed)
	return encodeTree(raw, v, changed)
}

// checkpoints replaces secrets in the keys and values of checkpoints.
func (r *remover) checkpoints(all workflow.Checkpoints) workflow.Checkpoints {
	if len(all) == 0 {
		return nil
	}
	replaced := workflow.Checkpoints{}
	for key, value := range all {
		replaced[r.text(key)] = r.json(value)
	}
	return replaced
}

// updates replaces secrets in the values that attributes are set to.
func (r *remover) updates(raw json.RawMessage) json.RawMessage {
	v, ok := decodeTree(raw)
	list, isList := v.([]any)
	if !ok || !isList {
		return r.json(raw) // it is not valid
	}
	changed := false
	for i := range list {
		fields, _ := list[i].(map[string]any)
		set, _ := fields["set"].(map[string]any)
		for attribute, value := range set {
			r.keep(attribute, "the name of an attribute")
			set[attribute] = r.value(value, &changed)
		}
		for name, value := range fields {
			if name != "set" || set == nil {
				found := false
				if fields[name] = r.value(value, &found); found {
					r.misplaced, changed = "the entity of an update", true
				}
			}
		}
	}
	return encodeTree(raw, v, changed)
}

func (r *remover) value(v any, changed *bool) any {
	switch v := v.(type) {
	case string:
		replaced := r.text(v)
		*changed = *changed || replaced != v
		return replaced
	case json.Number:
		if reference := r.forms[v.String()]; reference != "" {
			*changed = true
			return reference
		}
	case map[string]any:
		all := make(map[string]any, len(v))
		for name, field := range v {
			replaced := r.text(name)
			if replaced != name {
				*changed = true
				if r.forms[name] == "" && !r.inNames {
					r.misplaced = "the name of a field"
				}
			}
			all[replaced] = r.value(field, changed)
		}
		if len(all) < len(v) {
			r.misplaced = "the names of two fields"
		}
		return all
	case []any:
		for i := range v {
			v[i] = r.value(v[i], changed)
		}
	}
	return v
}

// decodeTree decodes a value and keeps its numbers as written.
func decodeTree(raw json.RawMessage) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err := d.Decode(&v)
	return v, err == nil && !d.More()
}

// encodeTree encodes a value if it has changed.
func encodeTree(raw json.RawMessage, v any, changed bool) json.RawMessage {
	if !changed {
		return raw
	}
	replaced, err := workflow.EncodeJSON(v)
	if err != nil {
		return json.RawMessage("null") // a decoded value can be encoded
	}
	return replaced
}
