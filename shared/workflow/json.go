package workflow

import (
	"bytes"
	"encoding/json"
)

// EncodeJSON encodes a value as JSON. Unlike json.Marshal it does not escape <, > and &, even in a
// [json.RawMessage]. Escaping would turn each of them into six bytes, so that an accepted value
// might not fit where it is stored, sent or served.
func EncodeJSON(v any) (json.RawMessage, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
