package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// serveCourse starts a service whose execution X is, from one reading to the next, as the texts say; the last one
// stays. What a verb answers is the first.
func serveCourse(t *testing.T, course ...string) string {
	t.Helper()
	var lock sync.Mutex
	read := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		at := 0
		switch {
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusAccepted)
		case strings.HasSuffix(r.URL.Path, "/steps"):
			_ = json.NewEncoder(w).Encode(pageOf())
			return
		default:
			at = min(read, len(course)-1)
			read++
		}
		version := 1
		for i := range at {
			if course[i] != course[i+1] {
				version++
			}
		}
		fmt.Fprintf(w, `{"id":"X","workflow":{"package":"p","name":"w","version":"1.0.0"},"version":%d,%s}`, version, course[at])
	}))
	t.Cleanup(s.Close)
	return "--url=" + s.URL
}

const (
	running   = `"state":"RUNNING","status":"RUNNING"`
	cancelled = `"state":"CANCELLED_ACK","status":"CANCELLED","outcome":"CANCELLED","endedAt":"2026-11-21T05:00:00Z"`
	completed = `"state":"COMPLETED_ACK","status":"COMPLETED","outcome":"SUCCEEDED"`
	partly    = `"state":"COMPLETED_ACK","status":"COMPLETED","outcome":"PARTIAL"`
	unsafe    = `"state":"FAILED_UNSAFE","status":"FAILED","outcome":"FAILED_UNSAFE"`
	asks      = `"state":"WAITING","status":"RUNNING","waiting":{"kind":"INPUT","since":"2026-11-21T05:00:00Z","step":"go","for":[]}`
	listens   = `"state":"WAITING","status":"RUNNING","waiting":{"kind":"SIGNAL","since":"2026-11-21T05:00:00Z","step":"pay","reason":"paid","for":[]}`
	starts    = `"state":"WAITING","status":"RUNNING","waiting":{"kind":"CHILD","since":"2026-11-21T05:00:00Z","step":"all","for":[]}`
	childAsks = `"state":"WAITING","status":"RUNNING","waiting":{"kind":"CHILD_INPUT","since":"2026-11-21T05:00:00Z","step":"go","for":[]}`
	held      = `"state":"BLOCKED_WAITING","status":"PENDING","waiting":{"kind":"HOLD","since":"2026-11-21T05:00:00Z","for":[]}`
)

// A verb with --wait follows the execution until it has ended or waits again, and ends with the code of "run".
func TestWait_EndsWithTheExecutionOrItsNextWait(t *testing.T) {
	for name, c := range map[string]struct {
		line   string
		course []string
		code   int
		want   string
	}{
		"cancel":                           {"cancel X", []string{running, running, cancelled}, exitFailed, "It was cancelled"},
		"retry that succeeds":              {"retry X", []string{running, completed}, 0, "It completed"},
		"retry that fails":                 {"retry X", []string{running, unsafe}, exitFailed, "FAILED_UNSAFE"},
		"retry that is held":               {"retry X", []string{running, held}, 0, "BLOCKED_WAITING"},
		"resume until the next question":   {"resume X", []string{running, running, asks}, 0, "WAITING"},
		"rewind":                           {"rewind X --to a", []string{running, partly}, exitPartial, "not everything succeeded"},
		"answer that is one of several":    {"answer X --data 1", []string{asks}, 0, "WAITING"},
		"signal that is taken":             {"signal X paid", []string{listens, listens, running, completed}, 0, "It completed"},
		"signal that is kept":              {"signal X later", []string{asks}, 0, "WAITING"},
		"signal by key that is taken":      {"signal --workflow p/w --key k paid", []string{listens, listens, asks}, 0, "go"},
		"retry of executions it starts":    {"retry X", []string{running, starts, starts, unsafe}, exitFailed, "FAILED_UNSAFE"},
		"an execution it started asks":     {"retry X", []string{starts, childAsks}, 0, "WAITING"},
		"rerun":                            {"rerun X --failed", []string{running, asks}, 0, "WAITING"},
		"a time-out that does not pass":    {"resume X --wait-timeout 1h", []string{running, completed}, 0, "It completed"},
		"a wait for a lock is no such end": {"resume X", []string{`"state":"LOCKING","status":"RUNNING","waiting":{"kind":"LOCK","since":"2026-11-21T05:00:00Z","for":[]}`, completed}, 0, "It completed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append(strings.Fields(c.line), "--wait")
			got := runCommand(t, append(args, serveCourse(t, c.course...))...)
			if got.code != c.code || !strings.Contains(got.stdout, c.want) {
				t.Errorf("exit %d, want %d and %q\n%s%s", got.code, c.code, c.want, got.stdout, got.stderr)
			}
			got = runCommand(t, append(args, "-o", "json", serveCourse(t, c.course...))...)
			var x struct{ State string }
			if err := json.Unmarshal([]byte(got.stdout), &x); err != nil || got.code != c.code || !strings.Contains(c.course[len(c.course)-1], `"state":"`+x.State+`"`) {
				t.Errorf("as JSON: exit %d, %v\n%s%s", got.code, err, got.stdout, got.stderr)
			}
		})
	}
}

