package infra

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// template is a synthesised template, as far as the tests look at it.
type template struct {
	Resources map[string]*resource
	Outputs   map[string]struct {
		Value  any
		Export struct{ Name string }
	}

	bytes    int
	findings []finding

	host  *template // whose exports it imports
	guest *template // that imports its exports
}

type resource struct {
	ID             string    `json:"-"`
	in             *template // its own
	Type           string
	Properties     map[string]any
	DependsOn      any
	DeletionPolicy string
}

// all returns the resources of a type in order of their id. A type of which there
// is none makes a test fail, for otherwise it would hold of nothing.
func (x *template) all(t *testing.T, kind string) []*resource {
	t.Helper()
	var found []*resource
	for _, id := range slices.Sorted(maps.Keys(x.Resources)) {
		if x.Resources[id].Type == kind {
			found = append(found, x.Resources[id])
		}
	}
	if len(found) == 0 {
		t.Fatalf("no resource of type %s", kind)
	}
	return found
}

// at follows property names down from a resource; nil if one is missing.
func (r *resource) at(path ...string) any { return at(r.Properties, path...) }

func at(v any, path ...string) any {
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// text renders a value with its references, ${Id} and ${Id.Attribute}.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = text(v[i])
		}
		return strings.Join(parts, " ")
	case map[string]any:
		switch {
		case v["Ref"] != nil:
			return "${" + text(v["Ref"]) + "}"
		case v["Fn::GetAtt"] != nil:
			pair := v["Fn::GetAtt"].([]any)
			return "${" + text(pair[0]) + "." + text(pair[1]) + "}"
		case v["Fn::Join"] != nil:
			join := v["Fn::Join"].([]any)
			var b strings.Builder
			for i, part := range join[1].([]any) {
				if i > 0 {
					b.WriteString(text(join[0]))
				}
				b.WriteString(text(part))
			}
			return b.String()
		}
		parts := make([]string, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, key+"="+text(v[key]))
		}
		return strings.Join(parts, ",")
	default:
		return fmt.Sprint(v)
	}
}

// list is a value that CloudFormation may also write without its list.
func list(v any) []any {
	if l, ok := v.([]any); ok {
		return l
	}
	if v == nil {
		return nil
	}
	return []any{v}
}

var reference = regexp.MustCompile(`\$\{([A-Za-z0-9]+)(?:\.[A-Za-z.]+)?\}`)

var imported = regexp.MustCompile(`Fn::ImportValue=([A-Za-z0-9:]+)`)

// followed is a rendered value with what it imports in the place of the imports.
func (x *template) followed(s string) string {
	if x.host == nil {
		return s
	}
	return imported.ReplaceAllStringFunc(s, func(found string) string {
		name := imported.FindStringSubmatch(found)[1]
		for _, output := range x.host.Outputs {
			if output.Export.Name == name {
				return text(output.Value)
			}
		}
		return found
	})
}

// find is the resource of an id, of the stack or of the one whose exports it imports.
func (x *template) find(id string) *resource {
	if r := x.Resources[id]; r != nil || x.host == nil {
		return r
	}
	return x.host.Resources[id]
}

// refers returns the resource to which a value is a reference, or whose attribute
// it begins with.
func (x *template) refers(t *testing.T, v any) *resource {
	t.Helper()
	m := reference.FindStringSubmatch(x.followed(text(v)))
	if m == nil || x.find(m[1]) == nil {
		t.Fatalf("%q refers to no resource", text(v))
	}
	return x.find(m[1])
}

var hash = regexp.MustCompile(`([A-Za-z0-9])[0-9A-F]{8}\b`)

// plain takes the hashes out of ids.
func plain(s string) string { return hash.ReplaceAllString(s, "$1") }

// is whether a resource was made under the id, in whichever engine.
func (r *resource) is(id string) bool {
	for _, engine := range []string{"Engine", "Blue", "Green"} {
		if plain(r.ID) == engine+id {
			return true
		}
	}
	return false
}

// one is the engine's resource of that id; the pair has two, the first is taken.
func (x *template) one(t *testing.T, id string) *resource {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(x.Resources)) {
		if x.Resources[key].is(id) {
			return x.Resources[key]
		}
	}
	t.Fatalf("no resource %s", id)
	return nil
}

// env is a function's environment, rendered.
func (r *resource) env() map[string]string {
	vars := map[string]string{}
	if m, ok := r.at("Environment", "Variables").(map[string]any); ok {
		for k, v := range m {
			vars[k] = text(v)
		}
	}
	return vars
}

// statement is one of a policy.
type statement struct {
	sid, effect        string
	actions, resources []string
	principal          string
	condition          any
}

func statements(document any) []statement {
	var found []statement
	for _, raw := range list(at(document, "Statement")) {
		s := statement{
			sid: text(at(raw, "Sid")), effect: text(at(raw, "Effect")),
			principal: text(at(raw, "Principal")), condition: at(raw, "Condition"),
		}
		for _, a := range list(at(raw, "Action")) {
			s.actions = append(s.actions, text(a))
		}
		for _, r := range list(at(raw, "Resource")) {
			s.resources = append(s.resources, text(r))
		}
		found = append(found, s)
	}
	return found
}

// policy is everything that a role's policies say.
func (x *template) policy(t *testing.T, role *resource) []statement {
	t.Helper()
	var found []statement
	for _, p := range list(role.at("Policies")) {
		found = append(found, statements(at(p, "PolicyDocument"))...)
	}
	for _, p := range x.all(t, "AWS::IAM::Policy") {
		for _, r := range list(p.at("Roles")) {
			if x.refers(t, r) == role {
				found = append(found, statements(p.at("PolicyDocument"))...)
			}
		}
	}
	return found
}

// output is the value of the engine's output of that id.
func (x *template) output(id string) string {
	for key, output := range x.Outputs {
		if strings.TrimPrefix(plain(key), "Engine") == id {
			return text(output.Value)
		}
	}
	return ""
}
