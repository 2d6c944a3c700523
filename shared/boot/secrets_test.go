package boot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// The services answer as AWS does. A secret is read once in five minutes, of its tenant, and no error
// shows anything of it.
func TestSecrets_AreReadFromServices(t *testing.T) {
	requests, status := []string(nil), http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in map[string]any
		_ = json.NewDecoder(r.Body).Decode(&in)
		name := fmt.Sprint(in["SecretId"], in["Name"], in["ResourceId"])
		name = strings.TrimSpace(strings.ReplaceAll(name, "<nil>", ""))
		requests = append(requests, r.Header.Get("X-Amz-Target")+" "+name)
		if service := strings.ToLower(strings.Split(strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "Amazon"), ".")[0]); !strings.Contains(r.Header.Get("Authorization"), "/eu-west-1/"+service+"/aws4_request") {
			t.Errorf("%s: %s", service, r.Header.Get("Authorization"))
		}
		switch {
		case status != http.StatusOK:
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"__type":"InternalServiceError","message":"hunter2"}`))
		case strings.HasSuffix(name, "/gone"):
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"__type":"com.amazonaws#` + map[bool]string{true: "ParameterNotFound", false: "ResourceNotFoundException"}[in["Name"] != nil] + `"}`))
		case in["Name"] != nil:
			if in["WithDecryption"] != true {
				t.Error("the parameter is not decrypted")
			}
			_, _ = w.Write([]byte(`{"Parameter":{"Value":"hunter2"}}`))
		case strings.HasSuffix(name, "/deleted"):
			_, _ = w.Write([]byte(`{"DeletedDate":1.6e9}`))
		case strings.HasSuffix(name, "/bytes"):
			_, _ = w.Write([]byte(`{"SecretBinary":"aHVudGVyMg=="}`))
		default:
			_, _ = w.Write([]byte(`{"SecretString":"hunter2"}`))
		}
	}))
	defer server.Close()
	t.Setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", server.URL)
	t.Setenv("AWS_ENDPOINT_URL_SSM", server.URL)
	c := aws.Config{Region: "eu-west-1", HTTPClient: server.Client(), Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "key"}, nil
	})}
	now := time.Unix(1e9, 0)
	for from, want := range map[string][2]string{
		"secretsmanager:acme/": {"secretsmanager.GetSecretValue acme/t/a/b", "secretsmanager.DescribeSecret acme/t/"},
		"ssm:/acme/":           {"AmazonSSM.GetParameter /acme/t/a/b", "AmazonSSM.ListTagsForResource /acme/t/"},
	} {
		s := NewSecrets(from, c, func() time.Time { return now })
		requests, status = nil, http.StatusOK
		for range 2 {
			if got, err := s.Secret(t.Context(), "t", "a/b"); err != nil || got != "hunter2" {
				t.Errorf("%s: %s, %v", from, got, err)
			}
		}
		now = now.Add(secretLife - time.Second)
		_, _ = s.Secret(t.Context(), "t", "a/b")
		if len(requests) != 1 || requests[0] != want[0] {
			t.Errorf("%s: %v", from, requests)
		}
		if _, err := s.Secret(t.Context(), "u", "a/b"); err != nil || len(requests) != 2 || strings.Contains(requests[1], "/t/") {
			t.Errorf("another tenant: %v, %v", requests, err)
		}
		now = now.Add(time.Second)
		status = http.StatusInternalServerError
		if got, err := s.Secret(t.Context(), "t", "a/b"); err == nil || workflow.Is(err, workflow.CodeNotFound) || strings.Contains(err.Error(), "hunter2") || got != "" {
			t.Errorf("%s, which does not answer: %s, %v", from, got, err)
		}
		if len(requests) != 4 {
			t.Errorf("%s is called once more: %v", from, requests)
		}
		status = http.StatusOK
		if _, err := s.Secret(t.Context(), "t", "gone"); !workflow.Is(err, workflow.CodeNotFound) {
			t.Errorf("%s: %v", from, err)
		}
		for name, exists := range map[string]bool{"here": true, "gone": false} {
			requests = nil
			if got, err := s.Exists(t.Context(), "t", name); err != nil || got != exists || requests[0] != want[1]+name {
				t.Errorf("%s: %v, %v, %v", name, got, err, requests)
			}
		}
	}
	s := NewSecrets("secretsmanager:acme/", c, time.Now)
	if got, err := s.Exists(t.Context(), "t", "deleted"); got || err != nil {
		t.Errorf("a secret that is deleted: %v, %v", got, err)
	}
	if _, err := s.Secret(t.Context(), "t", "bytes"); !workflow.Is(err, workflow.CodeNotFound) || strings.Contains(err.Error(), "aHVu") {
		t.Errorf("bytes: %v", err)
	}
	if got, err := NewSecrets("", c, time.Now).Exists(t.Context(), "t", "a"); got || err != nil {
		t.Errorf("without secrets: %v, %v", got, err)
	}
}

// Who waits for a secret that another call reads stops waiting when it is stopped itself.
func TestSecrets_WaitNoLongerThanTheyMay(t *testing.T) {
	reading, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(reading)
		<-release
		_, _ = w.Write([]byte(`{"SecretString":"hunter2"}`))
	}))
	defer server.Close()
	t.Setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", server.URL)
	c := aws.Config{Region: "eu-west-1", HTTPClient: server.Client(), Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "key"}, nil
	})}
	s := NewSecrets("secretsmanager:acme/", c, time.Now)
	first := make(chan string)
	go func() {
		value, _ := s.Secret(context.Background(), "t", "a")
		first <- value
	}()
	<-reading
	stopped, stop := context.WithCancel(t.Context())
	stop()
	second := make(chan error, 1)
	go func() {
		_, err := s.Secret(stopped, "t", "a")
		second <- err
	}()
	select {
	case err := <-second:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a call that was stopped waits for another one")
	}
	close(release)
	if value := <-first; value != "hunter2" {
		t.Errorf("read %q", value)
	}
}

// A file has texts by name, for every tenant. It is read each time.
func TestSecrets_AreReadFromFile(t *testing.T) {
	path, now := filepath.Join(t.TempDir(), "secrets.json"), time.Unix(1e9, 0)
	s := NewSecrets("file:"+path, aws.Config{}, func() time.Time { return now }) // the clock stands still
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Secret(t.Context(), "t", "a"); err == nil || workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("no file: %v", err)
	}
	write(`{"a":"hunter2","b":7}`)
	if got, err := s.Secret(t.Context(), "t", "a"); got != "hunter2" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	write(`{"a":"hunter2+1","b":7}`)
	if got, err := s.Secret(t.Context(), "t", "a"); got != "hunter2+1" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	for name, want := range map[string]bool{"a": true, "b": false, "c": false} {
		if got, err := s.Exists(t.Context(), "t", name); got != want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	write(`{"a":"abc"}`)
	if got, err := s.Exists(t.Context(), "t", "a"); got || !workflow.Is(err, workflow.CodeInvalid) || strings.Contains(err.Error(), "abc") {
		t.Errorf("a value that steps refuse: %v, %v", got, err)
	}
	write(`{"a":"hunter2"`)
	if _, err := s.Secret(t.Context(), "t", "a"); err == nil || strings.Contains(err.Error(), "hunter") {
		t.Error(err)
	}
}
