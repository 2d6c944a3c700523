package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestRun_RefusesBadFlags(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"unknown flag":      {[]string{"--explode"}, 2, "explode"},
		"argument":          {[]string{"now"}, 2, `"now"`},
		"port out of range": {[]string{"--port", "70000"}, 2, "70000"},
		"not a duration":    {[]string{"--pace", "x"}, 2, "pace"},
		"help":              {[]string{"--help"}, 0, "-serve"},
		"nothing built":     {[]string{"--bin", t.TempDir(), "--example", "../..", "--port", "0"}, 1, "run make build"},
		"no example":        {[]string{"--example", t.TempDir()}, 1, "inventory.jsonl"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), c.args, &stdout, &stderr)
			if code != c.code || !strings.Contains(stderr.String(), c.says) {
				t.Errorf("exit code %d, %q; want %d, %q", code, &stderr, c.code, c.says)
			}
		})
	}
}
