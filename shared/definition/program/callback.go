package program

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// The token of a callback is no value that expressions read. Its places are found when the
// definition is compiled, and whatever is planned, stored or shown has the text in it. Only a
// message to a worker has the token. So a value that happens to be that text stays what it is.

// callbackRE finds expressions that read the token of a callback.
var callbackRE = regexp.MustCompile(`(?:^|[^.\w])callback\s*\.`)

const aboutCallback = "the token of a callback is the whole value of a parameter: write " + spec.CallbackToken +
	" and nothing else, in parameters of a step with callback"

// takeCallbackTokens finds the places of the token in the parameters of step i, and returns the
// parameters with the text of each as it is.
func (c *compiler) takeCallbackTokens(i int, path string) json.RawMessage {
	s, into := c.flat[i], &c.steps[i]
	if s.Callback == nil {
		return s.Parameters
	}
	v, ok := decodeTemplate(s.Parameters)
	if !ok {
		return s.Parameters // reported when it is compiled, if there are any
	}
	v = takeTokens(v, nil, &into.callbackTokens)
	if len(into.callbackTokens) > spec.MaxCallbackTokens {
		c.ReportAt(path, "limit", "the token of a callback stands in at most %d places", spec.MaxCallbackTokens)
	}
	raw, err := workflow.EncodeJSON(v)
	if err != nil || len(into.callbackTokens) == 0 {
		return s.Parameters
	}
	return raw
}

// decodeTemplate decodes a value whose strings may hold tokens. It keeps numbers as they are.
func decodeTemplate(raw json.RawMessage) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return v, d.Decode(&v) == nil
}

// takeTokens escapes the token in a value wherever it stands alone, and adds these places.
func takeTokens(v any, at []string, into *[][]string) any {
	switch v := v.(type) {
	case string:
		if v == spec.CallbackToken {
			*into = append(*into, slices.Clone(at))
			return "$" + v
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			v[name] = takeTokens(v[name], append(at, name), into)
		}
	case []any:
		for i := range v {
			v[i] = takeTokens(v[i], append(at, strconv.Itoa(i)), into)
		}
	}
	return v
}

// HasCallbackToken reports whether a token stands in the parameters of a step.
func (c *Compiled) HasCallbackToken(step int) bool { return len(c.steps[step].callbackTokens) > 0 }

// FillCallbackToken returns the parameters of a step with a token in its places.
func (c *Compiled) FillCallbackToken(step int, parameters json.RawMessage, token string) (json.RawMessage, error) {
	var err error
	for _, at := range c.steps[step].callbackTokens {
		if err == nil {
			parameters, err = workflow.ReplaceText(parameters, at, spec.CallbackToken, token)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the token of a callback has no place in the parameters: %w", err)
	}
	return parameters, nil
}
