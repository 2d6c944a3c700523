package e2e

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A web page in a browser of the same machine reaches nothing of the local stack: not the
// API under a name of its own, and none of the internal ports.
func TestLocalStack_AnswersNoWebPage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startStack(t, stackOptions{data: dir})
	request := func(method, url string, change func(*http.Request)) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		change(r)
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = reply.Body.Close()
		return reply.StatusCode
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	if got := request(http.MethodGet, s.url+"/workers", host("localhost")); got != http.StatusOK {
		t.Errorf("localhost: %d", got)
	}
	if got := request(http.MethodGet, s.url+"/workers", host("evil.example:3030")); got != http.StatusMisdirectedRequest {
		t.Errorf("another name: %d", got)
	}

	env, err := os.ReadFile(filepath.Join(dir, "worker.env"))
	if err != nil {
		t.Fatal(err)
	}
	endpoint := func(name string) string {
		m := regexp.MustCompile(`(?m)^export ` + name + `=(\S+)$`).FindSubmatch(env)
		if m == nil {
			t.Fatalf("worker.env has no %s", name)
		}
		return string(m[1])
	}
	queues := endpoint("AWS_ENDPOINT_URL_SQS")
	for name, change := range map[string]func(*http.Request){
		"another name": host("evil.example"),
		"a script":     func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
	} {
		if got := request(http.MethodPost, queues, change); got != http.StatusForbidden {
			t.Errorf("queues, %s: %d", name, got)
		}
	}
	address, secret, found := strings.Cut(strings.TrimPrefix(queues, "http://"), "/")
	if !found || len(secret) < 26 {
		t.Errorf("the address of the queues has no secret: %s", queues)
	}
	program := func(*http.Request) {}
	for url, want := range map[string]int{queues + "/_meter": http.StatusOK, "http://" + address + "/_meter": http.StatusNotFound, "http://" + address + "/" + strings.Repeat("A", len(secret)) + "/_meter": http.StatusNotFound} {
		if got := request(http.MethodGet, url, program); got != want {
			t.Errorf("%s: %d, want %d", url, got, want)
		}
	}
	for _, url := range []string{queues, endpoint("AWS_ENDPOINT_URL_DYNAMODB")} {
		if regexp.MustCompile(`//(127\.0\.0\.1|localhost):`).MatchString(url) {
			t.Errorf("a page can guess the address %s", url)
		}
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	s.stopProcess()
	if secret != "" && strings.Contains(s.log.String(), secret) {
		t.Error("the log has the secret of the queues")
	}
}
