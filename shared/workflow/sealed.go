package workflow

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// A sealed value is a parameter of an execution that nobody reads but the block for which it is: its
// property in the schema of the definition has x-sealed. It is sealed before anything is stored. No
// expression sees it. A step that calls a block passes it on as a whole, ${parameters.NAME}, to a
// property that has x-sealed too: the text "sealed" stands there in all that is planned, stored, sent
// and shown, and a worker opens the value in memory, right before it calls the block. For that it
// is a [SecretPart] whose name no secret can have.

// SealedText stands for a sealed value.
const SealedText = "sealed"

// SealedKeyword marks a property of a schema whose values are sealed.
const SealedKeyword = "x-sealed"

// MaxSealedBytes bounds the sealed values of an execution together: they stay in its state item.
const MaxSealedBytes = 8 << 10

const sealedPrefix = "~sealed/"

// SealedName is the name by which a [SecretPart] has a sealed parameter.
func SealedName(parameter string) string { return sealedPrefix + parameter }

// SealedParameter is the parameter that such a name has, if it is one.
func SealedParameter(name string) (parameter string, ok bool) {
	return strings.CutPrefix(name, sealedPrefix)
}

// Sealed are the sealed parameters of an execution.
type Sealed struct {
	Key    []byte            `json:"key"`    // the key of the tenant, as the key service has wrapped it
	Values map[string][]byte `json:"values"` // by name: a nonce, and AES-256-GCM
}

// Bytes is how many bytes the sealed parameters have.
func (s *Sealed) Bytes() (n int) {
	if s != nil {
		n = len(s.Key)
		for name, value := range s.Values {
			n += len(name) + len(value)
		}
	}
	return n
}

// SealedAt is what a value belongs to: it can be opened nowhere else.
func SealedAt(tenant, execution, parameter string) []byte {
	pointer := "/parameters/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(parameter)
	at, _ := EncodeJSON([]string{tenant, execution, pointer}) // texts can be encoded
	return at
}

// SealedProperties are the names of the properties of a schema whose values are sealed, sorted.
func SealedProperties(schema json.RawMessage) (names []string) {
	if !bytes.Contains(schema, []byte(SealedKeyword)) {
		return nil
	}
	var object struct {
		Properties map[string]struct {
			Sealed bool `json:"x-sealed"`
		} `json:"properties"`
	}
	if json.Unmarshal(schema, &object) != nil {
		return nil // it is no schema with sealed properties
	}
	for name, p := range object.Properties {
		if p.Sealed {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// SealedPlaces are the places that hold sealed parameters.
func SealedPlaces(places []SecretPlace) (sealed []SecretPlace) {
	for _, p := range places {
		if len(p.Parts) == 1 && strings.HasPrefix(p.Parts[0].Secret, sealedPrefix) {
			sealed = append(sealed, p)
		}
	}
	return sealed
}

// WithoutSealed is a schema that says nothing of the properties whose values are sealed: what stands
// in their places is not what the block gets.
func WithoutSealed(schema json.RawMessage) json.RawMessage {
	names := SealedProperties(schema)
	var object, properties map[string]json.RawMessage
	if len(names) == 0 || json.Unmarshal(schema, &object) != nil || json.Unmarshal(object["properties"], &properties) != nil {
		return schema
	}
	for _, name := range names {
		properties[name] = json.RawMessage("true")
	}
	raw, err := EncodeJSON(properties)
	if err != nil {
		return schema
	}
	object["properties"] = raw
	if raw, err = EncodeJSON(object); err != nil {
		return schema
	}
	return raw
}

// Shown are the parameters as they are shown, with the sealed ones in their places.
func (in *Input) Shown() json.RawMessage {
	if in.Sealed == nil {
		return in.Parameters
	}
	all := map[string]json.RawMessage{}
	if len(in.Parameters) > 0 && json.Unmarshal(in.Parameters, &all) != nil {
		return in.Parameters
	}
	for name := range in.Sealed.Values {
		all[name] = json.RawMessage(`"` + SealedText + `"`)
	}
	raw, err := EncodeJSON(all)
	if err != nil {
		return in.Parameters
	}
	return raw
}