// A wait that takes too long has its own exit code, and says that the execution continues.
func TestWait_TimesOut(t *testing.T) {
	got := runCommand(t, "resume", "X", "--wait-timeout", "10ms", "-o", "json", serveCourse(t, running))
	var doc struct{ Error errorDocument }
	if err := json.Unmarshal([]byte(got.stdout), &doc); err != nil || got.code != exitWaitTimeout || doc.Error.Code != "timeout" || !strings.Contains(got.stderr, `"lockstep watch X" follows it again`) {
		t.Errorf("exit %d, %v\n%s%s", got.code, err, got.stdout, got.stderr)
	}
}

// What does not go together is refused before anything is sent.
func TestWait_RefusesFlags(t *testing.T) {
	for line, want := range map[string]string{
		"resume X --wait-timeout=0s":        "--wait-timeout is a duration above 0",
		"rerun X --failed --wait --detach":  "--wait and --detach exclude each other",
		"answer --token t --set a=1 --wait": "do not go with --token",
		"cancel X --wait-timeout soon":      "--wait-timeout wants a duration such as 90s",
		"unlock X --wait":                   "there is no flag --wait",
		"acknowledge X --wait":              "there is no flag --wait",
	} {
		if got := runCommand(t, append(strings.Fields(line), "--url=http://127.0.0.1:1")...); got.code != exitUsage || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: exit %d, want %q\n%s", line, got.code, want, got.stderr)
		}
	}
}

// What waits for the locks of an execution that itself waits for somebody says so once, and which command helps.
func TestWait_SaysWhichExecutionWaitsForSomebody(t *testing.T) {
	blocked := func(holders ...string) map[string]any {
		var blockers []map[string]any
		for _, h := range holders {
			blockers = append(blockers, map[string]any{"entity": "device/sw-1", "heldBy": h, "since": "2026-11-21T05:00:00Z"})
		}
		return map[string]any{"id": "X", "state": "SCHEDULED", "status": "PENDING", "waiting": map[string]any{"kind": "LOCK", "since": "2026-11-21T05:00:00Z", "reason": "because", "for": blockers}}
	}
	holder := func(id, state, kind string) map[string]any {
		return map[string]any{"id": id, "state": state, "waiting": map[string]any{"kind": kind, "since": "2026-11-21T05:00:00Z", "for": []any{}}}
	}
	answers := map[string]any{
		"POST /workflow-execution/OLD/rerun": map[string]any{"id": "X"},
		"GET /workflow-execution/id/BUSY":    holder("BUSY", "WAITING", "INPUT"),
		"GET /workflow-execution/id/OLD":     holder("OLD", "FAILED_UNSAFE", "ACKNOWLEDGE"),
	}
	const note = `execution OLD holds device/sw-1, has ended FAILED_UNSAFE and waits for somebody: "lockstep status OLD" says what to do, and "lockstep acknowledge OLD" releases its locks`
	for name, c := range map[string]struct {
		args    string
		holders []string
		notes   int
	}{
		"rerun":                    {"rerun OLD --failed --wait", []string{"OLD"}, 1},
		"watch":                    {"watch X", []string{"OLD"}, 1},
		"one of several holders":   {"watch X", []string{"BUSY", "OLD"}, 1},
		"a holder that is at work": {"watch X", []string{"BUSY"}, 0},
		"a holder that is gone":    {"watch X", []string{"GONE"}, 0},
	} {
		answers["GET /workflow-execution/id/X"] = blocked(c.holders...)
		got := runCommand(t, append(strings.Fields(c.args), "--wait-timeout", "700ms", serveAnswers(t, answers))...)
		if got.code != exitWaitTimeout || strings.Count(got.stderr, note) != c.notes || strings.Count(got.stderr, "note:") != c.notes {
			t.Errorf("%s: exit %d, want %d times %q\n%s", name, got.code, c.notes, note, got.stderr)
		}
	}
}
