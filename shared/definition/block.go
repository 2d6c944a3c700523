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
	"github.com/lockstep-run/lockstep/shared/workflow"
)

const maxHeaders = 20

// What a header is called, and what it says (RFC 9110, 5.1 and 5.5).
var (
	headerRE = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	valueRE  = regexp.MustCompile(`^[^\x00-\x08\x0a-\x1f\x7f]*$`)
)

// reservedHeaders are those that the call itself decides.
var reservedHeaders = []string{
	"accept", "connection", "content-encoding", "content-length", "content-type", "expect", "host", "idempotency-key", "keep-alive",
	"proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "x-idempotency-key",
}

// ValidateBlock checks a function block that is to be registered.
func ValidateBlock(b *workflow.Block) error {
	var issues []workflow.Issue
	bad := func(path, code, message string) {
		issues = append(issues, workflow.Issue{Path: path, Code: code, Message: message})
	}
	for _, named := range [][2]string{{"package", b.Package}, {"name", b.Name}, {"pool", cmp.Or(b.Pool, "default")}} {
		if !workflow.ValidName(named[1]) {
			bad(named[0], "format", "want a letter, then letters, digits, - and _, at most 64")
		}
	}
	if _, ok := workflow.ParseSemver(b.Version); !ok {
		bad("version", "semver", "want a version such as 1.2.3")
	}
	if b.RunOn != "" && !workflow.ValidID(b.RunOn) {
		bad("runOn", "format", "want an entity type, or global")
	}
	if b.Pure && b.Reversible {
		bad("reversible", "conflict", "a pure block changes nothing that could be rolled back")
	}
	if b.UndoHarmless && !b.Reversible {
		bad("undoHarmless", "conflict", "only a reversible block can be undone")
	}
	if t := b.Timeout.Std(); t < 0 || t > MaxJobTimeout {
		bad("timeout", "range", "want up to "+MaxJobTimeout.String())
	}
	if len(b.Description) > maxText {
		bad("description", "limit", "at most 4096 characters")
	}
	checkSchema("parameterSchema", b.ParameterSchema, bad)
	checkSchema("resultSchema", b.ResultSchema, bad)
	if len(b.ParameterSchema) <= MaxSource && len(b.ResultSchema) <= MaxSource && len(b.ParameterSchema)+len(b.ResultSchema) > MaxSource {
		bad("resultSchema", "limit", fmt.Sprintf("with parameterSchema at most %d bytes, for they are stored together", MaxSource))
	}
	if b.HTTP != nil {
		checkEndpoint(b.HTTP, bad)
	}
	return workflow.Invalid("the block is not valid", issues)
}

func checkSchema(path string, raw json.RawMessage, bad func(path, code, message string)) {
	if schema.Absent(raw) {
		return
	}
	if len(raw) > MaxSource {
		bad(path, "limit", fmt.Sprintf("at most %d bytes", MaxSource))
	} else if err := schema.Check(raw); err != nil {
		bad(path, "schema", err.Error())
	}
}

func checkEndpoint(e *workflow.Endpoint, bad func(path, code, message string)) {
	u, err := url.Parse(e.URL)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		bad("http.url", "format", "want an absolute http or https address")
	case u.User != nil:
		bad("http.url", "secret", "an address holds no credentials")
	case u.Fragment != "":
		bad("http.url", "format", "an address has no fragment")
	}
	if t := e.Timeout.Std(); t < 0 || t > MaxJobTimeout {
		bad("http.timeout", "range", "want up to "+MaxJobTimeout.String())
	}
	if len(e.Headers) > maxHeaders {
		bad("http.headers", "limit", "at most 20 headers")
	}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		value := e.Headers[name]
		path := "http.headers." + name
		switch {
		case !headerRE.MatchString(name):
			bad(path, "format", "this is no name of a header")
		case slices.Contains(reservedHeaders, strings.ToLower(name)):
			bad(path, "reserved", "this header is not for a block to say")
		case !valueRE.MatchString(value):
			bad(path, "format", "the value of a header is one line of printable characters")
		}
	}
}
