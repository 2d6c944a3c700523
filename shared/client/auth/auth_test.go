package auth

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// recordingTransport records the request.
type recordingTransport struct {
	request *http.Request
	body    string
}

func (c *recordingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	c.request = r
	if r.Body != nil {
		text, _ := io.ReadAll(r.Body)
		c.body = string(text)
	}
	return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
}

var testTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func send(t *testing.T, c Credentials, method, address, body string) *recordingTransport {
	t.Helper()
	got := &recordingTransport{}
	client := NewClient(c, func() time.Time { return testTime })
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

const apiURL = "https://abc123.execute-api.eu-west-1.amazonaws.com"

// vector is a request with its signature: testdata/README.md.
type vector struct {
	Name, Source, Service, Region, Method, URL, Body, Session string
	Headers                                                   map[string]string
	SignedHeaders, CanonicalHash, Signature                   string
}

func readVectors(t *testing.T) []vector {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "sigv4.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []vector
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// The signature covers the method, the path, the query, the headers and the body as they are
// sent. Those that it is compared with are not from the library that makes it.
func TestTransport_SignsAsPublishedVectors(t *testing.T) {
	sources := map[string]int{}
	for _, v := range readVectors(t) {
		sources[v.Source]++
		r, err := http.NewRequest(v.Method, v.URL, strings.NewReader(v.Body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range v.Headers {
			r.Header.Set(name, value)
		}
		c := Credentials{IAM: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", v.Session)}
		next := &recordingTransport{}
		signer := &transport{c, func() time.Time { return time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC) }, next}
		if v.Source == "derived" { // the client finds service and region itself
			res, err := signer.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if r = next.request; next.body != v.Body {
				t.Errorf("%s: sent the body %q", v.Name, next.body)
			}
		} else if err := signer.sign(r, v.Service, v.Region); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/%s/%s/aws4_request, SignedHeaders=%s, Signature=%s", v.Region, v.Service, v.SignedHeaders, v.Signature)
		if got := r.Header.Get("Authorization"); got != want {
			t.Errorf("%s: signed as\n%s\nwant\n%s\nof a canonical request with the hash %s", v.Name, got, want, v.CanonicalHash)
		}
	}
	if sources["AWS"] < 9 || sources["derived"] < 7 {
		t.Errorf("found only %v", sources)
	}
}

// iamCredentials returns static IAM credentials.
func iamCredentials(session string) Credentials {
	return Credentials{IAM: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG", session)}
}

func TestTransport_ChoosesAuthorization(t *testing.T) {
	token := iamCredentials("")
	token.Token = "jwt"
	for _, line := range []struct {
		name, address, want string
		c                   Credentials
	}{
		{"a token takes precedence", apiURL, "Bearer jwt", token},
		{"a token is sent to this machine", "http://localhost:3030", "Bearer jwt", token},
		{"no credentials", apiURL, "", Credentials{}},
		{"a local stack gets no signature", "http://localhost:3030", "", iamCredentials("")},
		{"a foreign host gets no signature", "https://x.execute-api.eu-west-1.amazonaws.com.evil.example", "", iamCredentials("")},
	} {
		if got := send(t, line.c, "GET", line.address, "").request.Header.Get("Authorization"); got != line.want {
			t.Errorf("%s: %q, want %q", line.name, got, line.want)
		}
	}
	// A domain of your own has no region in its name.
	own := iamCredentials("")
	own.Region = "eu-north-1"
	for address, want := range map[string]string{
		"https://lockstep.example.com": "/eu-north-1/execute-api/", apiURL: "/eu-west-1/execute-api/", "http://localhost:3030": "", "http://lockstep.example.com": "",
	} {
		if got := send(t, own, "GET", address, "").request.Header.Get("Authorization"); (got != "") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%s: signed as %q, want %q", address, got, want)
		}
	}
	// A request with credentials of its own keeps them: the bearer of a resume token is nobody else.
	for _, c := range []Credentials{token, iamCredentials("")} {
		next := &recordingTransport{}
		r, err := http.NewRequest(http.MethodPost, apiURL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer lst1.a.b")
		res, err := (&transport{c, time.Now, next}).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if got := next.request.Header.Get("Authorization"); got != "Bearer lst1.a.b" {
			t.Errorf("%q is sent instead of the request's own credentials", got)
		}
	}
	if got := send(t, iamCredentials(""), "GET", apiURL, "").request.Header; got.Get("X-Amz-Security-Token") != "" || got.Get("Authorization") == "" {
		t.Errorf("static credentials: %v", got)
	}
}

// Credentials are loaded when they are needed; having none is an error that names what to
// do.
// Credentials go to the service whose address was given, and not to where it redirects.
func TestClient_FollowsNoRedirectToAnotherHost(t *testing.T) {
	var seen []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = append(seen, r.Header.Get("Authorization")) }))
	defer other.Close()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusTemporaryRedirect)
		case "/moved":
			http.Redirect(w, r, "/here", http.StatusTemporaryRedirect)
		}
	}))
	defer service.Close()
	client := NewClient(Credentials{Token: "t"}, time.Now)
	for path, want := range map[string]string{"/away": "another service", "/round": "again and again", "/moved": ""} {
		answer, err := client.Get(service.URL + path)
		if err == nil {
			_ = answer.Body.Close()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if len(seen) > 0 {
		t.Errorf("the other service was sent %q", seen)
	}
}

// A token, whoever it is from, is sent by https, or to this machine.
func TestTransport_SendsNoTokenOverPlainHTTP(t *testing.T) {
	executed := 0
	program := func(context.Context) (string, error) { executed++; return "jwt", nil }
	for address, sent := range map[string]bool{
		"http://lockstep.example.com": false, "http://10.0.0.7:3030": false, "http://127.0.0.1.example.com": false, "http://localhost.example.com": false, "http://[fe80::1]": false,
		"https://lockstep.example.com": true, "http://localhost:3030": true, "http://127.0.0.1:3030": true, "http://[::1]:3030": true,
	} {
		for name, c := range map[string]Credentials{"a variable's": {Token: "jwt"}, "a program's": {TokenFrom: program}, "its own": {}} {
			next := &recordingTransport{}
			r, err := http.NewRequest(http.MethodGet, address, nil)
			if err != nil {
				t.Fatal(err)
			}
			if name == "its own" {
				r.Header.Set("Authorization", "Bearer jwt")
			}
			executed = 0
			res, err := (&transport{c, time.Now, next}).RoundTrip(r)
			if err == nil {
				_ = res.Body.Close()
			}
			if (err == nil) != sent || (next.request != nil) != sent || err != nil && (!workflow.Is(err, workflow.CodeUnauthorized) || !strings.Contains(err.Error(), "use its https address")) {
				t.Errorf("%s token, to %s: sent %v, %v", name, address, next.request != nil, err)
			}
			if !sent && executed > 0 {
				t.Errorf("%s: asked for a token that is not sent", address)
			}
		}
	}
	if got := send(t, Credentials{}, "GET", "http://lockstep.example.com", ""); got.request == nil {
		t.Error("a request without a token is not sent")
	}
}

func TestDefaultCredentials_ReadsEnvironment(t *testing.T) {
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

	answer, err := NewClient(DefaultCredentials(), time.Now).Get(apiURL + "/health")
	if err == nil {
		_ = answer.Body.Close()
		t.Fatal("sent without credentials")
	}
	if !strings.Contains(err.Error(), "log in to AWS") || !workflow.Is(err, workflow.CodeUnauthorized) {
		t.Errorf("without credentials: %v", err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	if got := send(t, DefaultCredentials(), "GET", apiURL, "").request.Header.Get("Authorization"); !strings.Contains(got, "Credential=AKIDEXAMPLE/20261121/eu-west-1/execute-api/") {
		t.Errorf("signed as %q", got)
	}
	t.Setenv("LOCKSTEP_TOKEN", "jwt")
	t.Setenv("LOCKSTEP_REGION", "eu-north-1")
	if got := DefaultCredentials(); got.Token != "jwt" || got.Region != "eu-north-1" {
		t.Errorf("the token is %q, the region %q", got.Token, got.Region)
	}
}
