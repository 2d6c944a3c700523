// Command generate writes the JSON Schema of definitions.
package main

import (
	"fmt"
	"os"

	"github.com/lockstep-run/lockstep/shared/definition"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: generate FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], definition.Schema(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
