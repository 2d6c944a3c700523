package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain runs the tests, or, started by a script as lockstep, the command.
func TestMain(m *testing.M) { testscript.Main(isolated{m}, map[string]func(){"lockstep": main}) }

// isolated runs the tests without the profiles and the variables of the user who runs them.
type isolated struct{ *testing.M }

func (m isolated) Run() int {
	dir, err := os.MkdirTemp("", "lockstep-config")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "LOCKSTEP_") {
			_ = os.Unsetenv(name)
		}
	}
	_ = os.Setenv("XDG_CONFIG_HOME", dir)
	return m.M.Run()
}

// useProfiles writes a file with profiles for one test.
func useProfiles(t *testing.T, text string) (path string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	path = filepath.Join(dir, "lockstep", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A flag precedes a variable, a variable the profile, and the profile a default.
func TestConfig_ShowsWhereEachSettingIsFrom(t *testing.T) {
	path := useProfiles(t, "current: lab\nprofiles:\n  lab: {url: http://lab.example, tenant: lab}\n  prod: {url: https://prod.example, tenant: acme, actor: ann, region: eu-west-1, auth: iam}\n")
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		want map[string]string
	}{
		"the one in use":      {nil, nil, map[string]string{"profile": "lab|" + path, "url": "http://lab.example|profile lab", "tenant": "lab|profile lab", "actor": "|default", "auth": "signed where API Gateway asks for it|default"}},
		"a variable names it": {nil, map[string]string{"LOCKSTEP_PROFILE": "prod"}, map[string]string{"profile": "prod|variable LOCKSTEP_PROFILE", "url": "https://prod.example|profile prod", "auth": "iam|profile prod", "region": "eu-west-1|profile prod"}},
		"a flag names it":     {[]string{"--profile=prod"}, map[string]string{"LOCKSTEP_PROFILE": "none"}, map[string]string{"profile": "prod|flag --profile", "actor": "ann|profile prod"}},
		"variables precede":   {[]string{"--profile=prod"}, map[string]string{"LOCKSTEP_TENANT": "t2", "LOCKSTEP_REGION": "us-east-1", "LOCKSTEP_TOKEN": "secret-token"}, map[string]string{"tenant": "t2|variable LOCKSTEP_TENANT", "region": "us-east-1|variable LOCKSTEP_REGION", "auth": "token|variable LOCKSTEP_TOKEN"}},
		"flags precede":       {[]string{"--profile=prod", "--tenant=t3", "--url=http://x.example"}, map[string]string{"LOCKSTEP_TENANT": "t2", "LOCKSTEP_URL": "http://y.example"}, map[string]string{"tenant": "t3|flag --tenant", "url": "http://x.example|flag --url", "region": "|default"}},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			got := runCommand(t, append([]string{"config", "show", "-o", "json"}, c.args...)...)
			var all map[string]setting
			if err := json.Unmarshal([]byte(got.stdout), &all); err != nil || got.code != 0 {
				t.Fatalf("exit %d: %s%s", got.code, got.stdout, got.stderr)
			}
			for key, want := range c.want {
				if s := all[key].Value + "|" + all[key].From; s != want {
					t.Errorf("%s is %s, want %s", key, s, want)
				}
			}
			if strings.Contains(got.stdout, "secret-token") {
				t.Error("the token is shown")
			}
		})
	}
	if got := runCommand(t, "config", "show"); got.code != 0 || !strings.Contains(got.stdout, "http://lab.example") || !strings.Contains(got.stdout, "profile lab") {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if got := runCommand(t, "config", "path"); strings.TrimSpace(got.stdout) != path {
		t.Errorf("%s%s", got.stdout, got.stderr)
	}
}

