package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "rewrite docs/cli.md")

const referencePage = "../../docs/cli.md"

// docs/cli.md is what the verbs say of themselves. go test ./cmd/lockstep -run TestReference -update
// writes it.
func TestReference_IsUpToDate(t *testing.T) {
	got := writeReference()
	if *update {
		if err := os.WriteFile(referencePage, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	page, err := os.ReadFile(referencePage)
	if err != nil || string(page) != got {
		t.Errorf("docs/cli.md is out of date: make generate (%v)", err)
	}
}

// listedCommands are the commands that a user sees, each after the one that it is below.
func listedCommands() []*cobra.Command {
	root := newRoot()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var listed []*cobra.Command
	collectCommands(root, &listed)
	return listed
}

func writeReference() string {
	listed := listedCommands()
	root := listed[0].Root()
	var b strings.Builder
	b.WriteString("<!-- Generated from the command tree by make generate; do not edit. -->\n\n# The command line\n\n" + strings.TrimSpace(root.Long) +
		"\n\nEvery verb takes these flags:\n\n")
	writeFlags(&b, root.PersistentFlags())
	b.WriteString("\n| verb | |\n| --- | --- |\n")
	for _, c := range listed {
		fmt.Fprintf(&b, "| [%s](#%s) | %s |\n", strings.TrimPrefix(c.CommandPath(), "lockstep "), strings.ReplaceAll(c.CommandPath(), " ", "-"), escapeCell(c.Short))
	}
	b.WriteString("\n## What --output json prints\n\nNames are schemas of the [API document](api.md); of what one requires, fields that are null or empty may be absent. A verb that fails prints `{\"error\": {\"code\", \"status\", \"detail\", \"file\", \"hint\", \"errors\"}}`, " +
		"of which status, file and hint may be absent, after what it has printed before.\n\n| verb | JSON |\n| --- | --- |\n")
	for _, c := range listed {
		verb := strings.TrimPrefix(c.CommandPath(), "lockstep ")
		fmt.Fprintf(&b, "| %s | %s |\n", verb, escapeCell(verbOutputs[verb].words()))
	}
	for _, c := range listed {
		fmt.Fprintf(&b, "\n## %s\n\n```\n%s\n```\n\n", c.CommandPath(), strings.TrimSuffix(c.UseLine(), " [flags]"))
		if text := strings.TrimSpace(c.Long); text != "" {
			b.WriteString("```text\n" + text + "\n```\n\n")
		} else {
			b.WriteString(c.Short + ".\n\n")
		}
		writeFlags(&b, c.LocalNonPersistentFlags())
		if c.Example != "" {
			b.WriteString("\nFor example:\n\n```sh\n")
			for line := range strings.Lines(strings.TrimRight(c.Example, "\n")) {
				b.WriteString(strings.TrimPrefix(line, "  "))
			}
			b.WriteString("\n```\n")
		}
	}
	return strings.ReplaceAll(b.String(), "\n\n\n", "\n\n")
}

// collectCommands collects the visible commands below one, in the order of their names.
func collectCommands(c *cobra.Command, into *[]*cobra.Command) {
	for _, child := range c.Commands() {
		if child.Hidden || child.Name() == "help" || child.Parent().Name() == "completion" {
			continue
		}
		*into = append(*into, child)
		collectCommands(child, into)
	}
}

// writeFlags writes a table of flags, if there are any.
func writeFlags(b *strings.Builder, flags *pflag.FlagSet) {
	rows := 0
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		if rows++; rows == 1 {
			b.WriteString("| flag | meaning |\n| --- | --- |\n")
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if kind, _ := pflag.UnquoteUsage(f); kind != "" {
			name += " " + kind
		}
		usage := escapeCell(f.Usage)
		if d := f.DefValue; d != "" && d != "false" && d != "[]" && d != "0" && d != "0s" {
			usage += fmt.Sprintf(" (default `%s`)", d)
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", name, usage)
	})
}

// escapeCell writes a text into a cell of a table.
func escapeCell(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(s)
}
