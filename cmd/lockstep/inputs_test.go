package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

const askedInput = `{"execution":"x1","workflow":{"package":"fleet","name":"upgrade","version":"1.0.0"},"step":"approve","visit":2,"title":"Upgrade 3 devices?","schema":{"type":"object","required":["approved"],"properties":{"approved":{"type":"boolean"},"count":{"type":"integer","minimum":1},"note":{"type":"string","description":"for the log"},"when":{"enum":["now","later"],"default":"now"}}},"show":{"behind":["sw-1"]},"who":{"actors":[],"roles":["cab"],"notStarter":false},"approval":false,"need":1,"level":0,"answers":[],"since":"2026-01-01T00:00:00Z","until":"2026-01-02T00:00:00Z"}`

// inputService answers with one question, and keeps what is answered.
func inputService(t *testing.T, more string) (url string, answered *string) {
	t.Helper()
	answered = new(string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body)
			*answered = string(body)
			if r.Header.Get("Idempotency-Key") == "" {
				t.Error("an answer has no Idempotency-Key: it could count twice")
			}
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprint(w, `{"id":"x1","state":"RUNNING","status":"RUNNING"}`)
			return
		}
		fmt.Fprint(w, `{"items":[`+askedInput+more+`],"nextPageToken":null}`)
	}))
	t.Cleanup(s.Close)
	return s.URL, answered
}

// runWithInput executes the command with standard input.
func runWithInput(t *testing.T, input string, args ...string) commandResult {
	t.Helper()
	file, err := os.Open(writeFile(t, "input", input))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stdin := os.Stdin
	os.Stdin = file
	defer func() { os.Stdin = stdin }()
	return runCommand(t, args...)
}

func TestInputs_ListsWhatIsAsked(t *testing.T) {
	url, _ := inputService(t, "")
	for _, args := range [][]string{{"inputs", "--mine"}, {"inputs", "x1"}, {"inputs", "x1", "--mine"}} {
		if got := runCommand(t, append(args, "--url="+url)...); got.code != 0 || !strings.Contains(got.stdout, "Upgrade 3 devices?") || !strings.Contains(got.stdout, "0/1") {
			t.Errorf("%v: exit %d\n%s%s", args, got.code, got.stdout, got.stderr)
		}
	}
}

func TestAnswer_ReadsTheAnswer(t *testing.T) {
	url, answered := inputService(t, "")
	file := writeFile(t, "answer.json", `{"approved": true}`)
	for want, args := range map[string][]string{
		`{"input":{"approved":true}}`:                                 {"--data", `{"approved":true}`},
		`{"input":{"approved":true},"step":"approve","visit":1}`:      {"--file", file, "--step", "approve", "--visit", "1"},
		`{"input":{"approved":true,"note":"fine"},"reason":"looked"}`: {"--set", "approved=true", "--set", "note=fine", "--reason", "looked"},
	} {
		*answered = ""
		if got := runCommand(t, append(append([]string{"answer", "x1"}, args...), "--url="+url)...); got.code != 0 || strings.ReplaceAll(*answered, " ", "") != want {
			t.Errorf("%v: exit %d, sent %s\n%s", args, got.code, *answered, got.stderr)
		}
	}
	for _, args := range [][]string{nil, {"--data", "1", "--set", "a=1"}, {"--data", "nonsense"}, {"--ask", "--data", "1"}} {
		*answered = ""
		if got := runCommand(t, append(append([]string{"answer", "x1"}, args...), "--url="+url)...); got.code != exitUsage || *answered != "" {
			t.Errorf("%v: exit %d, sent %s", args, got.code, *answered)
		}
	}
}

