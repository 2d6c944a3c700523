package token

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Data that contains a token is sealed if it has to be stored for a while, so that nobody without
// the keys can read it. The same data and key give the same text.
//
//	lsts1 <length of the key's id> <key's id> <nonce> <AES-256-GCM>

const (
	sealVersion = "lsts1"
	nonceBytes  = 12
)

// Seal seals data with the current key.
func (k Keys) Seal(data []byte) ([]byte, error) {
	if !k.Set() {
		return nil, workflow.Errorf(workflow.CodeInternal, "there are no keys to seal with")
	}
	set := k.get()
	key := set.keys[set.current]
	c, err := sealCipher(key)
	if err != nil {
		return nil, err
	}
	nonce := mac(mac(key, "nonce of "+sealVersion), string(data))[:nonceBytes]
	header := append([]byte(sealVersion), byte(len(set.current)))
	header = append(header, set.current...)
	return c.Seal(slices.Concat(header, nonce), nonce, data, header), nil
}

// Sealed reports whether data is sealed.
func Sealed(data []byte) bool { return bytes.HasPrefix(data, []byte(sealVersion)) }

// Open returns the sealed data. Data that was sealed with another key, or has been changed, is
// CodeUnavailable.
func (k Keys) Open(data []byte) ([]byte, error) {
	rest := bytes.TrimPrefix(data, []byte(sealVersion))
	unreadable := &workflow.Error{Code: workflow.CodeUnavailable, Message: "stored data cannot be read: it was sealed with a key that is not there"}
	if !Sealed(data) || len(rest) == 0 || len(rest) < 1+int(rest[0])+nonceBytes || !k.Set() {
		return nil, unreadable
	}
	size := int(rest[0])
	key := k.get().keys[string(rest[1:1+size])]
	if key == nil {
		return nil, unreadable
	}
	c, err := sealCipher(key)
	if err != nil {
		return nil, err
	}
	header, body := data[:len(sealVersion)+1+size], rest[1+size:]
	plain, err := c.Open(nil, body[:nonceBytes], body[nonceBytes:], header)
	if err != nil {
		unreadable.Cause = err
		return nil, unreadable
	}
	return plain, nil
}

func sealCipher(key []byte) (cipher.AEAD, error) {
	b, err := aes.NewCipher(mac(key, "key of "+sealVersion))
	if err != nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "make a cipher: %w", err)
	}
	c, err := cipher.NewGCM(b)
	if err != nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "make a cipher: %w", err)
	}
	return c, nil
}
