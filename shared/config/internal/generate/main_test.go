package main

import (
	"bytes"
	"os"
	"testing"
)

// TestRender_MatchesDocs: the page in docs is generated from the current struct.
func TestRender_MatchesDocs(t *testing.T) {
	want, err := render("../../config.go")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/configuration.md is out of date: run make generate")
	}
	if bytes.Contains(want, []byte("|  |")) {
		t.Error("a setting has no comment")
	}
}
