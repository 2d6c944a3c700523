package wire

import (
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
)

// BodySum is the MD5 of a body; the SDK refuses a reply whose sum is another.
func BodySum(body string) string {
	sum := md5.Sum([]byte(body))
	return hex.EncodeToString(sum[:])
}

// AttributesSum is the MD5 of attributes in the service's canonical form: in
// the order of their names, each as name, type, one byte for the kind of value
// (1 text, 2 binary) and value, with lengths of four bytes, big endian. It is
// "" where there are no attributes.
func AttributesSum(attributes map[string]Attribute) string {
	if len(attributes) == 0 {
		return ""
	}
	names := make([]string, 0, len(attributes))
	for name := range attributes {
		names = append(names, name)
	}
	slices.Sort(names)
	var form []byte
	field := func(value string) {
		form = binary.BigEndian.AppendUint32(form, uint32(len(value)))
		form = append(form, value...)
	}
	for _, name := range names {
		a := attributes[name]
		field(name)
		field(a.DataType)
		if a.Binary() {
			form = append(form, 2)
			field(string(a.BinaryValue))
		} else {
			form = append(form, 1)
			field(*a.StringValue)
		}
	}
	sum := md5.Sum(form)
	return hex.EncodeToString(sum[:])
}

// Binary tells whether the value is bytes rather than text.
func (a Attribute) Binary() bool {
	return a.DataType == "Binary" || strings.HasPrefix(a.DataType, "Binary.")
}

// Size is what the attribute adds to the size of its message, name included.
func (a Attribute) Size(name string) int {
	size := len(name) + len(a.DataType) + len(a.BinaryValue)
	if a.StringValue != nil {
		size += len(*a.StringValue)
	}
	return size
}
