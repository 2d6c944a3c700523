package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// What is sent has the values that were set, defaults for the rest, and everything else as it is in the file.
func TestPublish_FillsPlaceholders(t *testing.T) {
	var sent []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		sent = append(sent, string(body))
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"package":"p","name":"w","version":"1.0.0"}`)
	}))
	defer s.Close()
	a := writeFile(t, "a.yaml", "limit: ${env.LIMIT:-5}\nregion: \"${env.REGION}\"\nkey: ${env.EMPTY:-}.\nlater: \"${parameters.LIMIT} ${env.result} ${env.n > 1} ${secret.${env.REGION}/key}\"\n")
	b := writeFile(t, "b.yaml", "limit: ${env.LIMIT:-7}\n")
	for _, c := range []struct {
		args []string
		want []string
		note string
	}{
		{nil, []string{"limit: 5\nregion: \"${env.REGION}\"\nkey: .\nlater: \"${parameters.LIMIT} ${env.result} ${env.n > 1} ${secret.${env.REGION}/key}\"\n", "limit: 7\n"}, ""},
		{
			[]string{"--set", "REGION=eu", "--set", "LIMIT=a=b $1", "--set", "OTHER=", "--set", "EMPTY="},
			[]string{"limit: a=b $1\nregion: \"eu\"\nkey: .\nlater: \"${parameters.LIMIT} ${env.result} ${env.n > 1} ${secret.eu/key}\"\n", "limit: a=b $1\n"},
			"--set OTHER has changed nothing",
		},
	} {
		sent = nil
		got := runCommand(t, append([]string{"publish", a, b, "--url", s.URL}, c.args...)...)
		if got.code != 0 || !slices.Equal(sent, c.want) || strings.Count(got.stderr, "has changed nothing") != min(1, len(c.note)) || !strings.Contains(got.stderr, c.note) {
			t.Errorf("%q: exit %d, sent %q\n%s", c.args, got.code, sent, got.stderr)
		}
	}
	for set, want := range map[string]string{"REGION": `wants NAME=VALUE, not "REGION"`, "1A=b": "a name is", "A B=c": "a name is", "A=b\nc": "a value is one line"} {
		sent = nil
		if got := runCommand(t, "publish", a, "--set", set, "--url", s.URL); got.code != exitUsage || !strings.Contains(got.stderr, want) || len(sent) > 0 {
			t.Errorf("%q: exit %d, sent %q\n%s", set, got.code, sent, got.stderr)
		}
	}
}

// A file is checked with its values without a service, and a name that is neither set nor has a default is refused.
func TestPublish_ChecksFilledFilesOffline(t *testing.T) {
	file := writeFile(t, "w.yaml", "package: p\nname: w\nversion: ${env.VERSION:-1.0.0}\nsteps: [{label: one, functionBlock: p/b:1, runOn: global, parameters: {to: \"${env.TO}\"}}]\n")
	if got := runCommand(t, "publish", "--dry-run", "--offline", "--set", "TO=ann", "--set", "VERSION=2.1.0", file); got.code != 0 || !strings.Contains(got.stdout, "valid p/w:2.1.0") {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if got := runCommand(t, "publish", "--dry-run", "--offline", file); got.code == 0 || !strings.Contains(got.stderr, "undeclared reference to 'env'") {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}
