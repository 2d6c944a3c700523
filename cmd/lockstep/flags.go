package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// enforceUsage makes every verb explain wrong usage before it sends anything: it names missing
// arguments, suggests similar verbs, and checks flags that accept one of a few words.
func enforceUsage(cmd *cobra.Command) {
	cmd.Args = validateArgs
	cmd.SetFlagErrorFunc(flagError)
	cmd.SuggestionsMinimumDistance = 2
	hint := ""
	if strings.Contains(cmd.Use+" ", " ID ") || strings.HasSuffix(cmd.Use, " [ID]") {
		hint = executionNotFoundHint
	} else if words := strings.Fields(cmd.CommandPath()); len(words) > 1 {
		hint = notFoundHints[words[1]]
	}
	if runE := cmd.RunE; runE != nil && takesEntity(cmd) {
		cmd.RunE = func(cmd *cobra.Command, args []string) error { return runE(cmd, joinEntity(cmd, args)) }
	}
	if runE := cmd.RunE; runE != nil && hint != "" {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			return hintNotFound(runE(cmd, args), "%s", hint)
		}
	}
	for _, sub := range cmd.Commands() {
		enforceUsage(sub)
	}
}

// executionNotFoundHint explains why the service may not know an execution.
const executionNotFoundHint = "\"lockstep list\" lists the executions. A local stack keeps them across restarts only with --data."

// notFoundHints are the hints of verbs, and of those below them, for what the service does not know.
var notFoundHints = map[string]string{
	"archive":       "\"lockstep definitions\" lists what is published",
	"restore":       "\"lockstep definitions\" lists what is published",
	"subscriptions": "\"lockstep subscriptions\" lists the subscriptions",
	"tables":        "\"lockstep tables\" lists the tables",
	"triggers":      "\"lockstep triggers\" lists the triggers",
}

// entityWord is how usage lines name an entity.
const entityWord = "TYPE/ID"

// takesEntity reports whether the last argument of a verb is an entity, or several.
func takesEntity(cmd *cobra.Command) bool {
	words := strings.Fields(cmd.Use)
	return strings.Trim(words[len(words)-1], "[].") == entityWord
}

// joinEntity returns the arguments of a verb, with TYPE ID at their end as TYPE/ID.
func joinEntity(cmd *cobra.Command, args []string) []string {
	at := len(strings.Fields(cmd.Use)) - 2
	if !takesEntity(cmd) || len(args) != at+2 || args[at] == "" || args[at+1] == "" || strings.Contains(args[at]+args[at+1], "/") {
		return args
	}
	return append(slices.Clone(args[:at]), args[at]+"/"+args[at+1])
}

// validateArgs checks arguments against the usage line of the verb: WORD is
// required, [WORD] is optional, WORD... is one or more, [WORD...] is any number.
func validateArgs(cmd *cobra.Command, args []string) error {
	args = joinEntity(cmd, args)
	words := strings.Fields(cmd.Use)[1:]
	if cmd.HasSubCommands() && len(words) == 0 && len(args) > 0 {
		return unknownVerbError(cmd, args[0])
	}
	for i, w := range words {
		if i >= len(args) && !strings.HasPrefix(w, "[") {
			return fmt.Errorf("%s is missing: %s %s", strings.TrimSuffix(w, "..."), cmd.CommandPath(), strings.Join(words, " "))
		}
		if strings.HasSuffix(strings.TrimSuffix(w, "]"), "...") {
			return nil
		}
		if i < len(args) && args[i] == "" {
			return fmt.Errorf("%s is empty", strings.Trim(w, "[]"))
		}
	}
	if len(args) > len(words) {
		return fmt.Errorf("unexpected argument %q: %s", args[len(words)], strings.TrimSpace(cmd.CommandPath()+" "+strings.Join(words, " ")))
	}
	return nil
}

func unknownVerbError(cmd *cobra.Command, verb string) error {
	s := fmt.Sprintf("there is no verb %q", strings.TrimSpace(strings.TrimPrefix(cmd.CommandPath(), "lockstep")+" "+verb))
	if near := cmd.SuggestionsFor(verb); len(near) > 0 {
		s += "; did you mean " + strings.Join(near, " or ") + "?"
	} else if cmd.HasParent() {
		var verbs []string
		for _, c := range cmd.Commands() {
			verbs = append(verbs, c.Name())
		}
		s += "; there are " + strings.Join(verbs, ", ")
	}
	return fmt.Errorf("%s", s)
}

// flagHints say what to do instead of a flag that one would expect, by verb and flag.
var flagHints = map[string]string{
	"retry set":           "a retry keeps the parameters; \"lockstep rerun ID\" starts another execution, with other ones",
	"retry parameters":    "a retry keeps the parameters; \"lockstep rerun ID\" starts another execution, with other ones",
	"retry entity":        "--entities failed or all; \"lockstep rerun ID --entity TYPE/ID\" starts another execution over some of them",
	"run wait":            "it follows the execution to its end; --detach does not",
	"logs follow":         "\"lockstep history ID --follow\" follows the events; a job's log lines come when it has ended",
	"entities sync apply": "--yes changes the inventory without asking",
	"rerun dry-run":       "\"lockstep plan WORKFLOW\" shows what a run would do",
	"status wait":         "\"lockstep watch ID\" follows an execution to its end",
	"metrics since":       "--days says of how many days",
}

var invalidValueRE = regexp.MustCompile(`^invalid argument "(.*)" for "(?:-., )?--(.*)" flag: `)

