package openapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// report turns violations of the document's schemas into issues.
var report = schema.Report{Describe: describe, Refused: refusedName, Near: nearField, Join: memberPath, Causes: relevantCauses}

// refusedName says what the names of an object are whose fields the caller names.
func refusedName(schemaURL string) string {
	switch {
	case strings.HasSuffix(schemaURL, "/schemas/Labels"):
		return "the name of a label is 1 to 64 characters, none of them = or :"
	case strings.HasSuffix(schemaURL, "/properties/headers"):
		return "the name of a header is 1 to 128 letters, digits and ! # $ % & ' * + . ^ _ ` | ~ -"
	}
	return ""
}

// nearField names the field that is probably meant, if the object has one with a similar name.
func nearField(schemaURL, name string) string {
	const longest = 64 // no field is longer, and comparing takes time
	_, pointer, found := strings.Cut(schemaURL, "#")
	if !found || len(name) > longest {
		return ""
	}
	properties := asObject(asObject(Load().resolvePointer(pointer))["properties"])
	return workflow.DidYouMean(name, slices.Sorted(maps.Keys(properties)))
}

// memberPath returns the path of a member of the object at a path.
func memberPath(at, name string) string {
	if at == "" {
		return truncate(name)
	}
	return at + "." + truncate(name)
}

// truncate bounds how much of a client's input is repeated in a response.
func truncate(s string) string {
	if len(s) <= 200 {
		return s
	}
	return strings.ToValidUTF8(s[:200], "") + "..."
}

// relevantCauses drops, for a schema of the form "this or null", the violation that the
// value is not null.
func relevantCauses(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if _, ok := e.ErrorKind.(*kind.OneOf); !ok {
		return e.Causes
	}
	relevant := slices.DeleteFunc(slices.Clone(e.Causes), func(c *jsonschema.ValidationError) bool {
		t, ok := c.ErrorKind.(*kind.Type)
		return ok && len(t.Want) == 1 && t.Want[0] == "null"
	})
	if len(relevant) == 0 {
		return e.Causes
	}
	return relevant
}

// describe returns a code and a message for a violation.
func describe(k jsonschema.ErrorKind) (code, text string) {
	switch k := k.(type) {
	case *kind.AdditionalProperties:
		return "unknown_field", "unknown field"
	case *kind.Required:
		return "required", "the field is required"
	case *kind.Type:
		return "type", fmt.Sprintf("want %s, got %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Enum:
		var want []string
		for _, v := range k.Want {
			want = append(want, fmt.Sprint(v))
		}
		return "enum", "want one of " + strings.Join(want, ", ")
	case *kind.Pattern:
		return "pattern", fmt.Sprintf("%q is not %s", truncate(k.Got), describePattern(k.Want))
	case *kind.Format:
		return "format", fmt.Sprintf("%q is not a %s", truncate(fmt.Sprint(k.Got)), k.Want)
	case *kind.MinLength:
		return "too_short", fmt.Sprintf("want at least %d characters, got %d", k.Want, k.Got)
	case *kind.MaxLength:
		return "too_long", fmt.Sprintf("want at most %d characters, got %d", k.Want, k.Got)
	case *kind.MaxItems:
		return "too_many", fmt.Sprintf("want at most %d, got %d", k.Want, k.Got)
	case *kind.MinItems:
		return "too_few", fmt.Sprintf("want at least %d, got %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return "too_many", fmt.Sprintf("want at most %d, got %d", k.Want, k.Got)
	case *kind.Minimum:
		return "range", "want at least " + k.Want.RatString()
	case *kind.Maximum:
		return "range", "want at most " + k.Want.RatString()
	}
	return "schema", truncate(k.LocalizedString(message.NewPrinter(language.English)))
}

// patternDescriptions are the document's patterns in words.
var patternDescriptions = map[string]string{
	"^[1-9][0-9]{0,5}[smh]$": "a duration such as 90s, 30m or 48h",
	"^(1?[0-9]|20)s$":        "a number of seconds, from 0s to 20s",
	`^arn:[a-z-]+:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}$`:              "the ARN of a topic of SNS",
	`^([a-z]+(\.[a-z_]+)?|[a-z]+\.([a-z_]+)?\*|\*)$`:                           "the type of an event such as execution.settled, or the beginning of types such as execution.*",
	`^(lifecycle|events|hooks-out|hooks-in|jobs-[A-Za-z][A-Za-z0-9_-]{0,63})$`: "the name of a queue: lifecycle, events, hooks-out, hooks-in, or jobs- and the name of a pool",
	`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`:                                          "the name of a signal: a letter or _, then letters, digits, _ . and -, at most 64",

	`^[A-Za-z_][A-Za-z0-9_]{0,63}$`: "the name of a column: a letter or _, then letters, digits and _, at most 64",

	`^[!-~]+$`: "visible characters without spaces",
	`^[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}/[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}$`:    "an entity, as device/sw-007",
	`^([A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}/)?[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}$`: "an entity such as device/sw-007, or an id",
	`^[^=:]{1,64}[=:].{0,256}$`:                                             "a label such as key=value",
	`^[A-Za-z][A-Za-z0-9_-]{0,63}(@[A-Za-z][A-Za-z0-9_-]{0,63})?$`:          "the name of a workflow and, of one of several schedules, @ and its name",
	`^[A-Za-z][A-Za-z0-9_-]{0,63}$`:                                         "a name: a letter, then letters, digits, - and _, at most 64",
	`^[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}$`:                                 "a type or id: up to 128 letters, digits and . _ : @ + -, no slash",
	`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`:                                    "an execution id: up to 128 letters, digits and . _ -",
	`^(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})$`:       "a version such as 1.2.3",
	`^(0|[1-9][0-9]{0,5})(\.(0|[1-9][0-9]{0,5}))?(\.(0|[1-9][0-9]{0,5}))?$`: "a version such as 1, 1.2 or 1.2.3",
	`^[A-Za-z][A-Za-z0-9_-]{0,63}/[A-Za-z][A-Za-z0-9_-]{0,63}(:(0|[1-9][0-9]{0,5})(\.(0|[1-9][0-9]{0,5}))?(\.(0|[1-9][0-9]{0,5}))?)?$`: "a reference: package/name, or with a version package/name:1, :1.2 or :1.2.3",
	`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$`: "a duration such as 90s or 12m",
	`^([A-Za-z][A-Za-z0-9_-]{0,63})?$`:              "the name of a pool",
	topology.RegionPattern:                          "the name of a region: small letters and digits, in words joined by -, such as eu or eu-central-1; the setting regions of the stage names those that its pools serve",
	`^https?://[^\s]+$`:                             "an http or https URL",
	`^[^\r\n\x00]*$`:                                "one line of text",
}

func describePattern(pattern string) string {
	if description, ok := patternDescriptions[pattern]; ok {
		return description
	}
	return "of the form " + pattern // a test fails for a pattern without a description
}
