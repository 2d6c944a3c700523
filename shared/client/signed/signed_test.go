package signed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
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

// The signature is the one that AWS's own signer makes of the same request.
func TestSignaturesAreThoseOfTheSDK(t *testing.T) {
	c := Credentials{KeyID: "AKIDEXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG", Session: "session-token"}
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
		err = v4.NewSigner().SignHTTP(context.Background(), aws.Credentials{
			AccessKeyID: c.KeyID, SecretAccessKey: c.Secret, SessionToken: c.Session,
		}, want, hex.EncodeToString(sum[:]), "execute-api", "eu-west-1", noon)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := got.r.Header.Get("Authorization"), want.Header.Get("Authorization"); a != b {
			t.Errorf("%s %s:\n%s\nand the SDK\n%s", line.method, line.path, a, b)
		}
	}
}

func TestWhoIsSentWhat(t *testing.T) {
	key := Credentials{KeyID: "AKIDEXAMPLE", Secret: "s"}
	token := Credentials{Token: "jwt", KeyID: "AKIDEXAMPLE", Secret: "s"}
	for _, line := range []struct {
		name, address, want string
		c                   Credentials
	}{
		{"a token goes first", api, "Bearer jwt", token},
		{"a token fits any service", "http://localhost:3030", "Bearer jwt", token},
		{"nothing to show", api, "", Credentials{}},
		{"keys stay away from a local stack", "http://localhost:3030", "", key},
		{"keys stay away from others' hosts", "https://x.execute-api.eu-west-1.amazonaws.com.evil.example", "", key},
	} {
		if got := send(t, line.c, "GET", line.address, "").r.Header.Get("Authorization"); got != line.want {
			t.Errorf("%s: %q, want %q", line.name, got, line.want)
		}
	}
	if got := send(t, key, "GET", api, "").r.Header; got.Get("X-Amz-Security-Token") != "" || got.Get("Authorization") == "" {
		t.Errorf("keys that last: %v", got)
	}
	env := map[string]string{"LOCKSTEP_TOKEN": "t", "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "x"}
	if got := FromEnvironment(func(name string) string { return env[name] }); got != (Credentials{"t", "k", "s", "x"}) {
		t.Errorf("from the environment: %+v", got)
	}
}