// The credentials of a profile go to its own service, and to no other.
func TestProfile_CredentialsAreForItsService(t *testing.T) {
	seen := map[string]string{}
	serve := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen[name] = r.Header.Get("Authorization") + "|" + r.Header.Get("X-Tenant") + "|" + r.Header.Get("X-Actor")
			fmt.Fprint(w, `{"items":[],"nextPageToken":null}`)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	own, other := serve("own"), serve("other")
	useProfiles(t, "profiles:\n  program: {url: '"+own+"', tenant: acme, tokenCommand: [echo, from-program]}\n  variable: {url: '"+own+"/', actor: ann, tokenEnv: MY_TOKEN}\n")
	t.Setenv("MY_TOKEN", "from-variable")
	for _, c := range []struct {
		args  []string
		token string // LOCKSTEP_TOKEN
		name  string
		want  string
		note  string
	}{
		{[]string{"--profile=program"}, "", "own", "Bearer from-program|acme|", ""},
		{[]string{"--profile=variable"}, "", "own", "Bearer from-variable||ann", ""},
		{[]string{"--profile=program"}, "mine", "own", "Bearer mine|acme|", ""},
		{[]string{"--profile=program", "--url=" + other}, "", "other", "|acme|", "are not used"},
		{[]string{"--profile=variable", "--url=" + other}, "", "other", "||ann", "are not used"},
	} {
		clear(seen)
		t.Setenv("LOCKSTEP_TOKEN", c.token)
		got := runCommand(t, append([]string{"list"}, c.args...)...)
		if got.code != 0 || len(seen) != 1 || seen[c.name] != c.want || !strings.Contains(got.stderr, c.note) {
			t.Errorf("%q: exit %d, %v, want %s\n%s", c.args, got.code, seen, c.want, got.stderr)
		}
	}
	t.Setenv("LOCKSTEP_TOKEN", "")
	t.Setenv("LOCKSTEP_URL", other)
	if got := runCommand(t, "list", "--profile=program"); got.code != 0 || !strings.Contains(got.stderr, "from the variable LOCKSTEP_URL, which precedes the profile's") {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
	t.Setenv("LOCKSTEP_URL", "")
	t.Setenv("MY_TOKEN", "")
	if got := runCommand(t, "list", "--profile=variable"); got.code != exitRefused || !strings.Contains(got.stderr, "the variable MY_TOKEN is empty") {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
}

// A profile that names no service cannot authorise a caller: its credentials would go to any.
func TestProfile_WithoutAddressHasNoCredentials(t *testing.T) {
	requests := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		fmt.Fprint(w, `{"items":[],"nextPageToken":null}`)
	}))
	defer s.Close()
	path := useProfiles(t, "current: lab\nprofiles:\n  lab:\n    tenant: acme\n    tokenCommand: [echo, secret-of-lab]\n")
	got := runCommand(t, "list", "--url="+s.URL)
	if want := path + ":5:5 profiles.lab.tokenCommand: tokenCommand is for one service only, and the profile has no url: set that first (lockstep config set --profile lab url https://...)"; got.code != exitUsage || !strings.Contains(got.stderr, want) || requests > 0 {
		t.Errorf("exit %d, %d requests\n%swant %s", got.code, requests, got.stderr, want)
	}
	// It says who calls all the same.
	useProfiles(t, "current: lab\nprofiles:\n  lab: {tenant: acme}\n")
	if got := runCommand(t, "list", "--url="+s.URL); got.code != 0 || requests != 1 || strings.Contains(got.stderr, "not used") {
		t.Errorf("exit %d, %d requests\n%s", got.code, requests, got.stderr)
	}
	if got := runCommand(t, "config", "set", "tokenEnv", "T"); got.code != exitUsage || !strings.Contains(got.stderr, "nothing was written") || !strings.Contains(got.stderr, "set that first") {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
}

