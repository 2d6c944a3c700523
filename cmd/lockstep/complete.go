package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// completionTime bounds how long a shell waits for the service, completionItems how many names it
// gets.
const (
	completionTime  = 2 * time.Second
	completionItems = 100
)

// unfinished is a word that a shell asks to complete.
type unfinished struct {
	api  *client.Client
	cmd  *cobra.Command
	args []string // the arguments before it
	word string
}

// completer returns the values that begin with the word, each optionally with a tab and a
// description. If it fails, it returns none.
type completer func(ctx context.Context, u unfinished) []string

// argumentCompleters complete the words of usage lines. The key is the word, or the verb and the
// word if the word means different things.
var argumentCompleters = map[string]completer{
	"ID": completeExecutions, "WORKFLOW": completeWorkflows, "TYPE/ID": completeEntities, "TYPE": completeTypes, "WORKER": completeWorkers,
	"triggers NAME": completeTriggers, "subscriptions NAME": completeSubscriptions, "tables NAME": completeTables, "blocks NAME": completeBlocks,
	"archive WORKFLOW": completeVersions, "restore WORKFLOW": completeVersions,
	"schedules SCHEDULE": completeSchedules,
	"config NAME":        completeProfiles, "config KEY": completeProfileKeys,
}

// flagCompleters complete the values of flags, by name.
var flagCompleters = map[string]completer{
	"workflow": completeWorkflows, "step": completeSteps, "to": completeSteps, "entity": completeEntities, "type": completeTypes, "group": completeGroups,
	"id": completeIDs, "parent": completeExecutions, "execution": completeExecutions, "profile": completeProfiles,
}

// addCompletion lets a shell complete the arguments and flags of a verb and of the verbs below it
// with what the service knows.
func (c *connection) addCompletion(cmd *cobra.Command) {
	words := strings.Fields(cmd.Use)[1:]
	if len(words) > 0 && cmd.ValidArgs == nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			usage := words[min(len(args), len(words)-1)]
			if takesEntity(cmd) && len(args) == len(words) && !strings.Contains(args[len(args)-1], "/") { // TYPE ID
				return c.complete(completeIDsOf, unfinished{nil, cmd, args, word})
			}
			if len(args) >= len(words) && !strings.HasSuffix(strings.TrimSuffix(usage, "]"), "...") {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			switch name := strings.Trim(usage, "[]."); name {
			case "FILE", "FILE|WORKFLOW", "DIR", "PROGRAM", "ARGUMENT":
				return nil, cobra.ShellCompDirectiveDefault
			default:
				find := argumentCompleters[groupOf(cmd)+" "+name]
				if find == nil {
					find = argumentCompleters[name]
				}
				return c.complete(find, unfinished{nil, cmd, args, word})
			}
		}
	} else if cmd.HasParent() && cmd.ValidArgs == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if cmd.HasParent() && cmd.InheritedFlags().Lookup(f.Name) != nil {
			return
		}
		find := flagCompleters[f.Name]
		values := flagValues[cmd.Name()+" "+f.Name]
		if find == nil && values == nil || f.Value.Type() == "bool" {
			return
		}
		err := cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if values != nil {
				return completeValues(values, word), cobra.ShellCompDirectiveNoFileComp
			}
			return c.complete(find, unfinished{nil, cmd, args, word})
		})
		if err != nil {
			panic(err) // the flag exists, and is visited once
		}
	})
	for _, sub := range cmd.Commands() {
		c.addCompletion(sub)
	}
}

// completeValues returns the values that begin with a word in any case, as flags accept them. Each
// has the case of the word if possible, because a shell drops a value that does not begin with what
// was typed.
func completeValues(values []string, word string) (fitting []string) {
	for _, v := range values {
		if !strings.HasPrefix(strings.ToUpper(v), strings.ToUpper(word)) {
			continue
		}
		for _, as := range []string{strings.ToLower(v), strings.ToUpper(v)} {
			if !strings.HasPrefix(v, word) && strings.HasPrefix(as, word) {
				v = as
			}
		}
		fitting = append(fitting, v)
	}
	return fitting
}

// groupOf returns the verb directly below the root to which a verb belongs.
func groupOf(cmd *cobra.Command) string {
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	return cmd.Name()
}

