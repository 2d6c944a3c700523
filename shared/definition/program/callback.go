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

// The token of a callback, and the link with it, are not values that expressions read. Their places
// are found when the definition is compiled, and everything planned, stored or shown has the text
// of the expression there. Only a message to a worker has the token. So a value that happens to
// equal that text stays what it is.

// callbackPlace is the place in parameters of the token of a callback, or of the link with it: the
// names of fields and numbers of items that lead there, and the text that stands there.
type callbackPlace struct {
	at   []string
	text string
}

// callbackRE finds expressions that read the token of a callback.
var callbackRE = regexp.MustCompile(`(?:^|[^.\w])callback\s*\.`)

const aboutCallback = "the token of a callback is the whole value of a parameter: write " + spec.CallbackToken +
	", or " + spec.CallbackURL + " for the link with it, and nothing else, in parameters of a step with callback"

// takeCallbackTokens finds the places of the token, and of links with it, in the parameters of step
// i. It returns the parameters with the text of each escaped.
func (c *compiler) takeCallbackTokens(i int, path string) json.RawMessage {
	s, into := c.flat[i], &c.steps[i]
	if s.Callback == nil {
		return s.Parameters
	}
	v, ok := decodeTemplate(s.Parameters)
	if !ok {
		return s.Parameters // reported when it is compiled, if there are any
	}
	v = takeTokens(v, nil, &into.callbackPlaces)
	if len(into.callbackPlaces) > spec.MaxCallbackTokens {
		c.ReportAt(path, "limit", "the token of a callback stands in at most %d places", spec.MaxCallbackTokens)
	}
	raw, err := workflow.EncodeJSON(v)
	if err != nil || len(into.callbackPlaces) == 0 {
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

// takeTokens escapes the token and the link in a value wherever they stand alone, and adds their
// places.
func takeTokens(v any, at []string, into *[]callbackPlace) any {
	switch v := v.(type) {
	case string:
		if v == spec.CallbackToken || v == spec.CallbackURL {
			*into = append(*into, callbackPlace{slices.Clone(at), v})
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

// HasCallbackToken reports whether the parameters of a step contain a token, alone or in a link.
func (c *Compiled) HasCallbackToken(step int) bool { return len(c.steps[step].callbackPlaces) > 0 }

// HasCallbackURL reports whether the parameters of a step contain a link with a token.
func (c *Compiled) HasCallbackURL(step int) bool {
	return slices.ContainsFunc(c.steps[step].callbackPlaces, func(p callbackPlace) bool { return p.text == spec.CallbackURL })
}

// FillCallbackToken returns the parameters of a step with a token in its places, and the link with
// it in the places of links.
func (c *Compiled) FillCallbackToken(step int, parameters json.RawMessage, token, link string) (json.RawMessage, error) {
	with := map[string]string{spec.CallbackToken: token, spec.CallbackURL: link}
	var err error
	for _, at := range c.steps[step].callbackPlaces {
		if err == nil {
			parameters, err = workflow.ReplaceText(parameters, at.at, at.text, with[at.text])
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the token of a callback has no place in the parameters: %w", err)
	}
	return parameters, nil
}
