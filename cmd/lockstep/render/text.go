package render

import (
	"bytes"
	"errors"
)

// Text returns the text of a file or a program without the byte order mark that programs of Windows write in front
// of it. A text in UTF-16 is refused: each line of it would be a mistake of its own.
func Text(raw []byte) ([]byte, error) {
	if bytes.HasPrefix(raw, []byte("\xff\xfe")) || bytes.HasPrefix(raw, []byte("\xfe\xff")) {
		return nil, errors.New("it is in UTF-16: save it as UTF-8")
	}
	return bytes.TrimPrefix(raw, []byte("\ufeff")), nil
}
