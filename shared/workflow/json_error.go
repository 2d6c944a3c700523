package workflow

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
)

// JSONError says in the words of JSON why a text cannot be decoded, with the place if it is known:
// the errors of encoding/json name Go types. It wraps the error.
func JSONError(err error) error {
	if err == nil {
		return nil
	}
	return &jsonError{jsonProblem(err), err}
}

type jsonError struct {
	text  string
	cause error
}

func (e *jsonError) Error() string { return e.text }

func (e *jsonError) Unwrap() error { return e.cause }

func jsonProblem(err error) string {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	var notTime *time.ParseError
	switch {
	case errors.As(err, &kind):
		text := fmt.Sprintf("want %s, not %s", jsonType(kind.Type), jsonValue(kind.Value))
		if kind.Field != "" {
			text = kind.Field + ": " + text
		}
		return text
	case errors.As(err, &notTime):
		return "want a time such as 2030-01-31T08:00:00Z, not " + strings.Trim(notTime.Value, `"`)
	case strings.HasPrefix(err.Error(), "Time.UnmarshalJSON"):
		return "want a time such as 2030-01-31T08:00:00Z, and as a string"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it is not JSON: it ends too early"
	case errors.As(err, &syntax):
		return fmt.Sprintf("it is not JSON: %v, at byte %d", err, syntax.Offset)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

var textType = reflect.TypeFor[encoding.TextUnmarshaler]()

// jsonType returns what JSON has to hold for a Go type.
func jsonType(t reflect.Type) string {
	if t == nil {
		return "another value"
	}
	if t == reflect.TypeFor[time.Time]() {
		return "a time"
	}
	if t.Implements(textType) || reflect.PointerTo(t).Implements(textType) {
		return "a string"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "another value"
}

// jsonValue returns, with its article, what encoding/json calls the kind of a value.
func jsonValue(kind string) string {
	switch {
	case kind == "array":
		return "a list"
	case kind == "bool":
		return "true or false"
	case kind == "object":
		return "an object"
	case strings.HasPrefix(kind, "number "):
		return strings.TrimPrefix(kind, "number ")
	}
	return "a " + kind
}
