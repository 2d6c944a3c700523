package oracle

import (
	"fmt"
	"maps"
	"strings"

	"github.com/lockstep-run/lockstep/tests/sim/defgen"
)

// data evaluates a value as a definition writes it; told is false if it has no value.
func (r *FlowRun) data(d *defgen.FlowData) (value any, told bool) {
	switch d.Kind {
	case defgen.DataLiteral:
		return decode([]byte(d.Text)), true
	case defgen.DataNumber:
		return r.value(d.Value), true
	case defgen.DataText:
		return fmt.Sprint(d.Text, r.value(d.Value), "!"), true
	case defgen.DataWhole:
		return r.whole(d.Text)
	case defgen.DataCELList:
		return []any{r.value(d.Value), int64(1)}, true
	case defgen.DataCELMap:
		return map[string]any{"k0": r.value(d.Value), "k1": []any{true}}, true
	case defgen.DataList:
		list := []any{}
		for i := range d.Of {
			if value, told = r.data(&d.Of[i]); !told {
				return nil, false
			}
			list = append(list, value)
		}
		return list, true
	}
	return r.object(d.Of)
}

// object evaluates an object with the names k0, k1 and so on.
func (r *FlowRun) object(of []defgen.FlowData) (value map[string]any, told bool) {
	value = map[string]any{}
	for i := range of {
		one, told := r.data(&of[i])
		if !told {
			return nil, false
		}
		value[fmt.Sprintf("k%d", i)] = one
	}
	return value, true
}

// whole returns the variable at a path, null if it is not set. Only a list cannot be asked whether it
// has a name.
func (r *FlowRun) whole(path string) (value any, told bool) {
	var at any = r.Vars
	for _, name := range strings.Split(path, ".") {
		if _, list := at.([]any); list {
			return nil, false
		}
		object, _ := at.(map[string]any)
		if at, told = object[name]; !told {
			return nil, true
		}
	}
	return at, true
}

// set executes a step that sets variables: all values are evaluated before any is set.
func (r *FlowRun) set(s *defgen.FlowStep) flowEnd {
	r.enter(s.Label)
	values := map[string]any{}
	for _, set := range s.Set {
		if set.Data == nil {
			values[set.Path] = r.value(set.Value)
			continue
		}
		value, told := r.data(set.Data)
		if !told {
			return flowEnd{failed: failureIn(s.Label, "PARAMETERS")}
		}
		values[set.Path] = value
	}
	for path := range maps.Keys(values) {
		r.write(path, values[path])
	}
	r.completed[s.Label] = true
	return flowEnd{}
}
