package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lockstep-run/lockstep/statemachines"
)

// generatedNotice says in each file where it comes from.
const generatedNotice = "<!-- Generated from the rows in statemachines by `make generate`. Do not edit. -->\n\n"

func main() {
	// go generate runs in the folder of package statemachines.
	out := flag.String("out", filepath.Join("..", "docs", "lifecycle"), "folder to write to")
	flag.Parse()
	if err := write(*out); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, text := range pages() {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pages is every generated file by its name.
func pages() map[string]string {
	files := map[string]string{
		"README.md":     generatedNotice + index(),
		"vocabulary.md": generatedNotice + vocabulary(),
	}
	for _, m := range statemachines.Machines() {
		files[string(m.Layer)+".md"] = generatedNotice + page(m)
	}
	return files
}