// Nobody on the network path sees a token, and no program runs for a token that cannot be sent.
func TestProfile_TokenIsNotSentOverPlainHTTP(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "executed")
	useProfiles(t, "current: lab\nprofiles:\n  lab: {url: 'http://lockstep.example', tokenCommand: [sh, -c, 'echo x >\"$0\"; echo token', '"+trace+"']}\n")
	for _, token := range []string{"", "of-the-variable"} {
		t.Setenv("LOCKSTEP_TOKEN", token)
		if got := runCommand(t, "list"); got.code != exitRefused || !strings.Contains(got.stderr, "no token is sent to http://lockstep.example") || !strings.Contains(got.stderr, "use its https address") {
			t.Errorf("exit %d\n%s", got.code, got.stderr)
		}
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("the program was executed")
	}
}

func TestProfile_ExplainsWhatIsWrong(t *testing.T) {
	path := useProfiles(t, "profiles:\n  prod: {url: http://prod.example, auth: iam}\n  broken:\n    url: https://a.example\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"list", "--profile=prd"}, `there is no profile "prd" in ` + path + `; did you mean "prod"?; there are broken, prod`},
		{[]string{"list", "--profile=prod"}, "which http://prod.example cannot check"},
		{[]string{"config"}, ""},
		{[]string{"config", "use", "prd"}, "did you mean"},
		{[]string{"config", "set", "url", "https://a.example"}, "which profile? --profile NAME names it"},
		{[]string{"config", "set", "--profile=prod", "uri", "https://a.example"}, `did you mean "url"?`},
		{[]string{"config", "set", "--profile=prod", "url", "nonsense"}, "profiles.prod.url: want an address"},
	} {
		got := runCommand(t, c.args...)
		if c.want != "" && (got.code != exitUsage || !strings.Contains(got.stderr, c.want)) {
			t.Errorf("%q: exit %d\n%swant %q", c.args, got.code, got.stderr, c.want)
		}
	}
	path = useProfiles(t, "profiles:\n  prod:\n    password: x\n")
	got := runCommand(t, "list", "-o", "json")
	if got.code != exitUsage || !strings.Contains(got.stderr, path+":3:5 profiles.prod.password: secrets are not kept in this file") || !strings.Contains(got.stdout, `"file": "`+path) {
		t.Errorf("exit %d\n%s%s", got.code, got.stderr, got.stdout)
	}
}

func TestConfig_ChangesTheFile(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, c := range []struct {
		args      []string
		out, note string
	}{
		{[]string{"config", "list"}, "", "has no profile"},
		{[]string{"config", "set", "--profile=lab", "url", "http://localhost:4000"}, "", `"lockstep config use lab" uses it`},
		{[]string{"config", "set", "--profile=lab", "tokenCommand", "--", "echo", "-n", "t"}, "", ""},
		{[]string{"config", "use", "lab"}, "use lab", ""},
		{[]string{"config", "set", "tenant", "acme"}, "", ""},
		{[]string{"config", "list"}, "lab      yes     http://localhost:4000  acme    token from the program echo", ""},
		{[]string{"config", "set", "tokenCommand", ""}, "", ""},
		{[]string{"config", "list", "-o", "json"}, `"auth": ""`, ""},
	} {
		got := runCommand(t, c.args...)
		if got.code != 0 || !strings.Contains(got.stdout, c.out) || !strings.Contains(got.stderr, c.note) {
			t.Errorf("%q: exit %d\n%s%s", c.args, got.code, got.stdout, got.stderr)
		}
	}
}

// Verbs that print a line print an object for programs.
func TestConfig_PrintsJSON(t *testing.T) {
	path := useProfiles(t, "profiles:\n  lab: {url: http://lab.example}\n")
	for line, want := range map[string]map[string]string{
		"config path":                          {"path": path},
		"config use lab":                       {"profile": "lab"},
		"config set --profile lab tenant acme": {"profile": "lab"},
	} {
		got := runCommand(t, append(strings.Fields(line), "-o", "json")...)
		var all map[string]string
		if err := json.Unmarshal([]byte(got.stdout), &all); err != nil || got.code != 0 || !maps.Equal(all, want) {
			t.Errorf("%s: exit %d, %v\n%s%s", line, got.code, err, got.stdout, got.stderr)
		}
	}
}
