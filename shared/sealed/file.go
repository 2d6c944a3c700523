package sealed

import (
	"context"
	"crypto/cipher"
	"encoding/hex"
	"errors"
	"os"
	"strings"
)

// File is a key service whose key is in a file, as hex: for one machine.
type File struct{ Path string }

// MasterKey is a digest of the key.
func (f File) MasterKey() (string, error) {
	key, err := f.key()
	if err != nil {
		return "", err
	}
	return "file:" + hex.EncodeToString(mac(key, "master key")[:16]), nil
}

// GenerateKey makes a key.
func (f File) GenerateKey(_ context.Context, tenant string) (plain, wrapped []byte, err error) {
	c, err := f.cipher()
	if err != nil {
		return nil, nil, err
	}
	plain = newKey()
	return plain, c.Seal(nil, nil, plain, []byte(tenant)), nil
}

// UnwrapKey returns a key that was made for the tenant.
func (f File) UnwrapKey(_ context.Context, tenant string, wrapped []byte) ([]byte, error) {
	c, err := f.cipher()
	if err != nil {
		return nil, err
	}
	plain, err := c.Open(nil, nil, wrapped, []byte(tenant))
	if err != nil {
		return nil, errOtherFile
	}
	return plain, nil
}

var errOtherFile = errors.New("the key of sealed values was made with another file than that of sealed.key")

func (f File) cipher() (cipher.AEAD, error) {
	key, err := f.key()
	if err != nil {
		return nil, err
	}
	return newCipher(key)
}

func (f File) key() ([]byte, error) {
	text, err := os.ReadFile(f.Path)
	if err != nil {
		return nil, errors.New("the file of sealed.key cannot be read")
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != keyBytes {
		return nil, errors.New("the file of sealed.key has no key: want 64 hexadecimal digits")
	}
	return key, nil
}

// NewFileKey is the text of a file with a new key.
func NewFileKey() []byte {
	return []byte(hex.EncodeToString(newKey()) + "\n")
}
