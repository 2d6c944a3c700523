package sqs

import (
	"crypto/md5"
	"encoding/hex"
	"testing"
)

func stringPointer(s string) *string { return &s }

func md5Hex(form string) string {
	sum := md5.Sum([]byte(form))
	return hex.EncodeToString(sum[:])
}

// The expected canonical form is spelled out byte by byte.
func TestAttributesMD5_UsesCanonicalForm(t *testing.T) {
	got := attributesMD5(map[string]messageAttribute{
		"b":  {DataType: "Binary.gif", BinaryValue: []byte{0, 255}},
		"a1": {DataType: "Number", StringValue: stringPointer("7")},
		"a":  {DataType: "String", StringValue: stringPointer("é")},
	})
	want := md5Hex("\x00\x00\x00\x01a" + "\x00\x00\x00\x06String" + "\x01" + "\x00\x00\x00\x02\xc3\xa9" +
		"\x00\x00\x00\x02a1" + "\x00\x00\x00\x06Number" + "\x01" + "\x00\x00\x00\x017" +
		"\x00\x00\x00\x01b" + "\x00\x00\x00\x0aBinary.gif" + "\x02" + "\x00\x00\x00\x02\x00\xff")
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := attributesMD5(nil); got != "" {
		t.Errorf("sum of no attributes: %q", got)
	}
}

func TestBodyMD5_MatchesKnownSum(t *testing.T) {
	if got := bodyMD5("hello"); got != "5d41402abc4b2a76b9719d911017c592" {
		t.Errorf("got %s", got)
	}
}
