// Package token makes and verifies resume tokens. The bearer of a token may answer the wait that it
// names, and needs no other right. There is no table of tokens: one is valid while the wait that it
// names is open and has its generation, so nothing has to be cleaned up.
//
//	lst1.<payload>.<MAC>
//
// Both parts are unpadded base64url. The payload has the key's id, tenant, execution, step run,
// generation, subject, maker and expiry. The MAC is HMAC-SHA256 over everything before it.
//
// The package is pure: the same claims and keys give the same token, so that a repeated effect
// sends the same one. A claim has one encoding, and a payload one text, so that two texts are never
// the same token.
package token

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

const version = "lst1"

// MaxBytes bounds the size of a token.
const MaxBytes = 2048

// Claims are the contents of a token.
type Claims struct {
	Tenant     string
	Execution  string
	StepRunSeq int       // of the waiting step run
	Generation int64     // of the wait: revoking its tokens begins another generation
	Subject    string    // whom it is for: an answer counts under this name
	Maker      string    // who has made it: an answer uses up their right
	ExpiresAt  time.Time // to the millisecond; zero for never. [Keys.Verify] does not check it
}

// The reasons why a text is not a valid token, for tests and logs. The sender learns only that it
// is not valid: all are CodeUnauthorized.
var (
	ErrMalformed  = errors.New("not the form of a token")
	ErrForged     = errors.New("the MAC is that of no key")
	ErrWrongKeyID = errors.New("the MAC is that of another key than the token names")
)

func refused(why error) error {
	return &workflow.Error{Code: workflow.CodeUnauthorized, Message: "the token is not valid", Cause: why}
}

// Make makes the token of the claims with the current key.
func (k Keys) Make(c Claims) (string, error) {
	if !k.Set() {
		return "", workflow.Errorf(workflow.CodeInternal, "there are no keys to make tokens with")
	}
	if c.StepRunSeq < 0 || c.Generation < 0 || !c.ExpiresAt.IsZero() && c.ExpiresAt.UnixMilli() <= 0 {
		return "", workflow.Errorf(workflow.CodeInternal, "a token cannot say %d, %d, %s", c.StepRunSeq, c.Generation, c.ExpiresAt)
	}
	set := k.get()
	signed := version + "." + encoding.EncodeToString(encode(set.current, c))
	token := signed + "." + encoding.EncodeToString(mac(set.keys[set.current], signed))
	if len(token) > MaxBytes {
		return "", workflow.Errorf(workflow.CodeLimit, "the token takes %d bytes, the limit is %d: shorten the name that it is for", len(token), MaxBytes)
	}
	return token, nil
}

// Verify returns the claims of a token that one of the keys has made. It reads nothing of the
// payload before it has checked that. An error is CodeUnauthorized. Whether the token has expired,
// was used or was revoked depends on the state of the execution, which Verify does not know.
func (k Keys) Verify(token string) (Claims, error) {
	if len(token) > MaxBytes {
		return Claims{}, refused(ErrMalformed)
	}
	at := strings.LastIndexByte(token, '.')
	text, ok := strings.CutPrefix(token[:max(at, 0)], version+".")
	if !ok {
		return Claims{}, refused(ErrMalformed)
	}
	sum, ok := decodeBase64(token[at+1:])
	if !ok || len(sum) != sha256.Size {
		return Claims{}, refused(ErrMalformed)
	}
	// Try every key, so that the time reveals nothing about which one fits.
	maker := ""
	if k.Set() {
		for id, key := range k.get().keys {
			if hmac.Equal(sum, mac(key, token[:at])) {
				maker = id
			}
		}
	}
	if maker == "" {
		return Claims{}, refused(ErrForged)
	}
	payload, ok := decodeBase64(text)
	if !ok {
		return Claims{}, refused(ErrMalformed)
	}
	id, c, ok := decode(payload)
	switch {
	case !ok:
		return Claims{}, refused(ErrMalformed)
	case id != maker:
		return Claims{}, refused(ErrWrongKeyID)
	}
	return c, nil
}

func mac(key []byte, signed string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(signed))
	return h.Sum(nil)
}

var encoding = base64.RawURLEncoding.Strict()

// decodeBase64 decodes a text and checks that it is the only encoding of the result, because the
// decoder skips line ends.
func decodeBase64(text string) ([]byte, bool) {
	raw, err := encoding.DecodeString(text)
	return raw, err == nil && encoding.EncodeToString(raw) == text
}

// encode writes each text after its length, so that no two claims have the same payload.
func encode(keyID string, c Claims) []byte {
	var b []byte
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	text(keyID)
	text(c.Tenant)
	text(c.Execution)
	b = binary.AppendUvarint(b, uint64(c.StepRunSeq)) //nolint:gosec // not negative
	b = binary.AppendUvarint(b, uint64(c.Generation)) //nolint:gosec // not negative
	text(c.Subject)
	text(c.Maker)
	expires := int64(0)
	if !c.ExpiresAt.IsZero() {
		expires = c.ExpiresAt.UnixMilli()
	}
	return binary.AppendUvarint(b, uint64(expires)) //nolint:gosec // not negative
}

// decode is the inverse of encode.
func decode(payload []byte) (keyID string, c Claims, ok bool) {
	rest, ok := payload, true
	number := func() int64 {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > 1<<62 {
			ok, rest = false, nil
			return 0
		}
		rest = rest[size:]
		return int64(n) //nolint:gosec // checked
	}
	text := func() string {
		n := number()
		if n > int64(len(rest)) {
			ok, rest = false, nil
			return ""
		}
		s := string(rest[:n])
		rest = rest[n:]
		return s
	}
	keyID, c.Tenant, c.Execution = text(), text(), text()
	c.StepRunSeq, c.Generation, c.Subject, c.Maker = int(number()), number(), text(), text()
	if expires := number(); expires > 0 {
		c.ExpiresAt = time.UnixMilli(expires).UTC()
	}
	return keyID, c, ok && len(rest) == 0 && bytes.Equal(encode(keyID, c), payload)
}
