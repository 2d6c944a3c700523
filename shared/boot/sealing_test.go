package boot

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/lockstep-run/lockstep/shared/sealed"
)

// storedKeys keeps keys in memory.
type storedKeys map[string][]byte

func (s storedKeys) SealingKey(_ context.Context, tenant, _ string) ([]byte, error) {
	return s[tenant], nil
}

func (s storedKeys) PutSealingKey(_ context.Context, tenant, _ string, wrapped []byte) ([]byte, error) {
	s[tenant] = wrapped
	return wrapped, nil
}

// A key of KMS makes a data key for a tenant once, and unwraps it for that tenant alone. What KMS
// refuses is an error without a value.
func TestNewOpener_UsesKMS(t *testing.T) {
	const arn, value = "arn:aws:kms:eu-west-1:123456789012:key/k", "correct horse battery"
	plain := strings.Repeat("k", 32)
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			KeyId, KeySpec, CiphertextBlob string
			EncryptionContext              map[string]string
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		action := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "TrentService.")
		asked = append(asked, action+" "+in.KeyId+" "+in.KeySpec+" "+in.EncryptionContext["lockstep:tenant"])
		wrapped := base64.StdEncoding.EncodeToString([]byte("wrapped for " + in.EncryptionContext["lockstep:tenant"]))
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		if action == "Decrypt" && in.CiphertextBlob != wrapped {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"__type":"InvalidCiphertextException"}`))
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"CiphertextBlob": wrapped, "Plaintext": base64.StdEncoding.EncodeToString([]byte(plain)), "KeyId": in.KeyId})
	}))
	defer server.Close()
	c := aws.Config{Region: "eu-west-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")}
	o, keys := NewOpener(arn, c), storedKeys{}
	s := sealed.NewSealer(o, func() sealed.Store { return keys })
	one, err := s.Seal(t.Context(), "t", "x", map[string]string{"p": value})
	if err != nil {
		t.Fatal(err)
	}
	other := NewOpener(arn, c) // of a worker
	if got, err := other.Open(t.Context(), "t", "x", one, "p"); err != nil || got != value {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := other.Open(t.Context(), "t2", "x", one, "p"); err == nil || err.Error() != "KMS answers InvalidCiphertextException" {
		t.Errorf("for another tenant: %v", err)
	}
	want := "GenerateDataKey " + arn + " AES_256 t, Decrypt " + arn + "  t, Decrypt " + arn + "  t, Decrypt " + arn + "  t2"
	if got := strings.Join(asked, ", "); got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
	if NewOpener("", c) != nil {
		t.Error("an opener without a key")
	}
}
