package emulator

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/tests/testkit"
)

// fakeMachine makes a PATH with only the given programs: scripts that exit with the
// given status.
func fakeMachine(t *testing.T, programs map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, exit := range programs {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("#!/bin/sh\nexit "+exit+"\n"), 0o700); err != nil { //nolint:gosec // an executable
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	t.Setenv("HOME", dir)
	t.Setenv("PYTHON", "")
	t.Setenv("PYENV_ROOT", "")
	return dir
}

// A Python that is too old does not count; pyenv's newest is found outside PATH.
func TestFindPython_PicksNewestSupported(t *testing.T) {
	for name, c := range map[string]struct {
		programs map[string]string
		want     string
	}{
		"none":       {nil, ""},
		"too old":    {map[string]string{"python3": "1"}, ""},
		"on path":    {map[string]string{"python3": "1", "python3.13": "0"}, "python3.13"},
		"pyenv":      {map[string]string{"python3": "1", ".pyenv/versions/3.13.0/bin/python": "0", ".pyenv/versions/3.11.9/bin/python": "1"}, ".pyenv/versions/3.13.0/bin/python"},
		"newer one":  {map[string]string{"python3.14": "0", "python3.13": "0"}, "python3.14"},
		"other name": {map[string]string{"mine": "1", "python3": "0"}, "python3"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := fakeMachine(t, c.programs)
			got := findPython(t.Context())
			if got != c.want && got != filepath.Join(dir, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
	dir := fakeMachine(t, map[string]string{"mine": "0", "python3.14": "0"})
	t.Setenv("PYTHON", filepath.Join(dir, "mine"))
	if got := findPython(t.Context()); got != filepath.Join(dir, "mine") {
		t.Errorf("found %q, want the interpreter named by PYTHON", got)
	}
}

// Without Python, Docker is used; without both, the error is ErrUnavailable.
func TestChooseMode_PythonThenDocker(t *testing.T) {
	for name, c := range map[string]struct {
		docker, wanted, interpreter, mode string
		unavailable                       bool
	}{
		"neither":           {"1", "", "", "", true},
		"daemon":            {"0", "", "", ModeDocker, false},
		"Python":            {"1", "", "python3.13", ModeHost, false},
		"both":              {"0", "", "python3.13", ModeHost, false},
		"both, Docker":      {"0", ModeDocker, "python3.13", ModeDocker, false},
		"Docker, no daemon": {"1", ModeDocker, "python3.13", "", true},
		"host, no Python":   {"0", ModeHost, "", "", true},
		"unknown mode":      {"0", "cloud", "python3.13", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			fakeMachine(t, map[string]string{"docker": c.docker})
			got, err := chooseMode(t.Context(), c.wanted, c.interpreter)
			if got != c.mode || errors.Is(err, ErrUnavailable) != c.unavailable || (err == nil) != (c.mode != "") {
				t.Errorf("mode %q, %v", got, err)
			}
		})
	}
}

func TestStart_WithoutPythonOrDockerIsUnavailable(t *testing.T) {
	fakeMachine(t, map[string]string{"docker": "1"})
	if _, err := Start(t.Context(), Options{Dir: t.TempDir()}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("error %v", err)
	}
}

// A container that ends before it answers is an error, not an endless wait. A port in
// use is rejected before anything is started.
func TestStart_FailsFastOnEndedContainerAndUsedPort(t *testing.T) {
	fakeMachine(t, map[string]string{"docker": "0"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Options{Dir: t.TempDir(), Mode: ModeHost}); err == nil {
		t.Error("it started on a machine without Python")
	}
	port := testkit.OccupyPort(t)
	if _, err := Start(t.Context(), Options{Dir: t.TempDir(), Port: port}); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("port %d in use: %v", port, err)
	}
}

// The emulator and its clients get no variable that leads to a real account.
func TestBuildEnv_DropsAWSAndLocalStackVariables(t *testing.T) {
	t.Setenv("AWS_PROFILE", "production")
	t.Setenv("AWS_SESSION_TOKEN", "secret")
	t.Setenv("LOCALSTACK_AUTH_TOKEN", "secret")
	e := &LocalStack{port: 4566}
	for _, env := range [][]string{e.Env(), buildEnv(commonSettings(), hostSettings("/x", 1, 2), clientCredentials)} {
		for _, line := range env {
			if strings.Contains(line, "production") || strings.Contains(line, "secret") {
				t.Errorf("the environment has %s", line)
			}
		}
		if !slices.Contains(env, "AWS_ACCESS_KEY_ID=test") {
			t.Errorf("no access key in %v", env)
		}
	}
	if !slices.Contains(e.Env(), "AWS_ENDPOINT_URL=http://127.0.0.1:4566") {
		t.Errorf("no endpoint in %v", e.Env())
	}
}

func TestDockerArguments_PublishPortAndSocket(t *testing.T) {
	arguments := strings.Join(dockerArguments(4567), " ")
	for _, want := range []string{"--rm", "127.0.0.1:4567:4566", "/var/run/docker.sock", "SQS_ENDPOINT_STRATEGY=path", "host.docker.internal:host-gateway"} {
		if !strings.Contains(arguments, want) {
			t.Errorf("%s is not in %s", want, arguments)
		}
	}
	if !strings.HasSuffix(arguments, " "+image) {
		t.Errorf("the arguments end with another image: %s", arguments)
	}
}

// The function's host name, which does not resolve, arrives as the Host header.
func TestNewFunctionURLProxy_SetsHostHeader(t *testing.T) {
	var host, path, tenant string
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		host, path, tenant = r.Host, r.URL.String(), r.Header.Get("X-Tenant")
	}))
	defer upstream.Close()
	address := strings.TrimPrefix(upstream.URL, "http://")
	handler, err := NewFunctionURLProxy("http://abc.lambda-url.us-east-1.nowhere.invalid:4566/", address, func(r *http.Request) { r.Header.Set("X-Tenant", "t") })
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(handler)
	defer proxy.Close()
	reply, err := http.Get(proxy.URL + "/a%2Fb?x=1")
	if err != nil {
		t.Fatal(err)
	}
	_ = reply.Body.Close() // only the status matters
	if reply.StatusCode != http.StatusOK || host != "abc.lambda-url.us-east-1.nowhere.invalid:4566" || path != "/a%2Fb?x=1" || tenant != "t" {
		t.Errorf("status %d, host %q, path %q, tenant %q", reply.StatusCode, host, path, tenant)
	}
}
