package sqs

import (
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
)

// bodyMD5 is the MD5 of a body; the SDK refuses a reply whose sum is another.
func bodyMD5(body string) string {
	sum := md5.Sum([]byte(body))
	return hex.EncodeToString(sum[:])
}

// attributesMD5 is the MD5 of attributes in the service's canonical form: in
// the order of their names, each as name, type, one byte for the kind of value
// (1 text, 2 binary) and value, with lengths of four bytes, big endian. It is
// "" where there are no attributes.
func attributesMD5(attributes map[string]messageAttribute) string {
	if len(attributes) == 0 {
		return ""
	}
	names := make([]string, 0, len(attributes))
	for name := range attributes {
		names = append(names, name)
	}
	slices.Sort(names)
	var canonical []byte
	field := func(value string) {
		canonical = binary.BigEndian.AppendUint32(canonical, uint32(len(value)))
		canonical = append(canonical, value...)
	}
	for _, name := range names {
		a := attributes[name]
		field(name)
		field(a.DataType)
		if a.isBinary() {
			canonical = append(canonical, 2)
			field(string(a.BinaryValue))
		} else {
			canonical = append(canonical, 1)
			field(*a.StringValue)
		}
	}
	sum := md5.Sum(canonical)
	return hex.EncodeToString(sum[:])
}

// isBinary tells whether the value is bytes rather than text.
func (a messageAttribute) isBinary() bool {
	return a.DataType == "Binary" || strings.HasPrefix(a.DataType, "Binary.")
}

// size is what the attribute adds to the size of its message, name included.
func (a messageAttribute) size(name string) int {
	size := len(name) + len(a.DataType) + len(a.BinaryValue)
	if a.StringValue != nil {
		size += len(*a.StringValue)
	}
	return size
}
