package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/localstack/process"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// start runs the program. It returns its address, and a function that ends it and returns
// its exit code and its standard error.
func start(t *testing.T, args ...string) (url string, end func() (int, string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	ready, stderr := process.NewReadyLine(), &testkit.Buffer{}
	code := make(chan int, 1)
	go func() { code <- run(ctx, args, ready, stderr) }()
	end = func() (int, string) { cancel(); c := <-code; return c, stderr.String() }
	select {
	case url = <-ready.URL():
	case c := <-code:
		t.Fatalf("no ready line: exit code %d, %s", c, stderr)
	}
	if !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Fatalf("URL %q", url)
	}
	return url, end
}

func body(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func upgrade(t *testing.T, url, id string) {
	t.Helper()
	request, err := http.NewRequest("POST", url+"/devices/"+id+"/upgrade", strings.NewReader(`{"target": "2.0.0"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Fence", "0000000001-000001-01-01")
	request.Header.Set("Idempotency-Key", "job-"+id)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != 200 {
		t.Fatalf("status %d", response.StatusCode)
	}
}

func TestRun_SurvivesRestart(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state.jsonl")
	args := []string{"--port", "0", "--inventory", "../../inventory.jsonl", "--initial-version", "1.4.2", "--state", state}
	for round, want := range []string{`"versions":{"1.4.2":100}`, `"versions":{"1.4.2":99,"2.0.0":1}`} {
		url, end := start(t, args...)
		if got := body(t, url+"/devices"); !strings.Contains(got, want) {
			t.Errorf("round %d: %s not found in %.200s", round, want, got)
		}
		upgrade(t, url, "sw-042")
		if got := body(t, url+"/judge"); strings.TrimSpace(got) != `{"violations":[]}` {
			t.Errorf("round %d: %s", round, got)
		}
		if code, complaint := end(); code != 0 || complaint != "" {
			t.Errorf("round %d: exit code %d, %q", round, code, complaint)
		}
	}
}

func TestRun_EndsWhileDeviceIsSlow(t *testing.T) {
	url, end := start(t, "--port", "0", "--devices", "10")
	response, err := http.Post(url+"/control", "application/json", strings.NewReader(`{"slow": {"for": "1h"}}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	over := make(chan error, 1)
	go func() {
		request, err := http.NewRequest("POST", url+"/devices/sw-001/touch", nil)
		if err == nil {
			request.Header.Set("X-Fence", "1")
			request.Header.Set("Idempotency-Key", "job")
			var response *http.Response
			if response, err = http.DefaultClient.Do(request); err == nil {
				_ = response.Body.Close()
			}
		}
		over <- err
	}()
	testkit.Eventually(t, "the device is busy", func() bool { return strings.Contains(body(t, url+"/devices"), `"busy":true`) })
	if code, complaint := end(); code != 0 || complaint != "" {
		t.Errorf("exit code %d, %q", code, complaint)
	}
	if err := <-over; err != nil {
		t.Errorf("the caller got no response: %v", err)
	}
}

func TestRun_PrintsInventory(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"--devices", "100", "--print-inventory"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d, %s", code, &stderr)
	}
	want, err := os.ReadFile("../../inventory.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(stdout.Bytes(), want) {
		t.Error("it is not the inventory of the example")
	}
}

func TestRun_RefusesBadFlags(t *testing.T) {
	port := strconv.Itoa(testkit.OccupyPort(t))
	empty := filepath.Join(t.TempDir(), "empty.jsonl")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"unknown flag":      {[]string{"--explode"}, 2, "explode"},
		"argument":          {[]string{"now"}, 2, `"now"`},
		"not a number":      {[]string{"--port", "x"}, 2, "port"},
		"no devices":        {[]string{"--devices", "0"}, 2, "--devices is 0"},
		"port out of range": {[]string{"--port", "70000"}, 1, "70000"},
		"port in use":       {[]string{"--port", port}, 1, "is in use"},
		"no inventory":      {[]string{"--inventory", "/nowhere.jsonl"}, 1, "/nowhere.jsonl"},
		"empty inventory":   {[]string{"--inventory", empty}, 1, "no device"},
		"state directory":   {[]string{"--port", "0", "--state", t.TempDir()}, 1, "state file"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), c.args, &stdout, &stderr)
			if code != c.code || !strings.Contains(stderr.String(), c.says) || stdout.Len() != 0 {
				t.Errorf("exit code %d, %q; want %d, %q", code, &stderr, c.code, c.says)
			}
		})
	}
}
