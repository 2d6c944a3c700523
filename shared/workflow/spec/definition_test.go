package spec

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Every field of a step that programs of schema 1 do not read makes the definition need more.
func TestDefinition_SchemaKnowsEveryField(t *testing.T) {
	const first = " Label FunctionBlock Workflow Reference RunOn Acquire AssertNotEmpty Condition Assert Parameters RawParameters" +
		" Delay FailureTolerance Retry Repeat ContinueOnError Timeout StepTimeout "
	fields := reflect.TypeFor[Step]()
	for i := range fields.NumField() {
		var s Step
		name, value := fields.Field(i).Name, reflect.ValueOf(&s).Elem().Field(i)
		switch value.Interface().(type) {
		case json.RawMessage:
			value.SetBytes([]byte("{}"))
		case string:
			value.SetString("x")
		case bool:
			value.SetBool(true)
		case workflow.Rate:
			value.Set(reflect.ValueOf(workflow.Rate{Count: 1, Per: time.Minute}))
		default:
			switch value.Kind() {
			case reflect.Pointer:
				value.Set(reflect.New(value.Type().Elem()))
			case reflect.Slice:
				value.Set(reflect.MakeSlice(value.Type(), 1, 1))
			default:
				value.SetInt(1)
			}
		}
		want := 2
		if strings.Contains(first, " "+name+" ") {
			want = 1
		}
		if d := (&Definition{Steps: []Step{{Workflow: &EmbeddedWorkflow{Steps: []Step{s}}}}}); d.Schema() != want {
			t.Errorf("a step with %s needs schema %d, want %d", name, d.Schema(), want)
		}
	}
}
