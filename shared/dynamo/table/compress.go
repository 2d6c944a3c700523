package table

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"io"
	"sync"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Compressor compresses small documents of a known kind. The first byte of what it
// writes names the form: 0 for bytes as they are, otherwise the dictionary. A
// dictionary that has been used once must never change; a better one gets the
// next number, and what the old one wrote stays readable.
type Compressor struct {
	current byte            // the form that is written
	dicts   map[byte][]byte // the forms that are read
	writers sync.Pool       // of *flate.Writer with the dictionary of now
}

// NewCompressor makes a codec that writes the form now and reads all of dicts.
func NewCompressor(current byte, dicts map[byte][]byte) *Compressor {
	c := &Compressor{current: current, dicts: dicts}
	c.writers.New = func() any {
		w, err := flate.NewWriterDict(nil, flate.BestCompression, dicts[current])
		if err != nil {
			panic(err) // the level is a constant
		}
		return w
	}
	return c
}

// Deflate is the codec without a dictionary, for what is large or not ours.
var Deflate = NewCompressor(1, map[byte][]byte{1: nil})

// Compress compresses, if that makes it smaller.
func (c *Compressor) Compress(plain []byte) []byte {
	var b bytes.Buffer
	b.WriteByte(c.current)
	w := c.writers.Get().(*flate.Writer)
	w.Reset(&b)
	// A bytes.Buffer takes everything, so the writer cannot fail.
	_, _ = w.Write(plain)
	_ = w.Close()
	c.writers.Put(w)
	if b.Len() > len(plain) {
		return append([]byte{0}, plain...)
	}
	return b.Bytes()
}

// Decompress is the opposite of Pack. A form that is not known comes from a newer
// version.
func (c *Compressor) Decompress(packed []byte) ([]byte, error) {
	if len(packed) == 0 {
		return nil, nil
	}
	form, compressed := packed[0], packed[1:]
	if form == 0 {
		return compressed, nil
	}
	dict, known := c.dicts[form]
	if !known {
		return nil, NewerVersionError()
	}
	plain, err := io.ReadAll(flate.NewReaderDict(bytes.NewReader(compressed), dict))
	if err != nil {
		return nil, &workflow.Error{Code: workflow.CodeInternal, Message: "a stored document is damaged", Cause: err}
	}
	return plain, nil
}

// DecodeStrict decodes a stored document. A field that this version does not know was
// written by a newer one: to go on would lose it at the next write.
func DecodeStrict(plain []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(plain))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return &workflow.Error{
			Code:    workflow.CodeUnavailable,
			Message: "the item was written by a newer version of the engine, or is damaged",
			Cause:   err,
		}
	}
	return nil
}

// EncodeError is the error of a value that cannot be written as a document.
func EncodeError(err error) error {
	return &workflow.Error{Code: workflow.CodeInternal, Message: "a document cannot be stored", Cause: err}
}
