package signed

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// caught is a transport that keeps the request.
type caught struct {
	r    *http.Request
	body string
}

func (c *caught) RoundTrip(r *http.Request) (*http.Response, error) {
	c.r = r
	if r.Body != nil {
		text, _ := io.ReadAll(r.Body)
		c.body = string(text)
	}
	return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func send(t *testing.T, c Credentials, method, address, body string) *caught {
	t.Helper()
	got := &caught{}
	client := Client(c, func() time.Time { return noon })
	client.Transport.(*transport).next = got
	r, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "a  b")
	r.Header.Set("User-Agent", "lockstep")
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if r.Header.Get("Authorization") != "" {
		t.Error("the caller's own request was changed")
	}
	return got
}

const api = "https://abc123.execute-api.eu-west-1.amazonaws.com"

// The signature is of what is sent: body, path and query as they are on the wire.
func TestSignatures(t *testing.T) {
	c := key("session-token")
	for _, line := range []struct{ method, path, body string }{
		{"GET", "", ""},
		{"GET", "/workflow-execution?state=RUNNING&limit=5&query=a%20b%2Fc", ""},
		{"GET", "/inventory/device/sw%20%C3%A9~1?b=2&a=1&a=0", ""},
		{"POST", "/workflow-execution", `{"workflow":"fleet/upgrade"}`},
	} {
		got := send(t, c, line.method, api+line.path, line.body)
		if got.body != line.body {
			t.Errorf("%s: the body sent is %q", line.path, got.body)
		}
		want, err := http.NewRequest(line.method, api+line.path, strings.NewReader(line.body))
		if err != nil {
			t.Fatal(err)
		}
		want.Header.Set("Idempotency-Key", "a  b")
		sum := sha256.Sum256([]byte(line.body))
		who, err := c.IAM.Retrieve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = v4.NewSigner().SignHTTP(t.Context(), who, want, hex.EncodeToString(sum[:]), "execute-api", "eu-west-1", noon)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := got.r.Header.Get("Authorization"), want.Header.Get("Authorization"); a != b {
			t.Errorf("%s %s:\n%s\nand the SDK\n%s", line.method, line.path, a, b)
		}
	}
}

// key is a caller with credentials of IAM that last.
func key(session string) Credentials {
	return Credentials{IAM: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG", session)}
}

func TestWhoIsSentWhat(t *testing.T) {
	token := key("")
	token.Token = "jwt"
	for _, line := range []struct {
		name, address, want string
		c                   Credentials
	}{
		{"a token goes first", api, "Bearer jwt", token},
		{"a token fits any service", "http://localhost:3030", "Bearer jwt", token},
		{"nothing to show", api, "", Credentials{}},
		{"keys stay away from a local stack", "http://localhost:3030", "", key("")},
		{"keys stay away from others' hosts", "https://x.execute-api.eu-west-1.amazonaws.com.evil.example", "", key("")},
	} {
		if got := send(t, line.c, "GET", line.address, "").r.Header.Get("Authorization"); got != line.want {
			t.Errorf("%s: %q, want %q", line.name, got, line.want)
		}
	}
	if got := send(t, key(""), "GET", api, "").r.Header; got.Get("X-Amz-Security-Token") != "" || got.Get("Authorization") == "" {
		t.Errorf("keys that last: %v", got)
	}
}

// What this process has is found when it is needed, and whoever has nothing is told so.
func TestFound(t *testing.T) {
	for _, name := range []string{"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"} {
		t.Setenv(name, "")
	}
	nowhere := filepath.Join(t.TempDir(), "nothing")
	t.Setenv("AWS_CONFIG_FILE", nowhere)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", nowhere)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("LOCKSTEP_TOKEN", "")

	answer, err := Client(Found(), time.Now).Get(api + "/health")
	if err == nil {
		_ = answer.Body.Close()
		t.Fatal("sent without credentials")
	}
	if !strings.Contains(err.Error(), "log in to AWS") || !workflow.Is(err, workflow.CodeUnauthorized) {
		t.Errorf("it is said: %v", err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	if got := send(t, Found(), "GET", api, "").r.Header.Get("Authorization"); !strings.Contains(got, "Credential=AKIDEXAMPLE/20261121/eu-west-1/execute-api/") {
		t.Errorf("signed as %q", got)
	}
	t.Setenv("LOCKSTEP_TOKEN", "jwt")
	if got := Found().Token; got != "jwt" {
		t.Errorf("the token is %q", got)
	}
}
