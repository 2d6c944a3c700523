package program

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// decodeSelector decodes a filled executeOnParameters. Expressions may give anything, so it checks
// what the API checks of the selector of a start.
func decodeSelector(raw json.RawMessage) (*workflow.Selector, error) {
	s := new(workflow.Selector)
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if d.Decode(s) != nil {
		return nil, errors.New("want {type, ids, groups, query}, where ids and groups are lists of texts, and the others are texts")
	}
	if s.Unspecified() {
		return nil, errors.New(workflow.UnspecifiedSelectorHint)
	}
	for i, id := range s.IDs {
		if !workflow.ValidID(id) {
			return nil, fmt.Errorf("ids[%d] is not an id: %q", i, id)
		}
	}
	return s, nil
}
