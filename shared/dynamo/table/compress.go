package table

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"io"
	"sync"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Compressor compresses small documents of a known kind. The first byte of its
// output is the format: 0 for uncompressed bytes, otherwise the number of the
// dictionary. A released dictionary must never change; a better one gets the next
// number, and documents written with the old one stay readable.
type Compressor struct {
	current byte            // the format to write
	dicts   map[byte][]byte // the formats that can be read
	writers sync.Pool       // of *flate.Writer with the current dictionary
}

// NewCompressor makes a compressor that writes the format current and reads all of
// dicts.
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

// Deflate compresses without a dictionary, for large documents and those of users.
var Deflate = NewCompressor(1, map[byte][]byte{1: nil})

// Compress compresses plain if that makes it smaller.
func (c *Compressor) Compress(plain []byte) []byte {
	var b bytes.Buffer
	b.WriteByte(c.current)
	w := c.writers.Get().(*flate.Writer)
	w.Reset(&b)
	// Writing to a bytes.Buffer cannot fail.
	_, _ = w.Write(plain)
	_ = w.Close()
	c.writers.Put(w)
	if b.Len() > len(plain) {
		return append([]byte{0}, plain...)
	}
	return b.Bytes()
}

// Decompress is the inverse of [Compressor.Compress]. An unknown format was written
// by a newer version.
func (c *Compressor) Decompress(packed []byte) ([]byte, error) {
	if len(packed) == 0 {
		return nil, nil
	}
	format, compressed := packed[0], packed[1:]
	if format == 0 {
		return compressed, nil
	}
	dict, known := c.dicts[format]
	if !known {
		return nil, NewerVersionError()
	}
	plain, err := io.ReadAll(flate.NewReaderDict(bytes.NewReader(compressed), dict))
	if err != nil {
		return nil, &workflow.Error{Code: workflow.CodeInternal, Message: "a stored document is damaged", Cause: err}
	}
	return plain, nil
}

// DecodeStrict decodes a stored document. It refuses fields that this version does
// not know: a newer version wrote them, and the next write would lose them.
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

// EncodeError returns the error about a value that cannot be encoded as a document.
func EncodeError(err error) error {
	return &workflow.Error{Code: workflow.CodeInternal, Message: "a document cannot be stored", Cause: err}
}
