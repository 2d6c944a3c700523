package definition

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// maxExpected bounds the statuses and classes of them that a step expects.
const maxExpected = 20

// The statuses that a step with http may expect: a single one, or a class of them.
const statusPattern = `^[1-5](xx|[0-9][0-9])$`

var statusRE = regexp.MustCompile(statusPattern)

// ownHeaders are the headers that the call of an http step sets itself.
var ownHeaders = []string{
	"accept-encoding", "connection", "content-length", "expect", "host", "keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer",
	"transfer-encoding", "upgrade",
}

// httpCall is the http of a step as authors write it.
type httpCall struct {
	Method   string            `json:"method"`
	URL      string            `json:"url,omitempty"`
	Endpoint string            `json:"endpoint,omitempty"`
	Path     string            `json:"path,omitempty"`
	Query    json.RawMessage   `json:"query,omitempty"`
	Headers  json.RawMessage   `json:"headers,omitempty"`
	Body     json.RawMessage   `json:"body,omitempty"`
	Expect   []string          `json:"expect,omitempty"`
	Include  []string          `json:"include,omitempty"`
	Sign     *workflow.Signing `json:"sign,omitempty"`

	timeout workflow.Duration
}

// httpStep reads the http of a step. It makes the step one that calls a block, with the call as its
// parameters.
func (r *reader) httpStep(s *spec.Step) yamldoc.Field {
	in := &httpCall{Method: "GET"}
	return yamldoc.Named("http", r.Object(yamldoc.Fields{
		"method":   yamldoc.Enum(r.Reader, &in.Method, "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"),
		"url":      r.Text(&in.URL),
		"endpoint": r.name(&in.Endpoint),
		"path":     r.Text(&in.Path),
		"query":    r.Raw(&in.Query, true),
		"headers":  r.Raw(&in.Headers, true),
		"body":     r.Raw(&in.Body, false),
		"timeout":  r.duration(&in.timeout, time.Millisecond, MaxJobTimeout),
		"expect":   yamldoc.List(r.Reader, &in.Expect, maxExpected, r.status),
		"include":  yamldoc.List(r.Reader, &in.Include, 3, func(into *string) yamldoc.Field { return yamldoc.Enum(r.Reader, into, "status", "headers", "body") }),
		"sign": yamldoc.Optional(&in.Sign, func(sign *workflow.Signing) yamldoc.Field {
			return r.Object(yamldoc.Fields{
				"secret": r.checkedText(&sign.Secret, yamldoc.Schema{}, "format", "want the name of a secret", workflow.ValidSecretName).Required("name the secret"),
				"header": r.checkedText(&sign.Header, yamldoc.Schema{"pattern": headerNameRE.String()}, "format", "this is not a valid header name", headerNameRE.MatchString),
			})
		}),
	}).WithSchema(addressSchema).Finally(func(n ast.Node, path string) {
		r.checkTarget(n, path)
		r.checkCall(in, path)
		s.HTTP, s.Parameters = in.written(), in.parameters()
		if s.Timeout == 0 {
			s.Timeout = in.timeout
		}
		s.FunctionBlock = methodBlock(in.Method)
	}))
}

// addressSchema is the JSON Schema of the target of a call: an address, or an endpoint.
var addressSchema = yamldoc.Schema{
	"oneOf":             requires("url", "endpoint"),
	"dependentRequired": map[string][]string{"path": {"endpoint"}},
}

// checkTarget checks that a call names an address, or an endpoint.
func (r *reader) checkTarget(n ast.Node, path string) {
	switch hasURL, hasEndpoint := r.Has(path+".url"), r.Has(path+".endpoint"); {
	case hasURL && hasEndpoint:
		r.ReportAt(path+".endpoint", "conflict", "a call has url or endpoint, not both")
	case !hasURL && !hasEndpoint:
		r.Report(n, path+".url", "required", "say which address is called: url, or endpoint and path")
	case hasURL && r.Has(path+".path"):
		r.ReportAt(path+".path", "conflict", "path stands behind an endpoint, and the call has none")
	}
}

// methodBlock returns the block of a method.
func methodBlock(method string) string {
	block := workflow.HTTPSendBlock
	switch method {
	case "GET", "HEAD":
		block = workflow.HTTPReadBlock
	case "PUT", "DELETE":
		block = workflow.HTTPSetBlock
	}
	return strings.TrimSuffix(block, ".0.0")
}

