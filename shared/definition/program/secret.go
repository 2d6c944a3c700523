package program

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// A secret is not a value that expressions read: see [workflow.SecretPlace]. Its places are found
// when the definition is compiled.

// secretRE finds expressions that read a secret.
var secretRE = regexp.MustCompile(`(?:^|[^.\w])secret\s*[.\[]`)

const aboutSecret = "a secret is no value of expressions: write ${secret.NAME} in the parameters of a step that calls a block, in a text " +
	"that holds nothing else but other secrets and plain text. A name is one to four words of letters, digits, _ and -, with / between them"

// hidesSecrets reports whether a label or an item of the definition has the name that otherwise
// stands for secrets.
func hidesSecrets(d *spec.Definition) bool {
	return slices.ContainsFunc(d.FlatSteps(), func(s *spec.Step) bool {
		return s.Label == spec.SecretName || slices.Contains(s.ItemNames(), spec.SecretName)
	})
}

// checkSign reports a signature in a definition that hides secrets, because its key would be a
// value that the execution knows.
func (c *compiler) checkSign(s *spec.Step, at string) {
	var call struct {
		Sign json.RawMessage `json:"sign"`
	}
	if s.HTTP != nil && json.Unmarshal(s.HTTP, &call) == nil && len(call.Sign) > 0 && hidesSecrets(c.definition) {
		c.ReportAt(at+".sign", "conflict", "a step or an item of this definition has the name secret, which hides secrets, and a request is signed with one: give it another name")
	}
}

// takeSecrets finds the places of secrets in the parameters of a block, and returns the parameters
// with the text of each escaped.
func (c *compiler) takeSecrets(parameters json.RawMessage, path string) (json.RawMessage, []workflow.SecretPlace) {
	if len(parameters) == 0 || hidesSecrets(c.definition) {
		return parameters, nil
	}
	v, ok := decodeTemplate(parameters)
	if !ok {
		return parameters, nil
	}
	var places []workflow.SecretPlace
	v = takeSecretsOf(v, nil, &places)
	if len(places) > workflow.MaxSecretPlaces {
		c.ReportAt(path, "limit", "at most %d values of a step hold secrets", workflow.MaxSecretPlaces)
	}
	if raw, err := workflow.EncodeJSON(v); err == nil && len(places) > 0 {
		return raw, places
	}
	return parameters, nil
}

// takeSecretsOf escapes the references to secrets in a value, and adds their places.
func takeSecretsOf(v any, at []string, into *[]workflow.SecretPlace) any {
	switch v := v.(type) {
	case string:
		parts := splitSecrets(v)
		if parts == nil {
			return v
		}
		*into = append(*into, workflow.SecretPlace{Path: slices.Clone(at), Parts: parts})
		return strings.ReplaceAll(workflow.JoinSecrets(parts, workflow.SecretReference), "${", "$${")
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			v[name] = takeSecretsOf(v[name], append(at, name), into)
		}
	case []any:
		for i := range v {
			v[i] = takeSecretsOf(v[i], append(at, strconv.Itoa(i)), into)
		}
	}
	return v
}

// splitSecrets splits a text that contains references to secrets, and no other tokens; nil for any
// other text. Errors in a reference are reported when the text is compiled, because no expression
// reads a secret.
func splitSecrets(s string) (parts []workflow.SecretPart) {
	all, ok := expr.Split(s)
	found := false
	for _, p := range all {
		name, isSecret := strings.CutPrefix(p.Text, spec.SecretName+".")
		switch {
		case !p.Token:
			parts = append(parts, workflow.SecretPart{Text: p.Text})
		case !isSecret || !workflow.ValidSecretName(name):
			return nil
		default:
			found = true
			parts = append(parts, workflow.SecretPart{Secret: name})
		}
	}
	if !ok || !found {
		return nil
	}
	return parts
}

// Secrets returns the places of secrets in the parameters of a step.
func (c *Compiled) Secrets(step int) []workflow.SecretPlace { return c.steps[step].secrets }

// CompensationSecrets returns the places of secrets in the parameters of a compensation.
func (c *Compiled) CompensationSecrets(step int) []workflow.SecretPlace {
	if k := c.steps[step].compensation; k != nil {
		return k.secrets
	}
	return nil
}

// SecretNames returns the names of the secrets that a definition refers to, sorted.
func SecretNames(d *spec.Definition) []string {
	if hidesSecrets(d) {
		return nil
	}
	var names []string
	add := func(source string) {
		name, isSecret := strings.CutPrefix(source, spec.SecretName+".")
		if isSecret && workflow.ValidSecretName(name) {
			names = append(names, name)
		}
	}
	for _, s := range d.FlatSteps() {
		if s.FunctionBlock == "" {
			continue
		}
		expr.EachToken(s.Parameters, add)
		if s.Compensate != nil {
			expr.EachToken(s.Compensate.Parameters, add)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
