// Package sealed seals parameters of executions, and opens them again. Each tenant has a data key,
// which a key service has made and wrapped, and only the wrapped key is stored. A value is sealed for
// its place in its execution, and can be opened as that alone.
package sealed

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// KeyService makes and wraps data keys, each for one tenant.
type KeyService interface {
	// MasterKey identifies the key under which data keys are wrapped, in at most 500 bytes.
	MasterKey() (id string, err error)
	// GenerateKey makes a key of 32 bytes.
	GenerateKey(ctx context.Context, tenant string) (plain, wrapped []byte, err error)
	// UnwrapKey returns the key that was wrapped for the tenant.
	UnwrapKey(ctx context.Context, tenant string, wrapped []byte) (plain []byte, err error)
}

// Store keeps the wrapped key of each tenant, one for each master key: with another master key, values
// are sealed anew, also if the one before is lost.
type Store interface {
	// SealingKey is the key of a tenant under a master key; nil if it has none.
	SealingKey(ctx context.Context, tenant, masterKey string) (wrapped []byte, err error)
	// PutSealingKey stores the first key of a tenant under a master key, and returns the one that is stored.
	PutSealingKey(ctx context.Context, tenant, masterKey string, wrapped []byte) (stored []byte, err error)
}

const (
	keyBytes = 32

	// keyLife is how long a process uses a key before it unwraps it again, and so how long it takes
	// until a right that was taken away is gone.
	keyLife = 5 * time.Minute
	// maxKnownKeys is how many keys a process keeps.
	maxKnownKeys = 1000
)

// Opener opens sealed values. It is safe for concurrent use, and no error holds a value.
type Opener struct {
	service KeyService
	now     func() time.Time

	mu    sync.Mutex
	known map[[2]string]knownKey // by tenant and wrapped key
}

type knownKey struct {
	plain []byte
	until time.Time
}

// NewOpener makes an opener with the keys of a service.
func NewOpener(service KeyService, now func() time.Time) *Opener {
	return &Opener{service: service, now: now, known: map[[2]string]knownKey{}}
}

func (o *Opener) key(ctx context.Context, tenant string, wrapped []byte) ([]byte, error) {
	at := [2]string{tenant, string(wrapped)}
	o.mu.Lock()
	k, ok := o.known[at]
	o.mu.Unlock()
	if ok && o.now().Before(k.until) {
		return k.plain, nil
	}
	plain, err := o.service.UnwrapKey(ctx, tenant, wrapped)
	if err != nil {
		return nil, err
	}
	if len(plain) != keyBytes {
		return nil, workflow.Errorf(workflow.CodeUnavailable, "the key of sealed values has %d bytes", len(plain))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.known) >= maxKnownKeys {
		clear(o.known)
	}
	o.known[at] = knownKey{plain, o.now().Add(keyLife)}
	return plain, nil
}

// Open returns a sealed parameter of an execution. CodeNotFound says that it is none.
func (o *Opener) Open(ctx context.Context, tenant, execution string, s *workflow.Sealed, parameter string) (string, error) {
	if s == nil || s.Values[parameter] == nil {
		return "", workflow.Errorf(workflow.CodeNotFound, "the execution has no sealed parameter %q", parameter)
	}
	key, err := o.key(ctx, tenant, s.Key)
	if err != nil {
		return "", err
	}
	c, err := cipherFor(key, tenant, execution)
	if err != nil {
		return "", err
	}
	plain, err := c.Open(nil, nil, s.Values[parameter], workflow.SealedAt(tenant, execution, parameter))
	if err != nil {
		return "", workflow.Errorf(workflow.CodeNotFound, "the sealed parameter %q is not one of this execution, or has been changed", parameter)
	}
	return string(plain), nil
}

// cipherFor is a cipher with a key of its own for an execution, so that random nonces are enough.
func cipherFor(key []byte, tenant, execution string) (cipher.AEAD, error) {
	return newCipher(mac(key, "values", tenant, execution))
}

// newCipher is AES-GCM with random nonces, which stand before what is sealed.
func newCipher(key []byte) (cipher.AEAD, error) {
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(b)
}

func newKey() []byte {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // never fails
	return key
}

// mac authenticates texts under a key, each with its end.
func mac(key []byte, texts ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, text := range texts {
		h.Write([]byte(text))
		h.Write([]byte{0})
	}
	return h.Sum(nil)
}

// Sealer seals values under the key of their tenant, which it makes when it is first needed.
type Sealer struct {
	*Opener
	store func() Store

	mu      sync.Mutex
	wrapped map[string][]byte // by tenant
}

// NewSealer makes a sealer. It calls store for each read.
func NewSealer(o *Opener, store func() Store) *Sealer {
	return &Sealer{Opener: o, store: store, wrapped: map[string][]byte{}}
}

// Seal seals parameters of an execution.
func (s *Sealer) Seal(ctx context.Context, tenant, execution string, plain map[string]string) (*workflow.Sealed, error) {
	wrapped, key, err := s.tenantKey(ctx, tenant)
	if err != nil {
		return nil, err
	}
	c, err := cipherFor(key, tenant, execution)
	if err != nil {
		return nil, err
	}
	sealed := &workflow.Sealed{Key: wrapped, Values: map[string][]byte{}}
	for parameter, value := range plain {
		sealed.Values[parameter] = c.Seal(nil, nil, []byte(value), workflow.SealedAt(tenant, execution, parameter))
	}
	return sealed, nil
}

// Digest is the digest of a request under the key of its tenant: nobody else can find out by trying
// what was in the request.
func (s *Sealer) Digest(ctx context.Context, tenant, digest string) (string, error) {
	_, key, err := s.tenantKey(ctx, tenant)
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(mac(key, "request", digest)), nil
}

// tenantKey is the key of a tenant. Of two that are made at the same time, the stored one is it.
func (s *Sealer) tenantKey(ctx context.Context, tenant string) (wrapped, plain []byte, err error) {
	s.mu.Lock()
	wrapped = s.wrapped[tenant]
	s.mu.Unlock()
	if wrapped == nil {
		master, err := s.service.MasterKey()
		if err != nil {
			return nil, nil, err
		}
		store := s.store()
		if wrapped, err = store.SealingKey(ctx, tenant, master); err != nil {
			return nil, nil, err
		}
		if wrapped == nil {
			_, made, err := s.service.GenerateKey(ctx, tenant)
			if err != nil {
				return nil, nil, err
			}
			if wrapped, err = store.PutSealingKey(ctx, tenant, master, made); err != nil {
				return nil, nil, err
			}
			if len(wrapped) == 0 {
				return nil, nil, errors.New("the key of sealed values was not stored")
			}
		}
		s.mu.Lock()
		s.wrapped[tenant] = wrapped
		s.mu.Unlock()
	}
	plain, err = s.key(ctx, tenant, wrapped)
	return wrapped, plain, err
}