func TestSignal_SendsItsData(t *testing.T) {
	url, sent := inputService(t, "")
	for want, args := range map[string][]string{
		`{}`:                        nil,
		`{"data":{"amount":12}}`:    {"--set", "amount=12", "--id", "i7"},
		`{"data":[1],"reason":"r"}`: {"--data", "[1]", "--reason", "r"},
	} {
		*sent = ""
		if got := runCommand(t, append(append([]string{"signal", "x1", "paid"}, args...), "--url="+url)...); got.code != 0 || *sent != want {
			t.Errorf("%v: exit %d, sent %s\n%s", args, got.code, *sent, got.stderr)
		}
	}
	*sent = ""
	if got := runCommand(t, "signal", "paid", "--workflow", "p/w", "--key", "order-7", "--data", "2", "--url="+url); got.code != 0 || *sent != `{"data":2}` {
		t.Errorf("by key: exit %d, sent %s\n%s", got.code, *sent, got.stderr)
	}
	if got := runCommand(t, "run", "p/w", "--key", "order-7", "--signal", `paid={"n":1}`, "--signal-id", "s", "-d", "--url="+url); got.code != 0 || *sent != `{"workflow":"p/w","key":"order-7","signal":{"name":"paid","data":{"n":1},"id":"s"}}` {
		t.Errorf("with a start: exit %d, sent %s\n%s", got.code, *sent, got.stderr)
	}
	*sent = ""
	for _, args := range [][]string{
		{"signal", "paid"}, {"signal", "x1", "paid", "--key", "k", "--workflow", "p/w"}, {"signal", "paid", "--key", "k"}, {"signal", "paid", "--key", "k", "--workflow", "p/w:1"},
		{"run", "p/w", "--signal", "paid"}, {"run", "p/w", "--key", "k", "--signal", "paid={"}, {"run", "p/w", "--key", "k", "--signal-id", "s"},
	} {
		if got := runCommand(t, append(args, "--url="+url)...); got.code != exitUsage || *sent != "" {
			t.Errorf("%v: exit %d, sent %s\n%s", args, got.code, *sent, got.stderr)
		}
	}
	if got := runCommand(t, "signal", "x1", "paid", "--data", "{", "--url="+url); got.code != exitUsage || *sent != "" {
		t.Errorf("exit %d, sent %s", got.code, *sent)
	}
}

// --ask asks for each field of the schema until it fits, and answers the run of the step that it
// has shown.
func TestAnswer_AsksForFields(t *testing.T) {
	url, answered := inputService(t, "")
	got := runWithInput(t, "what\n\nyes\n0\n3\n\n\n", "answer", "x1", "--ask", "--url="+url)
	if want := `{"input":{"approved":true,"count":3,"when":"now"},"step":"approve","visit":2}`; got.code != 0 || *answered != want {
		t.Errorf("exit %d, sent %s\n%s", got.code, *answered, got.stderr)
	}
	for _, want := range []string{"Upgrade 3 devices?", `{"behind":["sw-1"]}`, "approved (yes or no): ", "it is required", "note - for the log: ", `when (now, later) ["now"]: `} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("missing %q in\n%s", want, got.stderr)
		}
	}
	*answered = ""
	if got := runWithInput(t, "yes\n", "answer", "x1", "--ask", "--url="+url); got.code == 0 || *answered != "" {
		t.Errorf("an answer that ends early: exit %d, sent %s", got.code, *answered)
	}
	url, answered = inputService(t, ","+strings.Replace(askedInput, `"approve"`, `"other"`, 1))
	if got := runWithInput(t, "yes\n", "answer", "x1", "--ask", "--url="+url); got.code == 0 || *answered != "" || !strings.Contains(got.stderr, "--step") {
		t.Errorf("exit %d, sent %s\n%s", got.code, *answered, got.stderr)
	}
}

// tokenService answers the bearer of a token, and keeps the requests.
func tokenService(t *testing.T) (url string, sent *[]string) {
	t.Helper()
	sent = &[]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*sent = append(*sent, fmt.Sprint(r.Method, " ", r.URL.Path, " ", r.Header.Get("Authorization"), " ", string(body)))
		switch {
		case strings.HasSuffix(r.URL.Path, "/tokens") && r.Method == http.MethodGet:
			fmt.Fprint(w, `{"items":[{"step":"approve","visit":2,"by":"bob","for":"ann","at":"2026-01-02T00:00:00Z","expiresAt":null,"state":"revoked"}],"nextPageToken":null}`)
		case strings.HasSuffix(r.URL.Path, "/tokens"):
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, `{"token":"lst1.a.b","url":"https://lockstep.example/answer#lst1.a.b","execution":"x1","step":"approve","visit":1,"for":"ann","expiresAt":null}`)
		case r.Method == http.MethodGet:
			fmt.Fprint(w, `{"step":"approve","for":"ann","title":"Upgrade?","schema":{"type":"object","required":["approved"],"properties":{"approved":{"type":"boolean"}}},"show":null,"approval":true,"until":"2026-01-02T00:00:00Z","expiresAt":null}`)
		case strings.HasSuffix(r.URL.Path, "/revoke"):
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprint(w, `{"id":"x1","state":"WAITING","status":"RUNNING"}`)
		default:
			if r.Header.Get("Idempotency-Key") != "" {
				t.Error("the same answer, given again, is another one")
			}
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprint(w, `{"execution":"x1","step":"approve"}`)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, sent
}