// complete asks the service, for a short time, and returns nothing on an error.
func (c *connection) complete(find completer, u unfinished) ([]cobra.Completion, cobra.ShellCompDirective) {
	const inOrder = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	if find == nil {
		return nil, inOrder
	}
	c.stderr, c.noPrograms = func() io.Writer { return io.Discard }, true
	api, err := c.newClient(func(o *client.Options) { o.Retries = -1 })
	if err != nil {
		return nil, inOrder
	}
	u.api = api
	ctx, cancel := context.WithTimeout(u.cmd.Context(), completionTime)
	defer cancel()
	values := find(ctx, u)
	if len(values) > 0 && !slices.ContainsFunc(values, func(v string) bool { return !strings.HasSuffix(v, "/") && !strings.HasSuffix(v, ":") }) {
		return values, inOrder | cobra.ShellCompDirectiveNoSpace // each is the beginning of a value
	}
	return values, inOrder
}

// collect lists the first items whose values begin with a prefix, and stops at an error.
func collect[T any](items iter.Seq2[T, error], prefix string, value func(T) (name, description string)) []string {
	var all []string
	for item, err := range items {
		if err != nil || len(all) == completionItems {
			break
		}
		name, description := value(item)
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if description != "" {
			name += "\t" + render.OneLine(description)
		}
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

func completeExecutions(ctx context.Context, u unfinished) []string {
	n := 0
	newest := func(yield func(views.ExecutionView, error) bool) {
		for x, err := range u.api.Executions(ctx, views.ExecutionFilter{}) {
			if n++; n > completionItems { // one page: older ones are found by list
				return
			}
			if (err != nil || mayTake(u.cmd.Name(), x.State)) && !yield(x, err) {
				return
			}
		}
	}
	return collect(newest, u.word, func(x views.ExecutionView) (string, string) {
		return x.ID, fmt.Sprintf("%s %s, %s", x.Workflow, x.State, render.Ago(x.CreatedAt))
	})
}

// mayTake reports whether a verb is of use for an execution in the state.
func mayTake(verb string, state sm.ExecutionState) bool {
	switch verb {
	case "cancel", "retry", "resume", "rewind", "unlock", "acknowledge":
		return render.VerbAllowed(verb, state)
	case "answer", "signal":
		return !sm.Terminal(state)
	}
	return true
}

// completeVersions completes names, and then their exact versions.
func completeVersions(ctx context.Context, u unfinished) []string {
	all := completeWorkflows(ctx, u)
	if !strings.Contains(u.word, ":") {
		for i := range all {
			all[i] += ":"
		}
	}
	return all
}

// completeWorkflows completes names and, behind a colon, versions.
func completeWorkflows(ctx context.Context, u unfinished) []string {
	name, _, versions := strings.Cut(u.word, ":")
	pkg, plain, _ := strings.Cut(name, "/")
	if versions {
		return collect(u.api.Versions(ctx, pkg, plain), u.word, func(d client.Definition) (string, string) {
			return name + ":" + d.Version, map[string]string{stateDraft: stateDraft, stateArchived: stateArchived}[versionState(d)]
		})
	}
	return collect(u.api.Definitions(ctx), u.word, func(d client.Definition) (string, string) { return d.Package + "/" + d.Name, "" })
}

// completeEntities completes an entity type and, behind a slash, its ids.
func completeEntities(ctx context.Context, u unfinished) []string {
	kind, id, ids := strings.Cut(u.word, "/")
	if !ids {
		return collect(u.api.EntityTypes(ctx), u.word, func(t string) (string, string) { return t + "/", "" })
	}
	return entitiesOf(ctx, u.api, kind, id, kind+"/")
}

// completeIDsOf completes the id of an entity whose type is the argument before it.
func completeIDsOf(ctx context.Context, u unfinished) []string {
	return entitiesOf(ctx, u.api, u.args[len(u.args)-1], u.word, "")
}

// entitiesOf lists the entities of a type whose ids begin with a prefix.
func entitiesOf(ctx context.Context, api *client.Client, kind, prefix, before string) []string {
	selected := workflow.Selector{Type: kind}
	if prefix != "" {
		if !workflow.ValidID(prefix) {
			return nil // it would not be a text of the query
		}
		selected.Query = fmt.Sprintf("entity.id.startsWith(%q)", prefix)
	}
	return collect(api.Entities(ctx, selected), before+prefix, func(e workflow.Entity) (string, string) {
		return before + e.ID, strings.Join(e.Groups, " ")
	})
}

func completeTypes(ctx context.Context, u unfinished) []string {
	return collect(u.api.EntityTypes(ctx), u.word, func(t string) (string, string) { return t, "" })
}

// typeOf returns the entity type that a command line means: that of --type or of the first
// argument, which is a type or a workflow.
func typeOf(ctx context.Context, u unfinished) string {
	if f := u.cmd.Flag("type"); f != nil && f.Value.Type() == "string" && f.Value.String() != "" {
		return f.Value.String()
	}
	if len(u.args) == 0 {
		return ""
	}
	ref, err := workflow.ParseRef(u.args[0])
	if err != nil {
		return u.args[0]
	}
	if ref.Version == "" {
		for d, err := range u.api.Versions(ctx, ref.Package, ref.Name) {
			if err != nil {
				return ""
			}
			ref.Version = d.Version // any version: they seldom differ in this
			break
		}
	}
	return seedEntityOf(ctx, u.api, ref)
}

func completeIDs(ctx context.Context, u unfinished) []string {
	kind := typeOf(ctx, u)
	if kind == "" {
		return nil
	}
	return entitiesOf(ctx, u.api, kind, u.word, "")
}

// completeGroups completes the groups of the first entities of a type.
func completeGroups(ctx context.Context, u unfinished) []string {
	kind := typeOf(ctx, u)
	if kind == "" {
		return nil
	}
	var all []string
	for _, g := range groupsOf(ctx, u.api, kind) {
		if strings.HasPrefix(g, u.word) {
			all = append(all, g)
		}
	}
	return all
}

// completeSteps completes the labels of the steps that an execution has entered.
func completeSteps(ctx context.Context, u unfinished) []string {
	if len(u.args) == 0 {
		return nil
	}
	return collect(u.api.Steps(ctx, u.args[0]), u.word, func(s views.StepView) (string, string) { return s.Step, "" })
}

func completeWorkers(ctx context.Context, u unfinished) []string {
	return collect(u.api.Workers(ctx), u.word, func(w views.WorkerView) (string, string) {
		return w.ID, fmt.Sprintf("%s %s", w.Pool, w.State)
	})
}

func completeTriggers(ctx context.Context, u unfinished) []string {
	return collect(u.api.Triggers(ctx), u.word, func(t views.TriggerView) (string, string) { return t.Name, t.Workflow.String() })
}

func completeSubscriptions(ctx context.Context, u unfinished) []string {
	return collect(u.api.Subscriptions(ctx), u.word, func(s views.SubscriptionView) (string, string) {
		return s.Name, map[bool]string{true: "suspended"}[s.Suspended != nil]
	})
}

func completeTables(ctx context.Context, u unfinished) []string {
	return collect(u.api.Tables(ctx), u.word, func(t views.TableView) (string, string) { return t.Name, strings.Join(columnTexts(t), " ") })
}

func completeSchedules(ctx context.Context, u unfinished) []string {
	return collect(u.api.Schedules(ctx), u.word, func(s views.ScheduleView) (string, string) { return s.Schedule, s.Cron })
}

func completeBlocks(ctx context.Context, u unfinished) []string {
	return collect(u.api.Blocks(ctx), u.word, func(b workflow.Block) (string, string) { return b.Package + "/" + b.Name, "" })
}

func completeProfileKeys(_ context.Context, u unfinished) []string {
	return slices.DeleteFunc(slices.Clone(profileKeys), func(key string) bool { return !strings.HasPrefix(key, u.word) })
}

// completeProfiles completes the names of profiles. It needs no service.
func completeProfiles(_ context.Context, u unfinished) []string {
	f, err := readOwnProfiles()
	if err != nil {
		return nil
	}
	var all []string
	for _, name := range f.Names() {
		if strings.HasPrefix(name, u.word) {
			all = append(all, strings.TrimSuffix(name+"\t"+f.Profiles[name].URL, "\t"))
		}
	}
	return all
}
