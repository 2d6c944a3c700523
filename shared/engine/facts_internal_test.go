package engine

import (
	"reflect"
	"slices"
	"testing"
)

// After a commit, or where somebody else has committed, nothing is known any more but what no
// commit changes.
func TestClearStaleFacts_LeavesWhatLasts(t *testing.T) {
	lasting := []string{
		"FromParent", "Observed", "Command", // of the wake-up, not of the execution
		"UpdatesApplied", "Resolution", // for good
		"Plans", "Routes", "Joins", "Output", // by the need they answer; those for a commit that was lost are dropped by restart
	}
	w := &workspace{}
	facts := reflect.ValueOf(&w.facts).Elem()
	for i := range facts.NumField() {
		f := facts.Field(i)
		switch f.Kind() {
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.Map:
			f.Set(reflect.MakeMap(f.Type()))
		case reflect.Bool:
			f.SetBool(true)
		default:
			t.Fatalf("a fact of kind %s", f.Kind())
		}
	}
	w.clearStaleFacts()
	for i := range facts.NumField() {
		name := facts.Type().Field(i).Name
		if kept := !facts.Field(i).IsZero(); kept != slices.Contains(lasting, name) {
			t.Errorf("%s is known: %v", name, kept)
		}
	}
}
