package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	sm "github.com/lockstep-run/lockstep/statemachines"
)

// enforceUsage makes every verb say what it wants in words: missing arguments are
// named, verbs that are almost right are suggested, flags that take one of a few
// words are checked before anything is sent.
func enforceUsage(cmd *cobra.Command) {
	cmd.Args = validateArgs
	cmd.SetFlagErrorFunc(flagError)
	cmd.SuggestionsMinimumDistance = 2
	if runE := cmd.RunE; strings.Contains(cmd.Use+" ", " ID ") {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			return hintNotFound(runE(cmd, args), "%s", executionNotFoundHint)
		}
	}
	for _, sub := range cmd.Commands() {
		enforceUsage(sub)
	}
}

// executionNotFoundHint is what may have become of a run that the service does not know.
const executionNotFoundHint = "\"lockstep list\" lists the runs. A local stack keeps them across restarts only with --data."

// validateArgs holds a command line to the usage line of its verb: WORD is wanted,
// [WORD] may be left out, WORD... is one or more.
func validateArgs(cmd *cobra.Command, args []string) error {
	words := strings.Fields(cmd.Use)[1:]
	if cmd.HasSubCommands() && len(words) == 0 && len(args) > 0 {
		return unknownVerbError(cmd, args[0])
	}
	for i, w := range words {
		if i >= len(args) && !strings.HasPrefix(w, "[") {
			return fmt.Errorf("%s is missing: %s %s", strings.TrimSuffix(w, "..."), cmd.CommandPath(), strings.Join(words, " "))
		}
		if strings.HasSuffix(w, "...") {
			return nil
		}
		if i < len(args) && args[i] == "" {
			return fmt.Errorf("%s is empty", strings.Trim(w, "[]"))
		}
	}
	if len(args) > len(words) {
		return fmt.Errorf("%q is one argument too many: %s", args[len(words)], strings.TrimSpace(cmd.CommandPath()+" "+strings.Join(words, " ")))
	}
	return nil
}

func unknownVerbError(cmd *cobra.Command, verb string) error {
	s := fmt.Sprintf("there is no verb %q", strings.TrimSpace(strings.TrimPrefix(cmd.CommandPath(), "lockstep")+" "+verb))
	if near := cmd.SuggestionsFor(verb); len(near) > 0 {
		s += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return fmt.Errorf("%s", s)
}

var invalidValueRE = regexp.MustCompile(`^invalid argument "(.*)" for "(?:-., )?--(.*)" flag: `)

// flagError words what the flag library says of a value.
func flagError(cmd *cobra.Command, err error) error {
	m := invalidValueRE.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	want := "a valid value"
	if f := cmd.Flag(m[2]); f != nil {
		want = map[string]string{"int": "a whole number", "bool": "true or false", "duration": "a duration such as 90s"}[f.Value.Type()]
	}
	return fmt.Errorf("--%s wants %s, not %q", m[2], cmp.Or(want, "another value"), m[1])
}

// flagValues are the words that a flag takes, by verb and flag.
var flagValues = map[string][]string{
	"lockstep output": {"table", "json"},
	"cancel rollback": {"auto", "never"},
	"list state":      toStrings(sm.ExecutionStates()),
	"list status":     toStrings(sm.Statuses()),
	"jobs kind":       {"ACQUIRE", "EXECUTE", "ROLLBACK"},
	"jobs state":      {"PENDING", "CLAIMED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "UNKNOWN"},
}

func toStrings[S ~string](all []S) []string {
	var out []string
	for _, s := range all {
		out = append(out, string(s))
	}
	return out
}

// validateFlags refuses values that no verb could use.
func validateFlags(cmd *cobra.Command) error {
	var bad error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if bad != nil || !f.Changed {
			return
		}
		value := f.Value.String()
		words, ok := flagValues[cmd.Name()+" "+f.Name]
		if f.Name == "output" {
			words, ok = flagValues["lockstep output"], true
		}
		if ok && !slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, value) }) {
			bad = fmt.Errorf("--%s is %s, not %q", f.Name, joinOr(words), value)
		}
		if f.Name == "limit" && strings.HasPrefix(value, "-") {
			bad = fmt.Errorf("--limit is how many, 0 for all, not %s", value)
		}
	})
	if bad == nil && cmd.Name() == "list" && cmd.Flags().Changed("active") {
		for _, other := range []string{"state", "status", "workflow", "label"} {
			if cmd.Flags().Lookup(other) != nil && cmd.Flags().Changed(other) {
				return fmt.Errorf("--active stands alone: leave out --%s, or name a --state or --status instead", other)
			}
		}
	}
	return bad
}

// joinOr is "a, b or c".
func joinOr(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
