package httpblock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// call holds the parameters of an http step. The definition has checked everything that does not
// depend on expressions.
type call struct {
	Method   string                     `json:"method"`
	URL      string                     `json:"url"`
	Endpoint string                     `json:"endpoint"`
	Path     string                     `json:"path"`
	Query    map[string]json.RawMessage `json:"query"`
	Headers  map[string]json.RawMessage `json:"headers"`
	Body     json.RawMessage            `json:"body"`
	Expect   []string                   `json:"expect"`
	Include  []string                   `json:"include"`
	Sign     *struct {
		Key    string `json:"key"`
		Header string `json:"header"`
	} `json:"sign"`
}

// answer is the result of an http step.
type answer struct {
	Status  int               `json:"status,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    json.RawMessage   `json:"body,omitempty"`
}

// maxErrorBody is the largest response body that the details of a failure contain. A larger one is
// left out rather than cut, because a secret that is cut could not be recognised.
const maxErrorBody = 1 << 10

// RegisterStep adds the blocks of http steps to a worker.
func (c *Client) RegisterStep(w *worker.Worker) {
	for _, ref := range []string{workflow.HTTPReadBlock, workflow.HTTPSetBlock, workflow.HTTPSendBlock} {
		exact, _ := workflow.ParseRef(ref)
		b, _ := workflow.BuiltinBlock(exact)
		worker.Register(w, worker.Block[call, json.RawMessage]{
			Name: exact.FullName(), Version: b.Version, Pure: b.Pure, Idempotent: b.Idempotent, ResultSchema: b.ResultSchema,
			Execute: func(ctx context.Context, job *worker.Job, in call) (json.RawMessage, error) {
				return c.callStep(ctx, job, in, b.Repeatable())
			},
		})
	}
}

// callStep makes the call of an http step. repeatable means that it may be made again.
func (c *Client) callStep(ctx context.Context, job *worker.Job, in call, repeatable bool) (json.RawMessage, error) {
	if in.Endpoint != "" {
		address, err := c.endpoints.Address(in.Endpoint, in.Path)
		if err != nil {
			return nil, worker.Unsent(worker.Terminal(workflow.FailureEndpoint, err))
		}
		in.URL = address
	}
	req, body, err := in.request(ctx)
	if err != nil {
		return nil, worker.Unsent(worker.Terminal("HTTP_INVALID", err))
	}
	if err := c.allow.check(req.URL); err != nil {
		return nil, worker.Unsent(worker.Terminal("HTTP_FORBIDDEN", fmt.Errorf("cannot call %s: %w", req.URL.Host, err)))
	}
	if in.Sign != nil {
		req.Header.Set(in.Sign.Header, workflow.Sign([]byte(in.Sign.Key), time.Now(), body))
	}
	setKey(req.Header, keyOf(job))
	reply, text, failure := c.send(ctx, req)
	if failure != nil {
		return nil, asError(failure)
	}
	if !in.expects(reply.StatusCode) {
		return nil, statusFailure(reply, text, repeatable)
	}
	result := answer{Status: reply.StatusCode, Headers: headersOf(reply.Header), Body: json.RawMessage("null")}
	if in.includes("body") {
		if len(text) > maxBody {
			return nil, worker.Terminal(workflow.FailureLimit, fmt.Errorf("the answer has more than %d bytes", maxBody))
		}
		if result.Body, err = bodyOf(reply.Header.Get("Content-Type"), text); err != nil {
			return nil, worker.Terminal("HTTP_INVALID", err)
		}
	} else {
		result.Body = nil
	}
	if !in.includes("status") {
		result.Status = 0
	}
	if !in.includes("headers") {
		result.Headers = nil
	}
	return workflow.EncodeJSON(result)
}

// keyOf returns the key of a job. It is the same in each of its attempts, so that a server that has
// answered one recognises the next.
func keyOf(job *worker.Job) string {
	return strings.TrimSuffix(job.ID, "."+strconv.Itoa(job.Attempt))
}

// request builds the request, with its body.
func (in *call) request(ctx context.Context) (*http.Request, []byte, error) {
	u, err := url.Parse(in.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return nil, nil, errors.New("the url is not an absolute http or https address without credentials and fragment")
	}
	if err := in.addQuery(u); err != nil {
		return nil, nil, err
	}
	body, contentType, err := in.body()
	if err != nil {
		return nil, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, in.Method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, errors.New("there is no such request")
	}
	if len(body) == 0 {
		req.Body, req.ContentLength = http.NoBody, 0
	} else {
		req.Header.Set("Content-Type", contentType)
	}
	req.Header.Set("User-Agent", "lockstep")
	for _, name := range slices.Sorted(maps.Keys(in.Headers)) {
		text, given, err := scalar(in.Headers[name])
		if err != nil || strings.ContainsAny(text, "\r\n\x00") {
			return nil, nil, fmt.Errorf("the header %s is not one line of text", name)
		}
		if given {
			req.Header.Set(name, text)
		}
	}
	return req, body, nil
}

// addQuery adds the parameters of the query, sorted by name. A list adds a parameter several times,
// and null adds none.
func (in *call) addQuery(u *url.URL) error {
	if len(in.Query) == 0 {
		return nil
	}
	query := u.Query()
	for name, raw := range in.Query {
		values := []json.RawMessage{raw}
		if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) {
			values = nil
			if err := json.Unmarshal(raw, &values); err != nil {
				return err
			}
		}
		for _, v := range values {
			text, given, err := scalar(v)
			if err != nil {
				return fmt.Errorf("query.%s is not a text, a number, true, false, or a list of these", name)
			}
			if given {
				query.Add(name, text)
			}
		}
	}
	u.RawQuery = query.Encode()
	return nil
}

// body returns the body of the request: a string as it is, anything else as JSON.
func (in *call) body() (body []byte, contentType string, err error) {
	if len(in.Body) == 0 {
		return nil, "", nil
	}
	var text string
	if body, contentType = in.Body, "application/json"; json.Unmarshal(in.Body, &text) == nil && string(in.Body) != "null" {
		body, contentType = []byte(text), "text/plain; charset=utf-8"
	}
	if len(body) > maxBody {
		return nil, "", fmt.Errorf("the body has %d bytes, the limit is %d", len(body), maxBody)
	}
	return body, contentType, nil
}

// scalar returns a value as text. Null counts as not given.
func scalar(raw json.RawMessage) (text string, given bool, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", false, err
	}
	switch v := v.(type) {
	case nil:
		return "", false, nil
	case string:
		return v, true, nil
	case json.Number:
		return v.String(), true, nil
	case bool:
		return strconv.FormatBool(v), true, nil
	}
	return "", false, errors.New("not a text")
}

// expects reports whether a status is what the step expects: 2xx, unless the step says otherwise.
func (in *call) expects(status int) bool {
	if len(in.Expect) == 0 {
		return status/100 == 2
	}
	text := strconv.Itoa(status)
	return slices.Contains(in.Expect, text) || slices.Contains(in.Expect, text[:1]+"xx")
}

func (in *call) includes(part string) bool {
	return len(in.Include) == 0 || slices.Contains(in.Include, part)
}

// headersOf returns the headers of a response, in lower case. Cookies are left out, because they
// are credentials.
func headersOf(h http.Header) map[string]string {
	all := make(map[string]string, len(h))
	for name, values := range h {
		if name = strings.ToLower(name); name != "set-cookie" {
			all[name] = strings.ToValidUTF8(strings.Join(values, ", "), "�")
		}
	}
	return all
}

// bodyOf returns the body of a response: JSON if it is declared as JSON and is valid, otherwise
// text; null if it is empty.
func bodyOf(contentType string, body []byte) (json.RawMessage, error) {
	if len(body) == 0 {
		return json.RawMessage("null"), nil
	}
	media, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	if media = strings.TrimSpace(media); (media == "application/json" || strings.HasSuffix(media, "+json")) && json.Valid(body) {
		if issue := schema.CheckJSON(body, "body", func(path, name string) string { return path + "." + name }); issue != nil {
			return nil, fmt.Errorf("the answer cannot be stored: %s", issue)
		}
		return body, nil
	}
	if !utf8.Valid(body) {
		return nil, errors.New("the answer is neither JSON nor text in UTF-8: leave the body out with include")
	}
	return workflow.EncodeJSON(string(body))
}

// statusFailure returns the failure for a status that the step does not expect. 429 and 503 mean
// that the request was refused. Any other status of 500 or more does not tell what was done with
// the request.
func statusFailure(reply *http.Response, body []byte, repeatable bool) error {
	details := map[string]any{"status": reply.StatusCode}
	if after := retryAfter(reply.Header, time.Now()); after > 0 {
		details["retryAfter"] = int(after.Seconds())
	}
	if v, err := bodyOf(reply.Header.Get("Content-Type"), body); err == nil && len(v) <= maxErrorBody {
		details["body"] = v
	}
	err := fmt.Errorf("the answer has the status %s", reply.Status)
	code := "HTTP_" + strconv.Itoa(reply.StatusCode)
	refused := reply.StatusCode == http.StatusTooManyRequests || reply.StatusCode == http.StatusServiceUnavailable
	if refused || repeatable && retryableStatus(reply.StatusCode) {
		return worker.WithDetails(worker.Retryable(code, err), details)
	}
	return worker.WithDetails(worker.Terminal(code, err), details)
}

func retryableStatus(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests
}

// retryAfter returns how long a response asks to wait before the next request; 0 if it does not
// ask.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(seconds, 0), int(workflow.MaxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now).Round(time.Second), 0), workflow.MaxRetryAfter)
}

// asError returns a failure in the form in which a block returns it.
func asError(f *workflow.Failure) error {
	err := worker.Terminal(f.Code, errors.New(f.Message))
	if f.Retryable {
		err = worker.Retryable(f.Code, errors.New(f.Message))
	}
	if f.Unsent {
		return worker.Unsent(err)
	}
	return err
}
