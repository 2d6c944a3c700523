package program

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// No expression sees a sealed parameter: see [workflow.Sealed]. Its places are found with those of
// secrets, and every other expression that would read it is reported. What is read by a computed name
// or as a whole is reported too, where a definition has sealed parameters. Should one be read all the
// same, it is not there.

const aboutSealed = "it is sealed, and no expression sees it: pass it on as a whole, ${parameters.NAME}, as a parameter of a step that calls a block"

// readsParametersRE finds what an expression reads of the parameters: a field, or a name in brackets.
var readsParametersRE = regexp.MustCompile(`(?:^|[^.\w])parameters\b\s*(?:\.\s*\??\s*([A-Za-z_]\w*)|\[\s*\??\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*\])?`)

// quotedRE finds texts in an expression.
var quotedRE = regexp.MustCompile(`"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'`)

// checkSealedRead reports an expression that reads a sealed parameter, or may.
func (c *compiler) checkSealedRead(path, source string) {
	if len(c.sealed) == 0 {
		return
	}
	quoted := quotedRE.FindAllStringIndex(source, -1)
	for _, m := range readsParametersRE.FindAllStringSubmatchIndex(source, -1) {
		word := m[0] + strings.Index(source[m[0]:], "parameters")
		if slices.ContainsFunc(quoted, func(q []int) bool { return q[0] < word && word < q[1] }) {
			continue
		}
		name, named := "", false
		for _, group := range [][]int{m[2:4], m[4:6], m[6:8]} {
			if group[0] >= 0 {
				name, named = source[group[0]:group[1]], true
			}
		}
		switch {
		case !named:
			c.ReportAt(path, "sealed", "this may read parameters.%s as a part of all parameters, or by a computed name: %s", c.sealed[0], aboutSealed)
		case slices.Contains(c.sealed, name):
			c.ReportAt(path, "sealed", "this reads parameters.%s: %s", name, aboutSealed)
		default:
			continue
		}
		return
	}
}

// checkSealedTemplate is checkSealedRead for a template.
func (c *compiler) checkSealedTemplate(t *expr.Template) {
	if t == nil || len(c.sealed) == 0 {
		return
	}
	for _, token := range t.Tokens() {
		c.checkSealedRead(token.Path, token.Program.Source())
	}
}

// checkSealedStarts reports what would start the definition without a request that gives its sealed
// parameters: they would be stored before they are sealed.
func (c *compiler) checkSealedStarts() {
	if len(c.sealed) == 0 {
		return
	}
	if len(c.definition.Triggers.All()) > 0 {
		c.ReportAt("triggers", "conflict", "parameters.%s is sealed, and what a trigger takes is stored before that: only a request starts this definition", c.sealed[0])
	}
	if cron := c.definition.Cron; cron != nil {
		c.checkSealedCron("cron.parameters", cron.Parameters)
	}
	for i := range c.definition.Crons {
		c.checkSealedCron(fmt.Sprintf("cron[%d].parameters", i), c.definition.Crons[i].Parameters)
	}
}

// checkSealedCron reports sealed parameters that a schedule gives.
func (c *compiler) checkSealedCron(path string, parameters json.RawMessage) {
	var given map[string]json.RawMessage
	_ = json.Unmarshal(parameters, &given) // that it is an object is checked elsewhere
	for _, name := range c.sealed {
		if given[name] != nil {
			c.ReportAt(path+"."+name, "conflict", "parameters.%s is sealed, and would stand here for everybody to read", name)
		}
	}
}

// sealedPart is the sealed parameter that a text passes on as a whole, if it does.
func (c *compiler) sealedPart(text string) (part workflow.SecretPart, ok bool) {
	all, valid := expr.Split(text)
	if !valid || len(all) != 1 || !all[0].Token {
		return part, false
	}
	name, isParameter := strings.CutPrefix(strings.TrimSpace(all[0].Text), "parameters.")
	if !isParameter || !slices.Contains(c.sealed, name) {
		return part, false
	}
	return workflow.SecretPart{Secret: workflow.SealedName(name)}, true
}

// takeSealed finds the parameters of a block that pass a sealed parameter on.
func (c *compiler) takeSealed(parameters json.RawMessage) (json.RawMessage, []workflow.SecretPlace) {
	if len(c.sealed) == 0 || len(parameters) == 0 {
		return parameters, nil
	}
	v, ok := decodeTemplate(parameters)
	fields, isObject := v.(map[string]any)
	if !ok || !isObject {
		return parameters, nil
	}
	var places []workflow.SecretPlace
	for name, field := range fields {
		text, isText := field.(string)
		if part, isSealed := c.sealedPart(text); isText && isSealed {
			places = append(places, workflow.SecretPlace{Path: []string{name}, Parts: []workflow.SecretPart{part}})
			fields[name] = workflow.SealedText
		}
	}
	slices.SortFunc(places, func(a, b workflow.SecretPlace) int { return strings.Compare(a.Path[0], b.Path[0]) })
	raw, err := workflow.EncodeJSON(fields)
	if err != nil || len(places) == 0 {
		return parameters, nil
	}
	return raw, places
}
