package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Validate validates a request. It returns everything that is wrong as one
// [workflow.Error] with all issues, or an [http.MaxBytesError]. It reads the body and
// replaces it with a copy for the handler.
func (op *Operation) Validate(w http.ResponseWriter, r *http.Request) error {
	issues := op.validateParameters(r)
	if !op.acceptsBody {
		return workflow.Invalid("the request is not valid", issues)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, op.maxBody))
	if err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return err
		}
		return &workflow.Error{Code: workflow.CodeInvalid, Message: "the body could not be read completely", Cause: err}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	switch empty := len(bytes.TrimSpace(body)) == 0; {
	case empty && op.bodyRequired:
		issues = append(issues, workflow.Issue{Code: "required", Message: "a body is required"})
	case !empty && op.bodySchema != "":
		bodyIssues, err := op.doc.validateJSON(body, op.bodySchema)
		if err != nil {
			return err
		}
		issues = append(issues, bodyIssues...)
	}
	return workflow.Invalid("the request is not valid", issues)
}

// validateJSON parses a body and validates it.
func (d *Document) validateJSON(body []byte, bodySchema string) ([]workflow.Issue, error) {
	if !utf8.Valid(body) {
		return nil, workflow.Errorf(workflow.CodeInvalid, "the body is not UTF-8")
	}
	v, err := parseJSON(body)
	if err != nil {
		return nil, err
	}
	if issue := schema.CheckValue(v, "", memberPath); issue != nil {
		return []workflow.Issue{*issue}, nil
	}
	if issue := duplicateKeyIssue(body); issue != nil {
		return []workflow.Issue{*issue}, nil
	}
	return report.Issues(d.CompileSchema(bodySchema).Validate(v), v, ""), nil
}

// duplicateKeyIssue returns an issue for the first duplicate key in an object of the body.
func duplicateKeyIssue(body []byte) *workflow.Issue {
	d := schema.FindDuplicateKey(body, "", memberPath)
	if d == nil {
		return nil
	}
	line, column := position(body, keyStart(body, d.End))
	return &workflow.Issue{
		Path: memberPath(d.Path, d.Key), Line: line, Column: column, Code: "duplicate_field",
		Message: fmt.Sprintf("the field %q is a duplicate", truncate(d.Key)),
	}
}

// keyStart returns the offset of the opening quote of the string that ends before end.
func keyStart(body []byte, end int64) int64 {
	for i := end - 2; i >= 0; i-- {
		if body[i] != '"' {
			continue
		}
		slashes := 0
		for j := i - 1; j >= 0 && body[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
	return end
}

// parseJSON parses exactly one JSON value.
func parseJSON(body []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	offset := dec.InputOffset()
	if err == nil {
		if _, err = dec.Token(); errors.Is(err, io.EOF) {
			return v, nil
		}
		err = errors.New("there is data after the JSON value")
	}
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset - 1
	case errors.Is(err, io.ErrUnexpectedEOF):
		offset, err = int64(len(body)), errors.New("the JSON is incomplete")
	}
	line, column := position(body, offset)
	return nil, workflow.Invalid("the body is not JSON", []workflow.Issue{{Line: line, Column: column, Code: "syntax", Message: err.Error()}})
}

// position returns the line and the column of an offset, both counted from 1.
func position(body []byte, offset int64) (line, column int) {
	before := body[:min(max(offset, 0), int64(len(body)))]
	return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[1+bytes.LastIndexByte(before, '\n'):])
}

func (op *Operation) validateParameters(r *http.Request) []workflow.Issue {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return []workflow.Issue{{Code: "query", Message: "the query of the URL is malformed"}}
	}
	var issues []workflow.Issue
	var names []string
	for _, p := range op.parameters {
		var values []string
		switch p.location {
		case "query":
			names = append(names, p.name)
			values = query[p.name]
		case "path":
			values = []string{r.PathValue(p.name)}
		case "header":
			values = r.Header.Values(p.name)
		}
		issues = append(issues, op.validateParameter(p, values)...)
	}
	var unknown []string
	for name := range query {
		if !slices.Contains(names, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		message := "unknown parameter; this route has none"
		if len(names) > 0 {
			message = "unknown parameter; this route has " + strings.Join(names, ", ")
		}
		issues = append(issues, workflow.Issue{Path: truncate(name), Code: "unknown_parameter", Message: message})
	}
	return issues
}

func (op *Operation) validateParameter(p parameter, values []string) []workflow.Issue {
	if len(values) == 0 {
		if p.required {
			return []workflow.Issue{{Path: p.name, Code: "required", Message: "the parameter is required"}}
		}
		return nil
	}
	var v any
	if p.repeated {
		list := make([]any, len(values))
		for i, s := range values {
			list[i] = p.parseValue(s)
		}
		v = list
	} else {
		if len(values) > 1 {
			return []workflow.Issue{{Path: p.name, Code: "repeated", Message: fmt.Sprintf("want one value, got %d", len(values))}}
		}
		v = p.parseValue(values[0])
	}
	if issue := schema.CheckValue(v, p.name, memberPath); issue != nil {
		return []workflow.Issue{*issue}
	}
	return report.Issues(op.doc.CompileSchema(p.schema).Validate(v), v, p.name)
}

// parseValue converts s to the parameter's type. If that fails, it returns s, which the
// schema then refuses.
func (p parameter) parseValue(s string) any {
	switch {
	case p.jsonType == "integer" && isInteger(s):
		return json.Number(s)
	case p.jsonType == "boolean" && (s == "true" || s == "false"):
		return s == "true"
	}
	return s
}

func isInteger(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	return digits != "" && strings.Trim(digits, "0123456789") == "" && (digits == "0" || digits[0] != '0')
}
