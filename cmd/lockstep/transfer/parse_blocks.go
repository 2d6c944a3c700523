package transfer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// ParseBlocks reads one block or a list of them, and checks them all; unknown fields
// are refused.
func ParseBlocks(source []byte) ([]workflow.Block, error) {
	source = bytes.TrimSpace(source)
	if len(source) > 0 && source[0] != '[' {
		source = append(append([]byte("["), source...), ']')
	}
	var blocks []workflow.Block
	d := json.NewDecoder(bytes.NewReader(source))
	d.DisallowUnknownFields()
	err := d.Decode(&blocks)
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind):
		return nil, fmt.Errorf("%s cannot be a %s", cmp.Or(kind.Field, "a block"), kind.Value)
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("it is not JSON: %w, at byte %d", err, syntax.Offset)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("it is not JSON: it ends too early")
	case err != nil:
		return nil, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	case len(blocks) == 0:
		return nil, errors.New("it holds no block")
	}
	for i := range blocks {
		blocks[i].Pool = cmp.Or(blocks[i].Pool, "default")
		if err := definition.ValidateBlock(&blocks[i]); err != nil {
			return nil, err
		}
	}
	return blocks, nil
}
