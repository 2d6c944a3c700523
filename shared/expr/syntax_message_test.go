package expr_test

import (
	"errors"
	"testing"

	"github.com/lockstep-run/lockstep/shared/expr"
)

// What does not parse is told by its place and by what is unexpected there, not
// by everything that the grammar would have taken.
func TestPlainMessage_NamesUnexpectedToken(t *testing.T) {
	for source, want := range map[string]struct {
		column  int
		message string
	}{
		"a ==":      {5, "unexpected end of the expression"},
		"a b":       {3, "unexpected 'b'"},
		"(a":        {3, "')' is missing at the end of the expression"},
		"a && && b": {6, "unexpected '&&'"},
		"a = b":     {3, "unexpected '='; equal is =="},
		"a == 'b":   {6, "unexpected ''b'"},
	} {
		_, err := expr.Compile([]string{"a", "b"}, source)
		var e *expr.Error
		if !errors.As(err, &e) || e.Message != want.message || e.Line != 1 || e.Column != want.column {
			t.Errorf("%s: %d:%d %v, want column %d and %q", source, e.Line, e.Column, err, want.column, want.message)
		}
	}
}
