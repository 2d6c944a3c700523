package catalog

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// typeOf returns the type that a schema gives a field of a field ...; "" if it says none, or several.
func typeOf(raw json.RawMessage, fields string) string {
	for _, name := range strings.Split(fields, ".")[1:] {
		var o objectSchema
		if json.Unmarshal(raw, &o) != nil {
			return ""
		}
		raw = o.Properties[name]
	}
	var s struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s.Type
}

// objectSchema holds the keywords of a schema that decide which fields an object may have.
type objectSchema struct {
	Properties           map[string]json.RawMessage `json:"properties"`
	AdditionalProperties json.RawMessage            `json:"additionalProperties"`
	UnevaluatedProps     json.RawMessage            `json:"unevaluatedProperties"`
	PatternProperties    json.RawMessage            `json:"patternProperties"`
	Ref                  json.RawMessage            `json:"$ref"`
	DynamicRef           json.RawMessage            `json:"$dynamicRef"`
	AllOf                json.RawMessage            `json:"allOf"`
	AnyOf                json.RawMessage            `json:"anyOf"`
	OneOf                json.RawMessage            `json:"oneOf"`
	If                   json.RawMessage            `json:"if"`
	DependentSchemas     json.RawMessage            `json:"dependentSchemas"`
}

// allowsUnknown reports whether an object may have fields other than Properties, or whether that is
// unclear.
func (o *objectSchema) allowsUnknown() bool {
	for _, other := range []json.RawMessage{o.PatternProperties, o.Ref, o.DynamicRef, o.AllOf, o.AnyOf, o.OneOf, o.If, o.DependentSchemas} {
		if other != nil {
			return true
		}
	}
	more := o.others()
	return more != "" && more != "false"
}

// others returns the schema of fields that nothing else names, as it is written; "" if there is none.
func (o *objectSchema) others() string {
	return cmp.Or(string(o.AdditionalProperties), string(o.UnevaluatedProps))
}

// unknownField returns the first of the nested fields in read that a schema does not declare, with a
// suggestion; "" if it declares them all. A schema as a whole declares only what it names, unless it
// says something of other fields. A field of it that names none may have any.
func unknownField(raw json.RawMessage, read []string) (name, suggestion string) {
	for depth, name := range read {
		var o objectSchema
		if json.Unmarshal(raw, &o) != nil || o.allowsUnknown() || depth > 0 && len(o.Properties) == 0 && o.others() == "" {
			return "", ""
		}
		property, ok := o.Properties[name]
		if !ok {
			return name, workflow.DidYouMean(name, slices.Sorted(maps.Keys(o.Properties)))
		}
		raw = property
	}
	return "", ""
}
