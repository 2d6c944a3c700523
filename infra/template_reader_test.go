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

// template is the part of a synthesised template that the tests read.
type template struct {
	Resources map[string]*resource
	Outputs   map[string]struct {
		Value  any
		Export struct{ Name string }
	}

	sizeBytes int
	findings  []finding

	exporter *template // the stack whose exports it imports, or nil
	importer *template // the stack that imports its exports, or nil
}

type resource struct {
	ID             string    `json:"-"`
	template       *template // that contains it
	Type           string
	Properties     map[string]any
	DependsOn      any
	DeletionPolicy string
}

// byType returns the resources of a type, sorted by id. It fails the test if there are
// none, since a check of no resources would always pass.
func (x *template) byType(t *testing.T, kind string) []*resource {
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

// property returns the property at a path of names, nil if there is none.
func (r *resource) property(path ...string) any { return propertyOf(r.Properties, path...) }

func propertyOf(v any, path ...string) any {
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// render formats a value, with references as ${Id} and ${Id.Attribute}.
func render(v any) string {
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
			parts[i] = render(v[i])
		}
		return strings.Join(parts, " ")
	case map[string]any:
		switch {
		case v["Ref"] != nil:
			return "${" + render(v["Ref"]) + "}"
		case v["Fn::GetAtt"] != nil:
			pair := v["Fn::GetAtt"].([]any)
			return "${" + render(pair[0]) + "." + render(pair[1]) + "}"
		case v["Fn::Join"] != nil:
			join := v["Fn::Join"].([]any)
			var b strings.Builder
			for i, part := range join[1].([]any) {
				if i > 0 {
					b.WriteString(render(join[0]))
				}
				b.WriteString(render(part))
			}
			return b.String()
		}
		parts := make([]string, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, key+"="+render(v[key]))
		}
		return strings.Join(parts, ",")
	default:
		return fmt.Sprint(v)
	}
}

// asList returns a value as a list; CloudFormation may omit the list around one element.
func asList(v any) []any {
	if l, ok := v.([]any); ok {
		return l
	}
	if v == nil {
		return nil
	}
	return []any{v}
}

var referenceRE = regexp.MustCompile(`\$\{([A-Za-z0-9]+)(?:\.[A-Za-z.]+)?\}`)

var importRE = regexp.MustCompile(`Fn::ImportValue=([A-Za-z0-9:]+)`)

// resolveImports replaces the imports in a rendered value by the exported values.
func (x *template) resolveImports(s string) string {
	if x.exporter == nil {
		return s
	}
	return importRE.ReplaceAllStringFunc(s, func(found string) string {
		name := importRE.FindStringSubmatch(found)[1]
		for _, output := range x.exporter.Outputs {
			if output.Export.Name == name {
				return render(output.Value)
			}
		}
		return found
	})
}

// findResource returns the resource with an id, of the stack or its exporter.
func (x *template) findResource(id string) *resource {
	if r := x.Resources[id]; r != nil || x.exporter == nil {
		return r
	}
	return x.exporter.Resources[id]
}

// referenced returns the resource to which a value refers first.
func (x *template) referenced(t *testing.T, v any) *resource {
	t.Helper()
	m := referenceRE.FindStringSubmatch(x.resolveImports(render(v)))
	if m == nil || x.findResource(m[1]) == nil {
		t.Fatalf("%q refers to no resource", render(v))
	}
	return x.findResource(m[1])
}

var hashRE = regexp.MustCompile(`([A-Za-z0-9])[0-9A-F]{8}\b`)

// stripHashes removes the hashes from ids.
func stripHashes(s string) string { return hashRE.ReplaceAllString(s, "$1") }

// hasID reports whether the resource has the construct id, in any of the engines.
func (r *resource) hasID(id string) bool {
	for _, engine := range []string{"Engine", "Blue", "Green"} {
		if stripHashes(r.ID) == engine+id {
			return true
		}
	}
	return false
}

// byID returns the resource with a construct id; the first if there are two engines.
func (x *template) byID(t *testing.T, id string) *resource {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(x.Resources)) {
		if x.Resources[key].hasID(id) {
			return x.Resources[key]
		}
	}
	t.Fatalf("no resource %s", id)
	return nil
}

// environment returns a function's environment, rendered.
func (r *resource) environment() map[string]string {
	vars := map[string]string{}
	if m, ok := r.property("Environment", "Variables").(map[string]any); ok {
		for k, v := range m {
			vars[k] = render(v)
		}
	}
	return vars
}

// statement is a statement of a policy.
type statement struct {
	sid, effect        string
	actions, resources []string
	principal          string
	condition          any
}

func statements(document any) []statement {
	var found []statement
	for _, raw := range asList(propertyOf(document, "Statement")) {
		s := statement{
			sid: render(propertyOf(raw, "Sid")), effect: render(propertyOf(raw, "Effect")),
			principal: render(propertyOf(raw, "Principal")), condition: propertyOf(raw, "Condition"),
		}
		for _, a := range asList(propertyOf(raw, "Action")) {
			s.actions = append(s.actions, render(a))
		}
		for _, r := range asList(propertyOf(raw, "Resource")) {
			s.resources = append(s.resources, render(r))
		}
		found = append(found, s)
	}
	return found
}

// statementsOf returns the statements of all policies of a role.
func (x *template) statementsOf(t *testing.T, role *resource) []statement {
	t.Helper()
	var found []statement
	for _, p := range asList(role.property("Policies")) {
		found = append(found, statements(propertyOf(p, "PolicyDocument"))...)
	}
	for _, p := range x.byType(t, "AWS::IAM::Policy") {
		for _, r := range asList(p.property("Roles")) {
			if x.referenced(t, r) == role {
				found = append(found, statements(p.property("PolicyDocument"))...)
			}
		}
	}
	return found
}

// output returns the value of the engine's output with an id.
func (x *template) output(id string) string {
	for key, output := range x.Outputs {
		if strings.TrimPrefix(stripHashes(key), "Engine") == id {
			return render(output.Value)
		}
	}
	return ""
}
