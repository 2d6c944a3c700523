package sealed_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sealed"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// store keeps keys in memory, by tenant and master key.
type store map[[2]string][]byte

func (s store) SealingKey(_ context.Context, tenant, masterKey string) ([]byte, error) {
	return s[[2]string{tenant, masterKey}], nil
}

func (s store) PutSealingKey(_ context.Context, tenant, masterKey string, wrapped []byte) ([]byte, error) {
	at := [2]string{tenant, masterKey}
	if s[at] == nil {
		s[at] = wrapped
	}
	return s[at], nil
}

// counted counts the calls of a key service, and fails on demand.
type counted struct {
	sealed.KeyService
	generated, unwrapped int
	down                 bool
}

func (c *counted) GenerateKey(ctx context.Context, tenant string) ([]byte, []byte, error) {
	c.generated++
	return c.KeyService.GenerateKey(ctx, tenant)
}

func (c *counted) UnwrapKey(ctx context.Context, tenant string, wrapped []byte) ([]byte, error) {
	if c.unwrapped++; c.down {
		return nil, errors.New("down")
	}
	return c.KeyService.UnwrapKey(ctx, tenant, wrapped)
}

func newFile(t *testing.T) sealed.File {
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, sealed.NewFileKey(), 0o600); err != nil {
		t.Fatal(err)
	}
	return sealed.File{Path: path}
}

const secret = "correct horse battery"

// What is sealed is opened as that parameter of that execution of that tenant, unchanged, and as nothing else.
func TestSealer_ValuesBelongToTheirPlace(t *testing.T) {
	ctx, keys, now := context.Background(), store{}, time.Now()
	service := &counted{KeyService: newFile(t)}
	o := sealed.NewOpener(service, func() time.Time { return now })
	s := sealed.NewSealer(o, func() sealed.Store { return keys })
	plain := map[string]string{"password": secret, "pin/~": "other secret"}
	one, err := s.Seal(ctx, "t", "x", plain)
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.Seal(ctx, "t", "x", plain)
	if err != nil || bytes.Equal(one.Values["password"], two.Values["password"]) || !bytes.Equal(one.Key, two.Key) {
		t.Errorf("sealed twice: the same text, or another key: %v", err)
	}
	for name, want := range plain {
		if got, err := o.Open(ctx, "t", "x", one, name); err != nil || got != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	if service.generated != 1 || service.unwrapped != 1 {
		t.Errorf("%d keys made, %d unwrapped", service.generated, service.unwrapped)
	}
	moved := &workflow.Sealed{Key: one.Key, Values: map[string][]byte{"pin/~": one.Values["password"], "password": one.Values["password"]}}
	changed := &workflow.Sealed{Key: one.Key, Values: map[string][]byte{"password": slices.Clone(one.Values["password"])}}
	changed.Values["password"][20]++
	other, err := s.Seal(ctx, "t2", "x", plain)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		tenant, execution string
		s                 *workflow.Sealed
		parameter         string
	}{
		"another parameter": {"t", "x", moved, "pin/~"},
		"another execution": {"t", "y", one, "password"},
		"changed":           {"t", "x", changed, "password"},
		"short":             {"t", "x", &workflow.Sealed{Key: one.Key, Values: map[string][]byte{"password": {1}}}, "password"},
		"not there":         {"t", "x", one, "none"},
		"none at all":       {"t", "x", nil, "password"},
	} {
		if got, err := o.Open(ctx, c.tenant, c.execution, c.s, c.parameter); !workflow.Is(err, workflow.CodeNotFound) || got != "" || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	for _, tenant := range []string{"t2", "t"} { // the key of one tenant is none of another
		wrong := map[string]*workflow.Sealed{"t": other, "t2": one}[tenant]
		if _, err := o.Open(ctx, tenant, "x", wrong, "password"); err == nil {
			t.Errorf("%s opens what another tenant has sealed", tenant)
		}
	}

	now = now.Add(6 * time.Minute)
	if service.down = true; true {
		if _, err := o.Open(ctx, "t", "x", one, "password"); err == nil || workflow.Is(err, workflow.CodeNotFound) {
			t.Errorf("without the key service: %v", err)
		}
	}
}

// The digest of a request is the same in every process, and needs the key.
func TestSealer_DigestNeedsTheKey(t *testing.T) {
	ctx, file, keys := context.Background(), newFile(t), store{}
	digest := func(service sealed.KeyService, keys store, tenant, of string) string {
		t.Helper()
		d, err := sealed.NewSealer(sealed.NewOpener(service, time.Now), func() sealed.Store { return keys }).Digest(ctx, tenant, of)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	one := digest(file, keys, "t", "abc")
	if digest(file, keys, "t", "abc") != one {
		t.Error("another process has another digest")
	}
	if digest(file, keys, "t", "abd") == one || digest(file, keys, "t2", "abc") == one || digest(newFile(t), store{}, "t", "abc") == one {
		t.Error("the digest does not depend on the request, the tenant and the key")
	}
}

// With another master key a tenant gets another data key, also where the first master key is lost; with the
// first one again, its values can be opened again.
func TestSealer_AnotherMasterKey(t *testing.T) {
	ctx, keys, lost, next := context.Background(), store{}, newFile(t), newFile(t)
	seal := func(f sealed.File) *workflow.Sealed {
		t.Helper()
		s, err := sealed.NewSealer(sealed.NewOpener(f, time.Now), func() sealed.Store { return keys }).Seal(ctx, "t", "x", map[string]string{"p": secret})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before, after := seal(lost), seal(next)
	for f, s := range map[sealed.File]*workflow.Sealed{lost: before, next: after} {
		if got, err := sealed.NewOpener(f, time.Now).Open(ctx, "t", "x", s, "p"); err != nil || got != secret {
			t.Errorf("%q, %v", got, err)
		}
	}
	if _, err := sealed.NewOpener(next, time.Now).Open(ctx, "t", "x", before, "p"); err == nil {
		t.Error("a value that was sealed under another master key was opened")
	}
}

func TestFile_SaysWhatIsWrong(t *testing.T) {
	ctx, file := context.Background(), newFile(t)
	_, wrapped, err := file.GenerateKey(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newFile(t).UnwrapKey(ctx, "t", wrapped); err == nil || !strings.Contains(err.Error(), "another file") {
		t.Error(err)
	}
	if _, err := file.UnwrapKey(ctx, "t2", wrapped); err == nil {
		t.Error("a key of another tenant")
	}
	if err := os.WriteFile(file.Path, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := file.UnwrapKey(ctx, "t", wrapped); err == nil || !strings.Contains(err.Error(), "64 hexadecimal digits") {
		t.Error(err)
	}
	if _, _, err := (sealed.File{Path: "none"}).GenerateKey(ctx, "t"); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Error(err)
	}
}
