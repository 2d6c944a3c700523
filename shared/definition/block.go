package definition

import (
	"net/url"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

const maxHeaders = 20

// ValidateBlock checks a function block that is to be registered.
func ValidateBlock(b *workflow.Block) error {
	var issues []workflow.Issue
	bad := func(path, code, message string) {
		issues = append(issues, workflow.Issue{Path: path, Code: code, Message: message})
	}
	for path, name := range map[string]string{"package": b.Package, "name": b.Name, "pool": b.Pool} {
		if !workflow.ValidName(name) {
			bad(path, "format", "want a letter, then letters, digits, - and _, at most 64")
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
	if len(b.ParameterSchema) > 0 {
		if err := CheckSchema(b.ParameterSchema); err != nil {
			bad("parameterSchema", "schema", err.Error())
		}
	}
	if len(b.ResultSchema) > 0 {
		if err := CheckSchema(b.ResultSchema); err != nil {
			bad("resultSchema", "schema", err.Error())
		}
	}
	if b.HTTP != nil {
		checkEndpoint(b.HTTP, bad)
	}
	return workflow.Invalid("the block is not valid", issues)
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
	for name, value := range e.Headers {
		if name == "" || strings.ContainsAny(name, " \t\r\n:") || strings.ContainsAny(value, "\r\n") {
			bad("http.headers", "format", "this is no header: "+name)
		}
	}
}
