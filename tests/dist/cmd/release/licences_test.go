package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// The terms are those of the standard library, of each module that is linked into a program, and of the
// packages that are bundled into the page; one without terms is an error.
func TestWriteLicences_HasTheTermsOfAll(t *testing.T) {
	root, page := newPrograms(t, ""), t.TempDir()
	dirs, err := filepath.Glob(filepath.Join(root, "*"))
	if err != nil {
		t.Fatal(err)
	}
	change(t, page, "package-lock.json", `{"packages":{"":{},"node_modules/shown":{},"node_modules/builds":{"dev":true}}}`)
	change(t, page, "node_modules/shown/LICENSE.md", "be kind")
	var out bytes.Buffer
	if err := writeLicences(&out, dirs, page, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"the standard library of Go, LICENSE\n\nCopyright", "shown (npm), LICENSE.md\n\nbe kind\n"} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("%q is there %d times", want, strings.Count(out.String(), want))
		}
	}
	if strings.Contains(out.String(), "builds") || strings.Contains(out.String(), root) {
		t.Error("what is not packed is there, or a directory of this machine")
	}
	change(t, page, "package-lock.json", `{"packages":{"":{},"node_modules/shown":{},"node_modules/bare":{}}}`)
	change(t, page, "node_modules/bare/index.js", "1")
	if err := writeLicences(&out, dirs, page, nil); err == nil || !strings.Contains(err.Error(), "bare (npm) has no file with its terms") {
		t.Errorf("%v", err)
	}
}
