package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/client"
)

// signingTransport signs what it sends.
type signingTransport struct{}

func (signingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "signed")
	return http.DefaultTransport.RoundTrip(r)
}

// A browser on this machine reads what the service returns for signed requests. Of
// the browser's headers only the listed ones are forwarded.
func TestPageProxy_ForwardsSignedReads(t *testing.T) {
	var seen *http.Request
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r
		w.Header().Set("Content-Security-Policy", "default-src 'none'")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "hello")
	}))
	defer service.Close()
	at, err := url.Parse(service.URL)
	if err != nil {
		t.Fatal(err)
	}
	h := newPageProxy(at, signingTransport{}, "acme")
	for name, c := range map[string]struct {
		method, host string
		header       http.Header
		want         int
	}{
		"a local browser":          {"GET", "localhost:3031", http.Header{"Cookie": {"a=b"}, "Accept": {"application/json"}, "X-Actor": {"root"}, "Authorization": {"mine"}}, http.StatusTeapot},
		"the address as a number":  {"HEAD", "127.0.0.1", nil, http.StatusTeapot},
		"the page's own request":   {"GET", "[::1]:1", http.Header{"Sec-Fetch-Site": {"same-origin"}}, http.StatusTeapot},
		"a name resolving to here": {"GET", "evil.example:3031", nil, http.StatusForbidden},
		"a page of another site":   {"GET", "localhost:3031", http.Header{"Sec-Fetch-Site": {"cross-site"}}, http.StatusForbidden},
		"a page from another port": {"GET", "localhost:3031", http.Header{"Sec-Fetch-Site": {"same-site"}}, http.StatusForbidden},
		"a write":                  {"POST", "localhost:3031", nil, http.StatusMethodNotAllowed},
	} {
		seen = nil
		r := httptest.NewRequest(c.method, "/workflow-execution?limit=1", nil)
		r.Host = c.host
		for name, values := range c.header {
			r.Header[name] = values
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
			continue
		}
		if (seen != nil) != (c.want == http.StatusTeapot) {
			t.Errorf("%s: request forwarded: %v", name, seen != nil)
		}
		if seen == nil {
			continue
		}
		if seen.Header.Get("Authorization") != "signed" || seen.Header.Get("X-Tenant") != "acme" || seen.Header.Get("Cookie") != "" || seen.Header.Get("X-Actor") != "" ||
			seen.Header.Get("X-Forwarded-For") != "" || seen.Host != at.Host || seen.URL.RawQuery != "limit=1" || seen.Header.Get("Accept") != r.Header.Get("Accept") {
			t.Errorf("%s: forwarded %s %v %v", name, seen.Host, seen.URL, seen.Header)
		}
		if w.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("%s: the response has no Content-Security-Policy", name)
		}
	}
}

// The verb prints the address of the page, serves it, reports an unreachable service,
// and ends when its context does.
func TestPage_ServesUntilInterrupted(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	ctx, end := context.WithCancel(t.Context())
	read, write := io.Pipe()
	cmd := newPage(func() (string, string, http.RoundTripper, error) { return service.URL, "", http.DefaultTransport, nil })
	cmd.SetArgs([]string{"--port", "0"})
	cmd.SetOut(write)
	over := make(chan error, 1)
	go func() { over <- cmd.ExecuteContext(ctx) }()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, at, _ := strings.Cut(strings.TrimSuffix(line, "; Ctrl-C stops it\n"), " is at ")
	get := func() (int, string) {
		answer, err := http.Get(at)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	if code, text := get(); code != http.StatusOK || text != "hello" {
		t.Errorf("%d %q", code, text)
	}
	service.Close()
	if code, text := get(); code != http.StatusBadGateway || !strings.HasPrefix(text, "lockstep page: ") {
		t.Errorf("without a service: %d %q", code, text)
	}
	end()
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// The verb fails at once if the service cannot be reached.
func TestPage_FailsWhenServiceUnreachable(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	cmd := newPage(func() (string, string, http.RoundTripper, error) { return gone.URL, "", http.DefaultTransport, nil })
	cmd.SetArgs([]string{"--port", "0"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var unreachable *client.UnreachableError
	if err := cmd.ExecuteContext(t.Context()); !errors.As(err, &unreachable) {
		t.Errorf("got %v", err)
	}
}
