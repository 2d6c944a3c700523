//go:build ignore

// This program writes openapi.json, the served form of openapi.yaml with the examples of answers.
package main

import (
	"encoding/json"
	"log"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
)

func main() {
	source, err := os.ReadFile("../openapi.yaml")
	if err != nil {
		log.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(source, &doc); err != nil {
		log.Fatal(err)
	}
	if err := addExamples(doc); err != nil {
		log.Fatal(err)
	}
	doc["x-generated"] = "from openapi.yaml; do not edit"
	out, err := json.Marshal(doc)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("openapi.json", append(out, '\n'), 0o644); err != nil {
		log.Fatal(err)
	}
}

// addExamples puts the answers of examples.json beside the schemas that they match. Those of operations that the
// document has no more are left out.
func addExamples(doc map[string]any) error {
	text, err := os.ReadFile("examples.json")
	if err != nil {
		return err
	}
	var all map[string]struct {
		Status, Media string
		Answer        any
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	for pattern, e := range all {
		method, path, _ := strings.Cut(pattern, " ")
		at := doc
		for _, name := range []string{"paths", path, strings.ToLower(method), "responses", e.Status, "content", e.Media} {
			at, _ = at[name].(map[string]any)
		}
		if at != nil {
			at["example"] = e.Answer
		}
	}
	return nil
}
