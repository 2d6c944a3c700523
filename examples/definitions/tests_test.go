package definitions_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflowtest"
)

// Every test file passes, as `lockstep test` plays it.
func TestExamples_TestFilesPass(t *testing.T) {
	files, err := filepath.Glob("*.test.yaml")
	if err != nil || len(files) < 25 {
		t.Fatalf("found only %v, %v", files, err)
	}
	for _, file := range files {
		results, err := workflowtest.Run(t.Context(), file, func(string) bool { return true })
		if err != nil {
			t.Errorf("%v", err)
		}
		for _, r := range results {
			for _, f := range r.Failures {
				t.Errorf("%s: %s: %s", file, r.Name, f)
			}
		}
	}
}

// The test files on docs/testing.md are excerpts of these: every line of YAML is a line of one.
func TestTestingPage_QuotesTestFiles(t *testing.T) {
	page, err := os.ReadFile("../../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	checkExcerpts(t, string(page), texts, 5)
}
