package main

import (
	"strings"
	"testing"
	"time"
)

// A drain of a worker that has died says that nothing waits for it.
func TestDrain_SaysThatTheWorkerIsSilent(t *testing.T) {
	worker := func(state string, heard any) map[string]any {
		return map[string]any{"id": "press-1", "state": state, "pool": "edge", "blocks": []string{}, "jobs": []string{}, "lastHeartbeat": heard}
	}
	for _, c := range []struct {
		before, note string
		heard        any
	}{
		{"ONLINE", "", time.Now()},
		{"OFFLINE", "press-1 was OFFLINE: its last heartbeat was 2h ago. If its process has ended", time.Now().Add(-2 * time.Hour)},
		{"UNREACHABLE", "press-1 was UNREACHABLE: it has sent no heartbeat yet", nil},
	} {
		url := serveAnswers(t, map[string]any{"GET /workers/press-1": worker(c.before, c.heard), "POST /workers/press-1/drain": worker("DRAINING", c.heard)})
		got := runCommand(t, "workers", "drain", "press-1", url)
		if got.code != 0 || got.stdout != "press-1 is DRAINING and holds 0 packs\n" || !strings.Contains(got.stderr, c.note) || c.note == "" && got.stderr != "" {
			t.Errorf("%s: exit %d\n%s%s", c.before, got.code, got.stdout, got.stderr)
		}
	}
	if got := runCommand(t, "workers", "drain", "press-2", serveAnswers(t, nil)); got.code != exitRefused || !strings.Contains(got.stderr, `"lockstep workers" lists`) {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
}
