package workflow

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"io"
)

// Waves is how a rollout divides the entities of its execution: which waves there are, and which
// wave each entity is in. It is made once, when the rollout is entered, and is the list of its step
// run.
type Waves struct {
	List []Wave `json:"waves"`

	// Of has a byte for each place, starting with place 1: the number of the wave, from 1; 0 for an
	// entity in none. It is compressed.
	Of []byte `json:"of,omitempty"`
}

// Wave is one wave: what its entities have in common, or the share that it completes, and its
// number of entities.
type Wave struct {
	Name     string `json:"name"`
	Entities int    `json:"entities"`
}

// Encode returns the waves as JSON. numbers has the wave of each place, starting with place 1.
func (w *Waves) Encode(numbers []byte) (json.RawMessage, error) {
	var b bytes.Buffer
	c, err := flate.NewWriter(&b, flate.BestCompression)
	if err == nil {
		_, err = c.Write(numbers)
	}
	if err == nil {
		err = c.Close()
	}
	if err != nil {
		return nil, Errorf(CodeInternal, "compress the waves of a rollout: %w", err)
	}
	w.Of = b.Bytes()
	return EncodeJSON(w)
}

// Numbers returns the wave of each place, starting with place 1.
func (w *Waves) Numbers() ([]byte, error) {
	numbers, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(w.Of)), MaxPlace))
	if err != nil {
		return nil, Errorf(CodeInternal, "the waves of a rollout cannot be read: %w", err)
	}
	return numbers, nil
}
