package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A reference to a secret, ${secret.NAME}, may appear in a parameter of a step that calls a block,
// or in a header of a block served over HTTP. Everything that is planned, stored, sent or shown
// contains the text of the reference. A worker replaces it by the value in memory, right before it
// calls the block. The worker knows the places from the definition and never searches values for
// references, so that data that happens to look like a reference stays unchanged.

// SecretPlace is a text in parameters that contains secrets.
type SecretPlace struct {
	Path  []string     `json:"path"` // names of fields, and indexes of items
	Parts []SecretPart `json:"parts"`
}

// SecretPart is a part of a text: literal text, or the name of a secret.
type SecretPart struct {
	Text   string `json:"text,omitempty"`
	Secret string `json:"secret,omitempty"`
}

// Limits of references to secrets.
const (
	MaxSecretPlaces = 20 // in one step
	MinSecretBytes  = 8  // a shorter one could not be told from other text in a result
	MaxSecretBytes  = 64 << 10
)

// CheckSecret returns why steps refuse the value of a secret, without the value; nil if they do not.
func CheckSecret(name, value string) *Error {
	if len(value) < MinSecretBytes || len(value) > MaxSecretBytes || !utf8.ValidString(value) {
		return Errorf(CodeInvalid, "the secret %q is not a text of %d to %d bytes", name, MinSecretBytes, MaxSecretBytes)
	}
	return nil
}

const secretName = `[A-Za-z0-9_-]{1,64}(?:/[A-Za-z0-9_-]{1,64}){0,3}`

var (
	secretNameRE = regexp.MustCompile(`^` + secretName + `$`)
	secretRefRE  = regexp.MustCompile(`\$\{secret\.(` + secretName + `)\}`)
)

// ValidSecretName reports whether a text may be the name of a secret: one to four parts of letters,
// digits, _ and -, separated by /.
func ValidSecretName(name string) bool { return secretNameRE.MatchString(name) }

// SecretReference returns the text that stands for a secret.
func SecretReference(name string) string {
	if strings.HasPrefix(name, sealedPrefix) {
		return SealedText
	}
	return "${secret." + name + "}"
}

// SplitSecrets splits a text at its references to secrets. Without references there is one part.
func SplitSecrets(text string) (parts []SecretPart) {
	rest := 0
	for _, m := range secretRefRE.FindAllStringSubmatchIndex(text, -1) {
		if m[0] > rest {
			parts = append(parts, SecretPart{Text: text[rest:m[0]]})
		}
		parts = append(parts, SecretPart{Secret: text[m[2]:m[3]]})
		rest = m[1]
	}
	if rest < len(text) || len(parts) == 0 {
		parts = append(parts, SecretPart{Text: text[rest:]})
	}
	return parts
}

// HasSecrets reports whether a text contains references to secrets.
func HasSecrets(text string) bool { return secretRefRE.MatchString(text) }

// JoinSecrets returns a text in which each secret is replaced by what value returns.
func JoinSecrets(parts []SecretPart, value func(name string) string) string {
	var text strings.Builder
	for _, p := range parts {
		if p.Secret != "" {
			text.WriteString(value(p.Secret))
		} else {
			text.WriteString(p.Text)
		}
	}
	return text.String()
}

// SecretNames appends the names of the secrets in the parts.
func SecretNames(names []string, parts []SecretPart) []string {
	for _, p := range parts {
		if p.Secret != "" {
			names = append(names, p.Secret)
		}
	}
	return names
}

// FillSecrets returns parameters in which each secret is replaced by what value returns. It returns
// an error if a place contains a text other than the one in the definition.
func FillSecrets(parameters json.RawMessage, places []SecretPlace, value func(name string) string) (json.RawMessage, error) {
	var err error
	for _, p := range places {
		filled := JoinSecrets(p.Parts, value)
		if parameters, err = ReplaceText(parameters, p.Path, JoinSecrets(p.Parts, SecretReference), filled); err != nil {
			return nil, fmt.Errorf("the secrets of parameters.%s have no place: %w", strings.Join(p.Path, "."), err)
		}
	}
	return parameters, nil
}

// ReplaceText replaces a text at a place of a value. It returns an error if another value is there.
func ReplaceText(v json.RawMessage, at []string, was, with string) (json.RawMessage, error) {
	if len(at) == 0 {
		var text string
		if json.Unmarshal(v, &text) != nil || text != was {
			return nil, errors.New("another value stands there")
		}
		return EncodeJSON(with)
	}
	var err error
	if v = bytes.TrimLeft(v, " \t\r\n"); len(v) > 0 && v[0] == '[' {
		var items []json.RawMessage
		n, notNumber := strconv.Atoi(at[0])
		if err = errors.Join(notNumber, json.Unmarshal(v, &items)); err != nil || n < 0 || n >= len(items) {
			return nil, errors.Join(err, errors.New("the list is shorter"))
		}
		if items[n], err = ReplaceText(items[n], at[1:], was, with); err != nil {
			return nil, err
		}
		return EncodeJSON(items)
	}
	var fields map[string]json.RawMessage
	if err = json.Unmarshal(v, &fields); err != nil || fields[at[0]] == nil {
		return nil, errors.Join(err, errors.New("the object has no such field"))
	}
	if fields[at[0]], err = ReplaceText(fields[at[0]], at[1:], was, with); err != nil {
		return nil, err
	}
	return EncodeJSON(fields)
}
