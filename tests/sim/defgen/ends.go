package defgen

import (
	"fmt"
	"strings"
)

// The definitions that the end of an execution starts, besides others of the scenario.
const (
	FollowsNothing = "h0" // its end starts nothing
	FollowsOne     = "h1" // an end of it starts FollowsNothing
	FollowsItself  = "h2" // every end of it starts it once more, until executions have started each other too often
	FollowsLater   = "h3" // is not published when a scenario begins
)

// The kinds of ends, as definitions name them.
var endKinds = []string{"completed", "failed", "cancelled"}

// FollowUp is what an end of one kind starts.
type FollowUp struct {
	Definition string
	NeedsError bool // its parameters have no value unless the execution has failed
	Refused    bool // the definition does not take its parameters
}

// DrawEnds draws what the ends of an execution start, by their kinds.
func DrawEnds(draw func(below int) int) map[string]*FollowUp {
	ends := map[string]*FollowUp{}
	for _, kind := range endKinds {
		if draw(4) == 0 {
			continue
		}
		f := &FollowUp{Definition: []string{FollowsNothing, FollowsNothing, FollowsOne, FollowsOne, FollowsItself, FollowsLater}[draw(6)]}
		switch draw(8) {
		case 0:
			f.NeedsError = true
		case 1:
			f.Refused = draw(3) == 0
		}
		ends[kind] = f
	}
	return ends
}

// Follows returns the definition with the name of one that ends start, nil if it has another name.
func Follows(name string) *Definition {
	d := &Definition{
		Parameters: "{type: object, properties: {of: {}, state: {}, try: {}, endedAt: {}, key: {}, n: {}, code: {}, output: {}}, additionalProperties: false}",
		Steps:      []*Step{{Label: "s0", Body: &Block{Name: "pure"}}},
	}
	switch name {
	case FollowsNothing, FollowsLater:
	case FollowsOne:
		d.Ends = map[string]*FollowUp{"completed": {Definition: FollowsNothing}, "failed": {Definition: FollowsNothing}}
	case FollowsItself:
		d.Ends = map[string]*FollowUp{}
		for _, kind := range endKinds {
			d.Ends[kind] = &FollowUp{Definition: FollowsItself}
		}
	default:
		return nil
	}
	return d
}

// endsYAML returns onEnd, "" if the definition has none. Each parameter says something of the end
// that has started the execution.
func (d *Definition) endsYAML() string {
	var fields []string
	for _, kind := range endKinds {
		f := d.Ends[kind]
		if f == nil {
			continue
		}
		code, more := "${error == null ? null : error.code}", ""
		if f.NeedsError {
			code = "${error.code}"
		}
		if f.Refused {
			more = ", unknown: 1"
		}
		fields = append(fields, fmt.Sprintf("%s: {workflow: 'p/%s:1', parameters: {of: '${execution.id}', state: '${execution.state}', try: '${execution.try}', endedAt: '${execution.endedAt}', key: '${execution.key}', "+
			"n: '${has(parameters.n) ? parameters.n : null}', code: '%s', output: '${output}'%s}}", kind, f.Definition, code, more))
	}
	if len(fields) == 0 {
		return ""
	}
	return "onEnd:\n  " + strings.Join(fields, "\n  ") + "\n"
}
