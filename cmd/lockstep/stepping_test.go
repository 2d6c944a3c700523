package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// "resume" lets an execution that waits in front of a step enter it, by the number that the
// execution shows, and ends any other wait. A rewind sends what it is given.
func TestResume_EntersNextStep(t *testing.T) {
	for args, want := range map[string][]string{
		"resume STEP":                       {`POST /workflow-execution/STEP/next {"sequence":3}`},
		"resume STEP --all --reason go":     {`POST /workflow-execution/STEP/next {"reason":"go","sequence":3,"all":true}`},
		"resume TIMER":                      {`POST /workflow-execution/TIMER/resume {}`},
		"resume TIMER --all":                nil,
		"rewind STEP --to a.b --force":      {`POST /workflow-execution/STEP/rewind {"to":"a.b","force":true}`},
		"rewind STEP":                       nil,
		"run a/b --step --probe --id sw-1":  nil,
		"run a/b --step --id sw-1 --detach": {`POST /workflow-execution {"workflow":"a/b","executeOnParameters":{"ids":["sw-1"]},"mode":"step"}`},
		"run a/b --rollback NEVER --max-time 90m --region eu --detach": {`POST /workflow-execution {"workflow":"a/b","rollback":"never","timeout":"1h30m0s","region":"eu"}`},
		"run a/b --hold --id sw-1 --detach":                            {`POST /workflow-execution {"workflow":"a/b","executeOnParameters":{"ids":["sw-1"]},"hold":true}`},
	} {
		var requests []string
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if r.Method == http.MethodPost {
				requests = append(requests, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+string(body)))
				w.WriteHeader(http.StatusAccepted)
			}
			waiting := `{"kind":"TIMER","for":[]}`
			if strings.Contains(r.URL.Path, "STEP") {
				waiting = `{"kind":"STEP","step":"two","sequence":3,"for":[]}`
			}
			_, _ = io.WriteString(w, `{"id":"X","workflow":{"package":"a","name":"b","version":"1.0.0"},"state":"WAITING","status":"ACTIVE","entities":{"device":1},"waiting":`+waiting+`}`)
		}))
		got := runCommand(t, append(strings.Fields(args), "--url", s.URL)...)
		s.Close()
		if !slices.Equal(requests, want) || (got.code == 0) != (want != nil) {
			t.Errorf("%s: exit %d, requests %q, want %q\n%s%s", args, got.code, requests, want, got.stdout, got.stderr)
		}
	}
}

// Resuming an execution that waits for an answer explains how to answer. Each request carries the
// caller's roles.
func TestResume_NamesTheAnswer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"status":400,"code":"invalid","detail":"it waits for input","errors":[{"path":"input","code":"required","message":"for `+r.Header.Get("X-Roles")+`"}]}`)
			return
		}
		_, _ = io.WriteString(w, `{"id":"X","workflow":{"package":"a","name":"b","version":"1.0.0"},"state":"WAITING","status":"ACTIVE","waiting":{"kind":"INPUT","step":"ask","for":[]}}`)
	}))
	defer s.Close()
	got := runCommand(t, "resume", "X", "--roles", "cab,duty", "--url", s.URL)
	if got.code == 0 || !strings.Contains(got.stderr, `lockstep answer X --ask`) || !strings.Contains(got.stderr, "for cab,duty") {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
}
