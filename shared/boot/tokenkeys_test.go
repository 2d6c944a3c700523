package boot

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lockstep-run/lockstep/shared/token"
)

func keysDocument(id string) string {
	return fmt.Sprintf(`{"current":%q,"keys":{%q:%q}}`, id, id, base64.StdEncoding.EncodeToString([]byte(strings.Repeat(id, 32)[:32])))
}

// Keys are read when they are needed, again after some minutes, and stay in use while they cannot
// be read.
func TestTokenKeys_AreReadAgain(t *testing.T) {
	now, reads, doc := time.Unix(1e9, 0), 0, keysDocument("a")
	failure := error(nil)
	get := TokenKeys("somewhere", func(context.Context, string) ([]byte, error) { reads++; return []byte(doc), failure }, func() time.Time { return now })
	made := func() string {
		t.Helper()
		k, err := get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		text, err := k.Make(token.Claims{Tenant: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	first := made()
	now = now.Add(tokenKeysLife - time.Second)
	if made() != first || reads != 1 {
		t.Errorf("%d reads", reads)
	}
	doc, failure = keysDocument("b"), errors.New("throttled")
	now = now.Add(time.Second)
	if made() != first || made() != first || reads != 2 {
		t.Errorf("%d reads, or the keys are gone", reads)
	}
	failure = nil
	now = now.Add(tokenKeysRetry)
	if made() == first || reads != 3 {
		t.Errorf("%d reads, and the old key", reads)
	}
	doc = "nonsense"
	now = now.Add(tokenKeysLife)
	if made() == first {
		t.Error("the old key")
	}
}

func TestTokenKeys_None(t *testing.T) {
	k, err := TokenKeys("", nil, time.Now)(t.Context())
	if err != nil || k.Set() {
		t.Errorf("%v, %v", k.Set(), err)
	}
	failed := errors.New("no such secret")
	if _, err := TokenKeys("x", func(context.Context, string) ([]byte, error) { return nil, failed }, time.Now)(t.Context()); !errors.Is(err, failed) {
		t.Error(err)
	}
}

// The keys are read from a file, or from Secrets Manager with a signed request. No error shows
// anything of them.
func TestReadTokenKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(path, []byte(keysDocument("f")), 0o600); err != nil {
		t.Fatal(err)
	}
	const arn = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:keys-AbCdEf"
	status, answer := http.StatusOK, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if got := string(body); got != `{"SecretId":"`+arn+`"}` || r.Header.Get("X-Amz-Target") != "secretsmanager.GetSecretValue" ||
			!strings.Contains(r.Header.Get("Authorization"), "/eu-west-1/secretsmanager/aws4_request") {
			t.Errorf("%s with %v", got, r.Header)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	t.Setenv(envSecretsEndpoint, server.URL)
	read := readTokenKeys(aws.Config{HTTPClient: server.Client(), Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "key"}, nil
	})})
	if got, err := read(t.Context(), "file:"+path); err != nil || string(got) != keysDocument("f") {
		t.Errorf("%s, %v", got, err)
	}
	answer = `{"SecretString":"{\"a\":1}"}`
	if got, err := read(t.Context(), arn); err != nil || string(got) != `{"a":1}` {
		t.Errorf("%s, %v", got, err)
	}
	for _, bad := range []string{`{"SecretBinary":"c2VjcmV0"}`, `{"SecretString":"secret`, ``} {
		answer = bad
		if _, err := read(t.Context(), arn); err == nil || strings.Contains(err.Error(), "secret\"") || strings.Contains(err.Error(), "c2VjcmV0") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	status, answer = http.StatusBadRequest, `{"__type":"AccessDeniedException","Message":"no"}`
	if _, err := read(t.Context(), arn); err == nil || !strings.Contains(err.Error(), "AccessDeniedException") {
		t.Error(err)
	}
}
