package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// With a name, blocks shows the newest version that matches it, with its schemas.
func TestBlocks_ShowsOne(t *testing.T) {
	block := func(name, version string) map[string]any {
		return map[string]any{"package": "fleet", "name": name, "version": version, "description": "about " + version, "runOn": "device", "idempotent": true, "reversible": true,
			"pool": "lab", "timeout": "90s", "parameterSchema": map[string]any{"required": []string{"target" + version}}}
	}
	url := serveAnswers(t, map[string]any{"GET /function-blocks": pageOf(block("upgrade", "1.2.0"), block("upgrade", "1.10.0"), block("upgrade", "2.0.0"), block("report", "1.0.0"))})
	for reference, want := range map[string]string{"fleet/upgrade": "2.0.0", "fleet/upgrade:1": "1.10.0", "fleet/upgrade:1.2": "1.2.0"} {
		got := runCommand(t, "blocks", reference, url)
		for _, text := range []string{"fleet/upgrade:" + want + "\n", "about " + want, "runs on: device", "idempotent,reversible", "pool: lab", "timeout: 1m30s", "Go workers", "\"target" + want + "\"", "results: no schema"} {
			if got.code != 0 || !strings.Contains(got.stdout, text) {
				t.Errorf("%s: exit %d, want %q in\n%s%s", reference, got.code, text, got.stdout, got.stderr)
			}
		}
		var b struct {
			Version string `json:"version"`
		}
		if got = runCommand(t, "blocks", reference, "-o", "json", url); json.Unmarshal([]byte(got.stdout), &b) != nil || b.Version != want {
			t.Errorf("%s as JSON: exit %d\n%s", reference, got.code, got.stdout)
		}
	}
	for reference, want := range map[string]string{"fleet/upgrad": "did you mean fleet/upgrade?", "fleet/upgrade:3": "there is no block fleet/upgrade:3"} {
		if got := runCommand(t, "blocks", reference, url); got.code != exitRefused || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: exit %d\n%s", reference, got.code, got.stderr)
		}
	}
	if got := runCommand(t, "blocks", "list", url); got.code != 0 || strings.Count(got.stdout, "fleet/") != 4 {
		t.Errorf("list: exit %d\n%s", got.code, got.stdout)
	}
}
