package token

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Keys are the keys that tokens are made with. New tokens use the current key, and tokens of all
// keys are accepted. To change the key, add another and make it the current one; remove the old one
// when none of its tokens is needed any more. The zero value accepts nothing.
type Keys struct{ get func() *keySet } // a function, so that nothing prints them

type keySet struct {
	current string
	keys    map[string][]byte
}

// The bounds of a set of keys.
const (
	MinKeyBytes = 32
	MaxKeys     = 8
)

var keyIDPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// ParseKeys reads keys as they are configured: {"current": id, "keys": {id: base64}}. An error is
// CodeInvalid, and shows no part of a key.
func ParseKeys(doc []byte) (Keys, error) {
	var in struct {
		Current string            `json:"current"`
		Keys    map[string]string `json:"keys"`
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return Keys{}, invalid("", "json", `want {"current": id, "keys": {id: base64}}`)
	}
	if _, err := d.Token(); err != io.EOF { //nolint:errorlint // documented
		return Keys{}, invalid("", "json", "want one value")
	}
	if len(in.Keys) == 0 || len(in.Keys) > MaxKeys {
		return Keys{}, invalid("keys", "limit", fmt.Sprintf("want 1 to %d keys", MaxKeys))
	}
	set := &keySet{current: in.Current, keys: map[string][]byte{}}
	for _, id := range slices.Sorted(maps.Keys(in.Keys)) {
		if !keyIDPattern.MatchString(id) {
			return Keys{}, invalid("keys", "pattern", "want ids of 1 to 32 letters, digits, _ or -")
		}
		key, err := base64.StdEncoding.DecodeString(in.Keys[id])
		if err != nil {
			return Keys{}, invalid("keys."+id, "base64", "want base64 with padding")
		}
		if len(key) < MinKeyBytes {
			return Keys{}, invalid("keys."+id, "range", fmt.Sprintf("want at least %d bytes, have %d: openssl rand -base64 32", MinKeyBytes, len(key)))
		}
		for other, known := range set.keys {
			if bytes.Equal(key, known) {
				return Keys{}, invalid("keys."+id, "duplicate", "it is the same key as "+other)
			}
		}
		set.keys[id] = key
	}
	if set.keys[set.current] == nil {
		return Keys{}, invalid("current", "unknown", "want the id of one of the keys")
	}
	return Keys{func() *keySet { return set }}, nil
}

// Set reports whether there are keys.
func (k Keys) Set() bool { return k.get != nil }

func invalid(path, code, message string) error {
	return workflow.Invalid("the keys of resume tokens are not valid", []workflow.Issue{{Path: path, Code: code, Message: message}})
}
