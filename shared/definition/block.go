package definition

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

const maxHeaders = 20

// The name and the value of a header (RFC 9110, 5.1 and 5.5).
var (
	headerNameRE  = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	headerValueRE = regexp.MustCompile(`^[^\x00-\x08\x0a-\x1f\x7f]*$`)
)

// reservedHeaders are the headers that the call itself sets.
var reservedHeaders = []string{
	"accept", "connection", "content-encoding", "content-length", "content-type", "expect", "host", "idempotency-key", "keep-alive",
	"proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "x-idempotency-key",
}

// ValidateBlock checks a function block before it is registered. The error is CodeInvalid
// with every issue.
func ValidateBlock(b *workflow.Block) error {
	var issues []workflow.Issue
	addIssue := func(path, code, message string) {
		issues = append(issues, workflow.Issue{Path: path, Code: code, Message: message})
	}
	for _, named := range [][2]string{{"package", b.Package}, {"name", b.Name}} {
		if !workflow.ValidName(named[1]) {
			addIssue(named[0], "format", "want a letter, then letters, digits, - and _, at most 64")
		}
	}
	if !topology.ValidPool(cmp.Or(b.Pool, topology.PoolDefault)) {
		addIssue("pool", "format", "want "+topology.PoolNames)
	}
	if workflow.BuiltinName(workflow.Ref{Package: b.Package, Name: b.Name}) {
		addIssue("name", "reserved", "this is the name of a block of http steps")
	}
	if _, ok := workflow.ParseSemver(b.Version); !ok {
		addIssue("version", "semver", "want a version such as 1.2.3")
	}
	if b.RunOn != "" && !workflow.ValidID(b.RunOn) {
		addIssue("runOn", "format", "want an entity type, or global")
	}
	if b.Pure && b.Reversible {
		addIssue("reversible", "conflict", "a pure block changes nothing that could be rolled back")
	}
	if b.UndoHarmless && !b.Reversible {
		addIssue("undoHarmless", "conflict", "only a reversible block can be undone")
	}
	if t := b.Timeout.Std(); t < 0 || t > MaxJobTimeout {
		addIssue("timeout", "range", "want up to "+MaxJobTimeout.String())
	}
	if len(b.Description) > maxTextLength {
		addIssue("description", "limit", "at most 4096 characters")
	}
	if string(b.Metadata) == "null" {
		b.Metadata = nil
	}
	var metadata map[string]json.RawMessage
	switch {
	case len(b.Metadata) > workflow.MaxMetadataBytes:
		addIssue("metadata", "limit", fmt.Sprintf("at most %d bytes as JSON, not %d", workflow.MaxMetadataBytes, len(b.Metadata)))
	case len(b.Metadata) > 0 && json.Unmarshal(b.Metadata, &metadata) != nil:
		addIssue("metadata", "type", "want an object")
	}
	checkSchema("parameterSchema", b.ParameterSchema, addIssue)
	checkSchema("resultSchema", b.ResultSchema, addIssue)
	if issue := sealedIssue(b.ParameterSchema); issue != "" {
		addIssue("parameterSchema", "sealed", issue)
	}
	if len(b.ParameterSchema) <= MaxSource && len(b.ResultSchema) <= MaxSource && len(b.ParameterSchema)+len(b.ResultSchema) > MaxSource {
		addIssue("resultSchema", "limit", fmt.Sprintf("at most %d bytes together with parameterSchema, because they are stored together", MaxSource))
	}
	if b.HTTP != nil {
		checkEndpoint(b.HTTP, addIssue)
	}
	return workflow.Invalid("the block is not valid", issues)
}

func checkSchema(path string, raw json.RawMessage, addIssue func(path, code, message string)) {
	if schema.Absent(raw) {
		return
	}
	if len(raw) > MaxSource {
		addIssue(path, "limit", fmt.Sprintf("at most %d bytes", MaxSource))
	} else if err := schema.Check(raw); err != nil {
		addIssue(path, "schema", err.Error())
	}
}

func checkEndpoint(e *workflow.Endpoint, addIssue func(path, code, message string)) {
	u, err := url.Parse(e.URL)
	switch {
	case e.Endpoint != "" && e.URL != "":
		addIssue("http.endpoint", "conflict", "a block has url or endpoint, not both")
	case e.Endpoint != "" && !workflow.ValidName(e.Endpoint):
		addIssue("http.endpoint", "format", "want a letter, then letters, digits, - and _, at most 64")
	case e.Endpoint != "":
		if _, err := (workflow.Endpoints{e.Endpoint: "http://endpoint"}).Address(e.Endpoint, e.Path); err != nil {
			addIssue("http.path", "format", err.Error())
		}
	case e.Path != "":
		addIssue("http.path", "conflict", "path stands behind an endpoint, and the block has none")
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		addIssue("http.url", "format", "want an absolute http or https address")
	case u.User != nil:
		addIssue("http.url", "secret", "the address must not contain credentials")
	case u.Fragment != "":
		addIssue("http.url", "format", "the address must not have a fragment")
	}
	if s := e.Sign; s != nil {
		if !workflow.ValidSecretName(s.Secret) {
			addIssue("http.sign.secret", "format", "want the name of a secret: one to four words of letters, digits, _ and -, with / between them")
		}
		if h := s.Header; h != "" && (!headerNameRE.MatchString(h) || slices.Contains(reservedHeaders, strings.ToLower(h))) {
			addIssue("http.sign.header", "reserved", "a block cannot set this header")
		}
	}
	if t := e.Timeout.Std(); t < 0 || t > MaxJobTimeout {
		addIssue("http.timeout", "range", "want up to "+MaxJobTimeout.String())
	}
	if len(e.Headers) > maxHeaders {
		addIssue("http.headers", "limit", "at most 20 headers")
	}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		value := e.Headers[name]
		path := "http.headers." + name
		switch {
		case !headerNameRE.MatchString(name):
			addIssue(path, "format", "this is not a valid header name")
		case slices.Contains(reservedHeaders, strings.ToLower(name)):
			addIssue(path, "reserved", "a block cannot set this header")
		case !headerValueRE.MatchString(value):
			addIssue(path, "format", "want one line of printable characters")
		case slices.ContainsFunc(workflow.SplitSecrets(value), func(p workflow.SecretPart) bool { return strings.Contains(p.Text, "${secret.") }):
			addIssue(path, "reference", "want ${secret.NAME}, with a name of one to four words of letters, digits, _ and -, with / between them")
		}
	}
}
