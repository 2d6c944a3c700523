package definition

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

const maxHeaders = 20

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
		if name == "" || strings.ContainsAny(name, " \t\r\n:") || strings.ContainsAny(value, "\r\n") {
			bad("http.headers", "format", "this is no header: "+name)
		}
	}
}
