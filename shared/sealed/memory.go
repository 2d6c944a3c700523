package sealed

import (
	"context"
	"slices"
	"sync"
	"time"
)

// InMemory seals under keys that are gone with the process: for definitions that are played in tests.
func InMemory(now func() time.Time) *Sealer {
	m := &memory{keys: map[string][]byte{}}
	return NewSealer(NewOpener(m, now), func() Store { return m })
}

// memory wraps no keys: they leave the process nowhere.
type memory struct {
	mu   sync.Mutex
	keys map[string][]byte
}

func (m *memory) MasterKey() (string, error) { return "memory", nil }

func (m *memory) GenerateKey(context.Context, string) (plain, wrapped []byte, err error) {
	key := newKey()
	return key, slices.Clone(key), nil
}

func (m *memory) UnwrapKey(_ context.Context, _ string, wrapped []byte) ([]byte, error) {
	return wrapped, nil
}

func (m *memory) SealingKey(_ context.Context, tenant, _ string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.keys[tenant], nil
}

func (m *memory) PutSealingKey(_ context.Context, tenant, _ string, wrapped []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys[tenant] == nil {
		m.keys[tenant] = wrapped
	}
	return m.keys[tenant], nil
}
