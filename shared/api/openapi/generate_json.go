//go:build ignore

// This program writes openapi.json, the served form of openapi.yaml.
package main

import (
	"encoding/json"
	"log"
	"os"

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
	doc["x-generated"] = "from openapi.yaml; do not edit"
	out, err := json.Marshal(doc)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("openapi.json", append(out, '\n'), 0o644); err != nil {
		log.Fatal(err)
	}
}
