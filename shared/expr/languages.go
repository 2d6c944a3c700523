package expr

import (
	"encoding/json"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// The languages of expressions that do not stand in a step. Each knows only what
// is there when it is evaluated, so that reading anything else is told when the
// definition is published.
var (
	queryLanguage = sync.OnceValues(func() (*Language, error) {
		l, err := newLanguage(nil, []string{"entity"})
		if err == nil {
			l.costLimit = maxQueryCost
		}
		return l, err
	})
	parameterLanguage = sync.OnceValues(func() (*Language, error) { return newLanguage(nil, []string{"parameters"}) })
	expandLanguage    = sync.OnceValues(func() (*Language, error) { return newLanguage(nil, []string{"parameters", "entity"}) })
	failureLanguage   = sync.OnceValues(func() (*Language, error) {
		return newLanguage(nil, []string{"error"}, cel.Variable("attempt", cel.IntType))
	})
	startLanguage = sync.OnceValues(func() (*Language, error) {
		return newLanguage(nil, []string{"parameters"}, cel.Variable("now", cel.TimestampType), cel.Function(inventoryFunction,
			cel.Overload("entity_type_id", []*cel.Type{cel.StringType, cel.StringType}, cel.DynType, cel.LateFunctionBinding())))
	})
)

// ParameterLanguage is the language over parameters alone.
func ParameterLanguage() (*Language, error) { return parameterLanguage() }

// ExpandLanguage is the language over parameters and one entity of the scope.
func ExpandLanguage() (*Language, error) { return expandLanguage() }

// FailureLanguage is the language over error and attempt, which are [Scope.Given].
func FailureLanguage() (*Language, error) { return failureLanguage() }

// StartLanguage is the language over parameters and now, which is [Scope.Given], and
// the function entity(type, id), which is [Scope.Inventory].
func StartLanguage() (*Language, error) { return startLanguage() }

// inventoryFunction is the function that reads the inventory.
const inventoryFunction = "entity"

// maxLookups bounds how often one evaluation reads the inventory.
const maxLookups = 100

// ResolveFunction is the function that reads the inventory. The same entity is
// the same throughout one evaluation.
func (a *activation) ResolveFunction(name string) (functions.LateBoundOp, bool) {
	if name != inventoryFunction || a.LookupEntity == nil {
		return nil, false
	}
	return func(_ string, args ...ref.Val) ref.Val {
		kind, isText := args[0].(types.String)
		id, idIsText := args[1].(types.String)
		if !isText || !idIsText {
			return types.NewErr("entity(type, id) takes two texts")
		}
		key := string(kind) + "/" + string(id)
		if value, ok := a.lookups[key]; ok {
			return value
		}
		if len(a.lookups) >= maxLookups {
			return types.NewErr("an expression looks at %d entities at most", maxLookups)
		}
		if a.lookups == nil {
			a.lookups = map[string]ref.Val{}
		}
		a.lookups[key] = a.lookup(string(kind), string(id), key)
		return a.lookups[key]
	}, true
}

func (a *activation) lookup(kind, id, key string) ref.Val {
	attributes, ok := a.LookupEntity(kind, id)
	if !ok {
		return types.NewErr("the inventory has no entity %s", key)
	}
	e := Entity{Type: kind, ID: id, Attributes: attributes}
	return adaptValue(e.attributesWithIdentity())
}

// UnwrapToken is an expression as it stands: where a whole text is one ${...} token,
// what is in it, and otherwise the text.
func UnwrapToken(text string) (source string, token bool) {
	parts, ok := split(strings.TrimSpace(text))
	if ok && len(parts) == 1 && parts[0].token {
		return parts[0].text, true
	}
	return text, false
}

// ParameterScope is a scope of nothing but parameters.
func ParameterScope(parameters json.RawMessage) Scope {
	return Scope{Context: NewStepContext(parameters, nil, nil, nil)}
}

// FailureScope is a scope of the failure of a job's attempt, for [FailureLanguage].
func FailureScope(attempt int, f *workflow.Failure) Scope {
	failure := map[string]any{}
	if f != nil {
		failure = map[string]any{
			"code": f.Code, "message": f.Message, "retryable": f.Retryable,
			"details": decodeJSON(f.Details, map[string]any{}),
		}
	}
	return Scope{Variables: map[string]any{"error": adapted(failure), "attempt": int64(attempt)}}
}