// flagError rewords an error of the flag library.
func flagError(cmd *cobra.Command, err error) error {
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1 {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		slices.Sort(known)
		near := workflow.Closest(unknown.GetSpecifiedName(), known)
		if hint := flagHints[strings.TrimPrefix(cmd.CommandPath(), "lockstep ")+" "+unknown.GetSpecifiedName()]; hint != "" {
			return fmt.Errorf("there is no flag --%s: %s", unknown.GetSpecifiedName(), hint)
		}
		if near == "" {
			return fmt.Errorf("there is no flag --%s; \"%s --help\" lists the flags", unknown.GetSpecifiedName(), cmd.CommandPath())
		}
		return fmt.Errorf("there is no flag --%s; did you mean --%s?", unknown.GetSpecifiedName(), near)
	}
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

// flagValues are the words that a flag accepts, by verb and flag.
var flagValues = map[string][]string{
	"lockstep output": {"table", "json"},
	"cancel rollback": {"auto", "never"},
	"init lang":       {"go", "python"},
	"run rollback":    {"auto", "never"},
	"plan rollback":   {"auto", "never"},
	"try rollback":    {"auto", "never"},
	"list state":      toStrings(sm.ExecutionStates()),
	"list sort":       {"createdAt:desc", sortOldest},
	"list status":     toStrings(sm.Statuses()),
	"jobs kind":       {"ACQUIRE", "EXECUTE", "ROLLBACK"},
	"logs level":      toStrings(workflow.LogLevels()),
	"jobs state":      {"PENDING", "CLAIMED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "UNKNOWN"},
}

func toStrings[S ~string](all []S) []string {
	var out []string
	for _, s := range all {
		out = append(out, string(s))
	}
	return out
}

// validateFlags refuses flag values that no verb accepts.
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
		if ok {
			i := slices.IndexFunc(words, func(w string) bool { return strings.EqualFold(w, value) })
			if i < 0 {
				bad = fmt.Errorf("--%s is %s, not %q", f.Name, joinOr(words), value)
			} else if words[i] != value {
				bad = f.Value.Set(words[i]) // the code below compares with the listed spelling
			}
		}
		if f.Name == "limit" && strings.HasPrefix(value, "-") {
			bad = fmt.Errorf("--limit is a number, 0 for all, not %s", value)
		}
	})
	if bad == nil && cmd.Name() == "list" && cmd.Flags().Changed("active") {
		for _, other := range []string{"state", "status", "outcome", "workflow", "label", "parent", "key", "region", "waiting", "idempotency-key"} {
			if cmd.Flags().Lookup(other) != nil && cmd.Flags().Changed(other) {
				return fmt.Errorf("--active cannot be combined with --%s: omit one of them", other)
			}
		}
	}
	return bad
}

// joinOr joins words as "a, b or c".
func joinOr(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// formatSelector formats a selector as on the command line.
func formatSelector(s workflow.Selector) string {
	var parts []string
	for _, p := range [][2]string{
		{"--type", s.Type}, {"--id", strings.Join(s.IDs, ",")}, {"--group", strings.Join(s.Groups, ",")}, {"--query", s.Query},
	} {
		if p[1] != "" {
			parts = append(parts, fmt.Sprintf("%s %q", p[0], p[1]))
		}
	}
	return strings.Join(parts, " ")
}

// parseParameters merges --parameters with the --set values, which override them.
func parseParameters(object string, sets []string) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if file, ok := strings.CutPrefix(object, "@"); ok {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, render.ReadError(file, err)
		}
		if raw, err = render.Text(raw); err != nil {
			return nil, &render.FileError{Path: file, Err: err}
		}
		if object = string(raw); !json.Valid(raw) {
			return nil, &render.FileError{Path: file, Err: errors.New("it is not JSON")}
		}
	}
	if object != "" {
		if err := json.Unmarshal([]byte(object), &all); err != nil {
			var kind *json.UnmarshalTypeError
			if errors.As(err, &kind) {
				return nil, fmt.Errorf("--parameters wants a JSON object such as '{\"target\":\"2.0.0\"}', not a %s", kind.Value)
			}
			return nil, fmt.Errorf("--parameters wants a JSON object such as '{\"target\":\"2.0.0\"}', and %q is not JSON", object)
		}
		if all == nil {
			return nil, errors.New("--parameters wants a JSON object, not null")
		}
	}
	pairs, err := parsePairs("set", sets)
	if err != nil {
		return nil, err
	}
	for name, value := range pairs {
		raw := json.RawMessage(value)
		if !json.Valid(raw) || looksLikeNumber(value) {
			if raw, err = workflow.EncodeJSON(value); err != nil {
				return nil, err
			}
		}
		all[name] = raw
	}
	if len(all) == 0 {
		return nil, nil
	}
	return workflow.EncodeJSON(all)
}

// looksLikeNumber reports whether a value is a number that would lose its spelling:
// 2.0 is more often a version than a number.
func looksLikeNumber(s string) bool {
	return strings.Contains(s, ".") && strings.Trim(s, "0123456789.-+eE") == ""
}

// parsePairs parses NAME=VALUE texts of a flag.
func parsePairs(flag string, texts []string) (map[string]string, error) {
	all := map[string]string{}
	for _, t := range texts {
		name, value, ok := strings.Cut(t, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--%s wants NAME=VALUE, not %q", flag, t)
		}
		all[name] = value
	}
	return all, nil
}