// finishHTTP checks the other fields of a step with http.
func (r *reader) finishHTTP(s *spec.Step, path string) {
	if s.HTTP == nil {
		if r.Has(path + ".idempotent") {
			r.ReportAt(path+".idempotent", "conflict", "only a step with http says whether it is idempotent: of any other, its block does")
		}
		return
	}
	if r.Has(path+".timeout") && r.Has(path+".http.timeout") {
		r.ReportAt(path+".http.timeout", "conflict", "the step has a timeout already")
	}
	if s.Idempotent && s.FunctionBlock == strings.TrimSuffix(workflow.HTTPSendBlock, ".0.0") {
		s.FunctionBlock = strings.TrimSuffix(workflow.HTTPSetBlock, ".0.0")
	}
}

// status reads a status, or a class of them such as 2xx.
func (r *reader) status(into *string) yamldoc.Field {
	schema := yamldoc.Schema{"anyOf": []yamldoc.Schema{{"type": "integer", "minimum": 100, "maximum": 599}, {"type": "string", "pattern": statusPattern}}}
	return yamldoc.Value(schema, func(n ast.Node, path string) {
		if v, ok := yamldoc.NumberOf(n); ok {
			*into = strconv.FormatFloat(v, 'f', -1, 64)
		} else {
			r.Text(into).Read(n, path)
		}
		if !statusRE.MatchString(*into) {
			r.Report(n, path, "format", "want a status such as 404, or a class of them such as 2xx")
		}
	})
}

// checkCall checks the parts of a call that do not depend on expressions.
func (r *reader) checkCall(in *httpCall, path string) {
	if literal := in.URL != "" && !strings.Contains(in.URL, "${"); literal || strings.HasPrefix(in.URL, "http") {
		text, _, _ := strings.Cut(in.URL, "${")
		checkAddress(text, literal, func(code, message string) { r.ReportAt(path+".url", code, "%s", message) })
	}
	if in.Path != "" && !strings.HasPrefix(in.Path, "/") && !strings.HasPrefix(in.Path, "${") {
		r.ReportAt(path+".path", "format", "want a path that begins with /")
	}
	if (in.Method == "GET" || in.Method == "HEAD") && in.Body != nil {
		r.ReportAt(path+".body", "conflict", "%s has no body", in.Method)
	}
	var headers map[string]any
	_ = json.Unmarshal(in.Headers, &headers) // it was read as an object
	if len(headers) > maxHeaders {
		r.ReportAt(path+".headers", "limit", "at most %d headers", maxHeaders)
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		at := yamldoc.JoinPath(path+".headers", name)
		text, isText := headers[name].(string)
		switch {
		case !headerNameRE.MatchString(name):
			r.ReportAt(at, "format", "this is not a valid header name")
		case slices.Contains(ownHeaders, strings.ToLower(name)):
			r.ReportAt(at, "reserved", "the call sets this header itself")
		case !isText:
			r.ReportAt(at, "type", "want a text")
		case !headerValueRE.MatchString(text):
			r.ReportAt(at, "format", "want one line of printable characters")
		}
	}
	if in.Sign != nil && slices.Contains(append([]string{"idempotency-key", "x-idempotency-key"}, ownHeaders...), strings.ToLower(in.Sign.Header)) {
		r.ReportAt(path+".sign.header", "reserved", "the call sets this header itself")
	}
}

// checkAddress checks an address, or only its beginning if the rest depends on expressions.
func checkAddress(text string, whole bool, report func(code, message string)) {
	u, err := url.Parse(text)
	switch {
	case err != nil && !whole:
	case err != nil || whole && (u.Scheme != "http" && u.Scheme != "https" || u.Host == ""):
		report("format", "want an absolute http or https address")
	case u.User != nil:
		report("secret", "the address must not contain credentials: write them into headers, as ${secret.NAME}")
	case u.Fragment != "":
		report("format", "the address must not have a fragment")
	}
}

// written returns the call as its canonical form writes it.
func (in *httpCall) written() json.RawMessage {
	raw, _ := workflow.EncodeJSON(in) //nolint:errchkjson // its parts came from JSON
	return raw
}

// parameters returns the parameters of the block of a call.
func (in *httpCall) parameters() json.RawMessage {
	type sign struct {
		Key    string `json:"key"`
		Header string `json:"header"`
	}
	p := struct {
		*httpCall
		Sign *sign `json:"sign,omitempty"`
	}{httpCall: in}
	if in.Sign != nil && workflow.ValidSecretName(in.Sign.Secret) {
		p.Sign = &sign{workflow.SecretReference(in.Sign.Secret), cmp.Or(in.Sign.Header, workflow.SignatureHeader)}
	}
	raw, err := workflow.EncodeJSON(p)
	if err != nil {
		panic(fmt.Sprintf("definition: the call has no JSON form: %v", err)) // its parts came from JSON
	}
	return raw
}
