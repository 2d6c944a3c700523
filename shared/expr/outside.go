package expr

import (
	"encoding/json"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/lockstep-run/lockstep/shared/expr/values"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// The languages of expressions that do not stand in a step. Each knows only what
// is there when it is evaluated, so that reading anything else is told when the
// definition is published.
var (
	queries = sync.OnceValues(func() (*Language, error) {
		l, err := language(nil, []string{"entity"})
		if err == nil {
			l.cost = queryCost
		}
		return l, err
	})
	inputs   = sync.OnceValues(func() (*Language, error) { return language(nil, []string{"parameters"}) })
	expands  = sync.OnceValues(func() (*Language, error) { return language(nil, []string{"parameters", "entity"}) })
	failures = sync.OnceValues(func() (*Language, error) {
		return language(nil, []string{"error"}, cel.Variable("attempt", cel.IntType))
	})
	starts = sync.OnceValues(func() (*Language, error) {
		return language(nil, []string{"parameters"}, cel.Variable("now", cel.TimestampType), cel.Function(inventory,
			cel.Overload("entity_type_id", []*cel.Type{cel.StringType, cel.StringType}, cel.DynType, cel.LateFunctionBinding())))
	})
)

// ForInput is the language over parameters alone.
func ForInput() (*Language, error) { return inputs() }

// ForExpand is the language over parameters and one entity of the scope.
func ForExpand() (*Language, error) { return expands() }

// ForFailure is the language over error and attempt, which are [Scope.Given].
func ForFailure() (*Language, error) { return failures() }

// ForStart is the language over parameters and now, which is [Scope.Given], and
// the function entity(type, id), which is [Scope.Inventory].
func ForStart() (*Language, error) { return starts() }

// inventory is the function that reads the inventory.
const inventory = "entity"

// maxLookups bounds how often one evaluation reads the inventory.
const maxLookups = 100

// ResolveFunction is the function that reads the inventory. The same entity is
// the same throughout one evaluation.
func (a *activation) ResolveFunction(name string) (functions.LateBoundOp, bool) {
	if name != inventory || a.Inventory == nil {
		return nil, false
	}
	return func(_ string, args ...ref.Val) ref.Val {
		kind, isText := args[0].(types.String)
		id, both := args[1].(types.String)
		if !isText || !both {
			return types.NewErr("entity(type, id) takes two texts")
		}
		key := string(kind) + "/" + string(id)
		if known, ok := a.looked[key]; ok {
			return known
		}
		if len(a.looked) >= maxLookups {
			return types.NewErr("an expression looks at %d entities at most", maxLookups)
		}
		if a.looked == nil {
			a.looked = map[string]ref.Val{}
		}
		a.looked[key] = a.look(string(kind), string(id), key)
		return a.looked[key]
	}, true
}

func (a *activation) look(kind, id, key string) ref.Val {
	attributes, ok := a.Inventory(kind, id)
	if !ok {
		return types.NewErr("the inventory has no entity %s", key)
	}
	e := Entity{Type: kind, ID: id, Attributes: attributes}
	return values.Adapt(e.value())
}

// Plain is an expression as it stands: where a whole text is one ${...} token,
// what is in it, and otherwise the text.
func Plain(text string) (source string, token bool) {
	parts, ok := split(strings.TrimSpace(text))
	if ok && len(parts) == 1 && parts[0].token {
		return parts[0].text, true
	}
	return text, false
}

// Input is a scope of nothing but parameters.
func Input(parameters json.RawMessage) Scope {
	return Scope{Context: NewContext(parameters, nil, nil, nil)}
}

// OfFailure is a scope of the failure of a job's attempt, for [ForFailure].
func OfFailure(attempt int, f *workflow.Failure) Scope {
	failure := map[string]any{}
	if f != nil {
		failure = map[string]any{
			"code": f.Code, "message": f.Message, "retryable": f.Retryable,
			"details": values.Decode(f.Details, map[string]any{}),
		}
	}
	return Scope{Given: map[string]any{"error": shared(failure), "attempt": int64(attempt)}}
}