// The bearer of a token answers without an execution and without other credentials. The token is
// read from a file or from standard input too.
func TestAnswer_WithAToken(t *testing.T) {
	url, sent := tokenService(t)
	t.Setenv("LOCKSTEP_TOKEN", "of-the-operator")
	file := writeFile(t, "token.txt", " lst1.a.b\n")
	const posted = `POST /answers Bearer lst1.a.b {"input":{"approved":true}}`
	for _, args := range [][]string{{"--token", "lst1.a.b"}, {"--token", "@" + file}} {
		*sent = nil
		if got := runCommand(t, append(append([]string{"answer", "--set", "approved=true"}, args...), "--url="+url)...); got.code != 0 || strings.Join(*sent, "|") != posted || strings.Contains(got.stdout+got.stderr, "lst1") {
			t.Errorf("%v: exit %d, sent %v\n%s%s", args, got.code, *sent, got.stdout, got.stderr)
		}
	}
	*sent = nil
	if got := runWithInput(t, "lst1.a.b\n", "answer", "--token", "-", "--data", `{"approved":true}`, "--url="+url); got.code != 0 || strings.Join(*sent, "|") != posted {
		t.Errorf("exit %d, sent %v\n%s", got.code, *sent, got.stderr)
	}
	*sent = nil
	if got := runWithInput(t, "maybe\nyes\n", "answer", "--token", "lst1.a.b", "--ask", "--url="+url); got.code != 0 || strings.Join(*sent, "|") != "GET /answers Bearer lst1.a.b |"+posted || !strings.Contains(got.stderr, "Upgrade?") {
		t.Errorf("exit %d, sent %v\n%s", got.code, *sent, got.stderr)
	}
	*sent = nil
	for _, args := range [][]string{{"answer", "--data", "1"}, {"answer", "x1", "--token", "lst1.a.b", "--data", "1"}, {"answer", "--token", "lst1.a.b", "--step", "a", "--data", "1"}, {"token", "x1"}, {"token", "x1", "--for", "ann", "--revoke"}} {
		if got := runCommand(t, append(args, "--url="+url)...); got.code != exitUsage || len(*sent) > 0 {
			t.Errorf("%v: exit %d, sent %v", args, got.code, *sent)
		}
	}
}

func TestToken_MakesAndRevokes(t *testing.T) {
	url, sent := tokenService(t)
	if got := runCommand(t, "token", "x1", "--for", "ann", "--step", "approve", "--url="+url); got.code != 0 || got.stdout != "lst1.a.b\n" || !strings.Contains(got.stderr, "in a browser: https://lockstep.example/answer#lst1.a.b") || (*sent)[0] != `POST /workflow-execution/x1/tokens  {"for":"ann","step":"approve"}` {
		t.Errorf("exit %d, sent %v\n%s%s", got.code, *sent, got.stdout, got.stderr)
	}
	*sent = nil
	if got := runCommand(t, "token", "x1", "--for", "ann", "--expires", "1h", "--url="+url); got.code != 0 || !strings.Contains((*sent)[0], `"expiresAt":"`) {
		t.Errorf("exit %d, sent %v", got.code, *sent)
	}
	*sent = nil
	if got := runCommand(t, "token", "x1", "--revoke", "--reason", "r", "--url="+url); got.code != 0 || (*sent)[0] != `POST /workflow-execution/x1/tokens/revoke  {"reason":"r"}` {
		t.Errorf("exit %d, sent %v", got.code, *sent)
	}
	*sent = nil
	if got := runCommand(t, "tokens", "x1", "--url="+url); got.code != 0 || (*sent)[0] != `GET /workflow-execution/id/x1/tokens  ` || !strings.Contains(got.stdout, "revoked") || !strings.Contains(got.stdout, "bob") {
		t.Errorf("exit %d, sent %v\n%s", got.code, *sent, got.stdout)
	}
}

func TestStatus_ShowsTheKey(t *testing.T) {
	for fields, want := range map[string]string{
		`"key":"order-7"`:                 "\nkey: order-7\n",
		`"key":"order-7","keyOwner":"x2"`: "\nkey: order-7, which execution x2 has\n",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"id":"x1","state":"CANCELLED_ACK","status":"CANCELLED",%s}`, fields)
		}))
		if got := runCommand(t, "status", "x1", "--url="+s.URL); got.code != 0 || !strings.Contains(got.stdout, want) {
			t.Errorf("%s: exit %d\n%s%s", fields, got.code, got.stdout, got.stderr)
		}
		s.Close()
	}
}
