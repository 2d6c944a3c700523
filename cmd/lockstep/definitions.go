package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

func newPublish(c *connection) *cobra.Command {
	var dryRun, draft, strictMode, offline bool
	var blockFiles, sets []string
	cmd := &cobra.Command{
		Use:     "publish FILE...",
		Short:   "Publish workflow definitions",
		Long:    "Publish workflow definitions (YAML or JSON; - reads standard input). A definition is immutable:\nthe same content is accepted again, other content needs a new version. A draft (--draft) is found by nothing but\n\"lockstep run --allow-draft\" with its exact version; publishing the same content without --draft publishes it. All files are checked,\nthose first to which others refer; test files (FILE.test.yaml) are left out. With --output json each file prints a document, for an error {\"error\": ...}.\n\n${env.NAME} in a file is replaced by the value of --set NAME=VALUE before it is sent, and ${env.NAME:-DEFAULT} by the default\nif none is set. They are replaced as text, wherever they stand.",
		Example: "  lockstep publish examples/fleet/upgrade_firmware.yaml\n  lockstep publish --dry-run *.yaml\n  lockstep publish --set REGION=eu --set LIMIT=5 upgrade.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := withoutTests(cmd, args)
			if err != nil {
				return err
			}
			if (offline || len(blockFiles) > 0) && !(offline && dryRun) {
				return errors.New("--offline is for --dry-run, and --blocks for both: nothing is published without a service")
			}
			fills, err := newPlaceholders(sets)
			if err != nil {
				return err
			}
			send, err := publisher(cmd, c, files, blockFiles, offline, draft, fills)
			if err != nil {
				return err
			}
			var worst error
			set := readFileSet(cmd, files, fills)
			for _, file := range set.inOrder() {
				err := publish(cmd, c, send, fills, set, file, dryRun, strictMode)
				if err == nil {
					continue
				}
				printError(cmd.ErrOrStderr(), err)
				if c.json() {
					printErrorDocument(cmd.OutOrStdout(), err)
				}
				if worst == nil || exitCode(err) > exitCode(worst) {
					worst = err
				}
				if exitCode(err) == exitUnreachable {
					break // the next file would fail too
				}
			}
			if worst != nil {
				return &render.ReportedError{Worst: worst}
			}
			for _, name := range fills.leftOver() {
				printNote(cmd, "--set %s has changed nothing: no file has ${env.%s}", name, name)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&strictMode, "strict", false, "treat warnings as errors: do not store a file with warnings")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check everything, store nothing")
	cmd.Flags().BoolVar(&draft, "draft", false, "store drafts: nothing finds them but \"lockstep run --allow-draft\" with the exact version")
	cmd.Flags().BoolVar(&offline, "offline", false, "of --dry-run: check without a service, as \"lockstep lint\" does")
	cmd.Flags().StringArrayVar(&sets, "set", nil, "what ${env.NAME} in the files is replaced by, NAME=VALUE (repeatable)")
	cmd.Flags().StringArrayVar(&blockFiles, "blocks", nil, "of --offline: JSON file with the blocks that the definitions use (repeatable)")
	return cmd
}

// fileSet is the files of one command, with the definitions in them; nil where there is none that can
// be read: publishing it says why.
type fileSet struct {
	files       []string
	definitions []*spec.Definition
}

func readFileSet(cmd *cobra.Command, files []string, fills *placeholders) *fileSet {
	set := &fileSet{files, make([]*spec.Definition, len(files))}
	for i, file := range files {
		if file == "-" {
			continue // it can be read only once
		}
		source, err := readSource(cmd, file)
		if err != nil {
			continue
		}
		if d, err := definition.Parse(fills.fill(source)); err == nil {
			set.definitions[i] = d
		}
	}
	return set
}

// matching returns the positions of the files with definitions that a reference means.
func (f *fileSet) matching(written string) (found []int) {
	ref, err := workflow.ParseRef(written)
	for i, d := range f.definitions {
		if err == nil && d != nil && ref.FullName() == d.Ref().FullName() && ref.Matches(d.Version) {
			found = append(found, i)
		}
	}
	return found
}

// inOrder returns the files in an order in which a definition comes after those that it refers to, so
// that publishing it does not warn of these. Otherwise they stay in the order of the command.
func (f *fileSet) inOrder() (ordered []string) {
	visited := make([]bool, len(f.files))
	var visit func(i int)
	visit = func(i int) {
		if visited[i] {
			return
		}
		visited[i] = true
		if d := f.definitions[i]; d != nil {
			references := referencesOf(d)
			for _, path := range slices.Sorted(maps.Keys(references)) {
				for _, other := range f.matching(references[path]) {
					visit(other)
				}
			}
		}
		ordered = append(ordered, f.files[i])
	}
	for i := range f.files {
		visit(i)
	}
	return ordered
}

// withoutKnown returns the warnings of a file without those about workflows that other files of the
// command have: a dry run does not publish these.
func (f *fileSet) withoutKnown(file string, warnings []workflow.Issue) []workflow.Issue {
	at := slices.Index(f.files, file)
	if at < 0 || f.definitions[at] == nil {
		return warnings
	}
	references := referencesOf(f.definitions[at])
	return slices.DeleteFunc(warnings, func(i workflow.Issue) bool {
		return i.Code == "unknown_workflow" && len(f.matching(references[i.Path])) > 0
	})
}

// referencesOf returns the workflows that a definition starts, embeds, or undoes with, by the path of
// the reference.
func referencesOf(d *spec.Definition) map[string]string {
	all, paths := map[string]string{}, program.Paths(d)
	for i, s := range d.FlatSteps() {
		if s.Reference != nil {
			all[paths[i]+".workflowReference.workflow"] = s.Reference.Workflow
			for n, written := range s.Reference.Among {
				all[fmt.Sprintf("%s.workflowReference.among[%d]", paths[i], n)] = written
			}
		}
		if s.Compensate != nil {
			all[paths[i]+".compensate.workflow"] = s.Compensate.Workflow
		}
	}
	for _, kind := range d.OnEnd.Kinds() {
		all[program.FollowUpPath(kind)+".workflow"] = d.OnEnd.Of(kind).Workflow
	}
	return all
}

// publishFunc publishes a source, or checks it.
type publishFunc func(ctx context.Context, source []byte, dryRun bool) (d client.Definition, created bool, err error)

// publisher returns what publishes: the service or, offline, a catalog that knows only files.
func publisher(cmd *cobra.Command, c *connection, files, blockFiles []string, offline, draft bool, fills *placeholders) (publishFunc, error) {
	if !offline {
		api, err := c.newClient()
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, source []byte, dryRun bool) (client.Definition, bool, error) {
			send := api.Publish
			if draft {
				send = api.PublishDraft
			}
			d, created, err := send(ctx, source, dryRun)
			return d, created, render.AsServiceError(err)
		}, nil
	}
	var sources [][]byte
	for _, file := range files {
		if file == "-" {
			continue // it can be read only once
		}
		source, err := readSource(cmd, file)
		if err != nil {
			return nil, err
		}
		sources = append(sources, fills.fill(source))
	}
	known, err := newOfflineCatalog(cmd, blockFiles, sources...)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, source []byte, _ bool) (client.Definition, bool, error) {
		known.learn(ctx, source)
		p, _, err := known.Publish(ctx, offlineCaller, source, true)
		return client.Definition{Package: p.Ref.Package, Name: p.Ref.Name, Version: p.Ref.Version, Digest: p.Digest, Warnings: known.known(p.Warnings)}, true, err
	}, nil
}

// publish publishes one file and prints the result.
func publish(cmd *cobra.Command, c *connection, send publishFunc, fills *placeholders, set *fileSet, file string, dryRun, strictMode bool) error {
	source, err := readSource(cmd, file)
	if err != nil {
		return err
	}
	source = fills.fill(source)
	d, created, err := send(cmd.Context(), source, dryRun || strictMode)
	if dryRun {
		d.Warnings = set.withoutKnown(file, d.Warnings)
	}
	if err == nil && strictMode && len(d.Warnings) > 0 {
		err = render.AsServiceError(workflow.Invalid("it does not match what is registered now", d.Warnings))
	} else if err == nil && strictMode && !dryRun {
		d, created, err = send(cmd.Context(), source, false)
	}
	if err != nil {
		return &render.FileError{Path: file, Err: err}
	}
	if len(d.Warnings) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s does not match what is registered now\n", file)
		printIssues(cmd.ErrOrStderr(), file+":", d.Warnings)
	}
	if c.json() {
		return render.PrintJSON(cmd, d)
	}
	what := "published"
	switch {
	case dryRun:
		what = "valid"
	case d.Draft && created:
		what = "stored the draft"
	case !created:
		what = "unchanged"
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s %s/%s:%s\n", what, d.Package, d.Name, d.Version)
	if d.Archived {
		printNote(cmd, "it is archived and starts no executions; \"lockstep restore %s/%s:%s\" allows them again", d.Package, d.Name, d.Version)
	}
	return nil
}

// blankRE matches a text without content: only white space and YAML comments.
var blankRE = regexp.MustCompile(`^(\s*(#[^\n]*)?(\n|$))*$`)

// readSource reads a file, or standard input for "-". It refuses a file without
// content, which is hardly what the caller meant.
func readSource(cmd *cobra.Command, file string) ([]byte, error) {
	var source []byte
	var err error
	if file == "-" {
		source, err = io.ReadAll(cmd.InOrStdin())
	} else {
		source, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, render.ReadError(file, err)
	}
	source, err = render.Text(source)
	switch {
	case err != nil:
		return nil, &render.FileError{Path: file, Err: err}
	case blankRE.Match(source):
		return nil, &render.FileError{Path: file, Err: errors.New("it is empty")}
	}
	return source, nil
}

func newDefinitions(c *connection) *cobra.Command {
	var limit int
	var labels []string
	cmd := &cobra.Command{
		Use:     "definitions [WORKFLOW]",
		Aliases: []string{"workflows"},
		Short:   "List published workflows and their versions, or print one version as JSON",
		Long:    "List every version of every published workflow. With PACKAGE/NAME, list its versions. With\nPACKAGE/NAME:VERSION, print the newest matching version with its source, as JSON.",
		Example: "  lockstep definitions\n  lockstep definitions fleet/upgrade_firmware\n  lockstep definitions fleet/upgrade_firmware:1\n  lockstep definitions --label team=network",
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			wanted, err := parsePairs("label", labels)
			if err != nil {
				return err
			}
			all := api.LabelledDefinitions(cmd.Context(), wanted)
			if len(args) > 0 && len(labels) > 0 {
				return errors.New("--label is for the list of all workflows: leave out " + args[0])
			}
			if len(args) > 0 {
				ref, err := workflow.ParseRef(args[0])
				if err != nil {
					return err
				}
				if ref.Version != "" {
					d, err := api.Definition(cmd.Context(), ref)
					if err != nil {
						return hintNotFound(render.AsServiceError(err), "\"lockstep definitions\" lists what is published")
					}
					return render.PrintJSON(cmd, d)
				}
				all = api.Versions(cmd.Context(), ref.Package, ref.Name)
			}
			err = printList(cmd, c, all, limit,
				[]string{"WORKFLOW", "PUBLISHED", "BY", "STATE"},
				func(d client.Definition) []string {
					return []string{d.Package + "/" + d.Name + ":" + d.Version, render.Time(d.PublishedAt), render.OrDash(d.PublishedBy), versionState(d)}
				})
			return hintNotFound(err, "\"lockstep definitions\" lists what is published")
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 0, "maximum number; 0 for all")
	cmd.Flags().StringArrayVarP(&labels, "label", "l", nil, "only with this label, NAME=VALUE (repeatable)")
	return cmd
}

// The states of a version.
const (
	stateDraft     = "draft"
	statePublished = "published"
	stateArchived  = "archived"
)

// versionState returns the state of a version.
func versionState(d client.Definition) string {
	switch {
	case d.Archived:
		return stateArchived
	case d.Draft:
		return stateDraft
	}
	return statePublished
}

// definitionsHint explains how to list workflows and their versions.
func definitionsHint(ref string) string {
	name, _, _ := strings.Cut(ref, ":")
	return "\"lockstep definitions\" lists what is published; \"lockstep definitions " + name + "\" lists its versions"
}

func newArchive(c *connection) *cobra.Command {
	return newVersionCommand(c, (*client.Client).Archive, "archived", &cobra.Command{
		Use:     "archive WORKFLOW",
		Short:   "Allow no new executions of one version of a workflow",
		Long:    "Allow no new executions of PACKAGE/NAME:MAJOR.MINOR.PATCH. Existing executions continue.\n\"lockstep restore\" allows new ones again.",
		Example: "  lockstep archive fleet/upgrade_firmware:1.0.0 --reason 'replaced by 1.1.0'",
	})
}

func newRestore(c *connection) *cobra.Command {
	return newVersionCommand(c, (*client.Client).Restore, "restored", &cobra.Command{
		Use:     "restore WORKFLOW",
		Short:   "Allow executions of an archived version again",
		Example: "  lockstep restore fleet/upgrade_firmware:1.0.0",
	})
}

// newVersionCommand completes a verb that takes one exact version of a workflow.
func newVersionCommand(c *connection, do func(api *client.Client, ctx context.Context, ref workflow.Ref, why string) (client.Definition, error), done string, cmd *cobra.Command) *cobra.Command {
	var reason string
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit")
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		api, err := c.newClient()
		if err != nil {
			return err
		}
		ref, err := workflow.ParseRef(args[0])
		if err != nil {
			return err
		}
		if !ref.Exact() {
			return fmt.Errorf("%q does not name one version: want PACKAGE/NAME:MAJOR.MINOR.PATCH", args[0])
		}
		var before []starter
		if cmd.Name() == "archive" {
			before, _ = readStarters(cmd.Context(), api, ref)
		}
		was, known := api.Definition(cmd.Context(), ref)
		d, err := do(api, cmd.Context(), ref, reason)
		if err != nil {
			return render.AsServiceError(err)
		}
		if c.json() {
			return render.PrintJSON(cmd, d)
		}
		if known == nil && was.Archived == d.Archived {
			printNote(cmd, "it was %s already: nothing has changed", map[bool]string{true: "archived", false: "not archived"}[d.Archived])
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s %s/%s:%s\n", done, d.Package, d.Name, d.Version)
		if cmd.Name() != "archive" {
			return nil
		}
		after, err := readStarters(cmd.Context(), api, ref)
		if err != nil {
			printNote(cmd, "which of its triggers, or whether its schedule, is paused now cannot be read: %v", err)
			return nil
		}
		for _, note := range archiveNotes(before, after, ref) {
			fmt.Fprintln(cmd.ErrOrStderr(), render.OneLine("note: "+note))
		}
		return nil
	}
	return cmd
}

// starter is a trigger or the schedule of a workflow: what starts executions of it.
type starter struct {
	what, resume string
	paused       *string // why the service has paused it; nil if it has not
}

// readStarters returns the triggers and the schedule of a workflow, as far as they can be read.
func readStarters(ctx context.Context, api *client.Client, ref workflow.Ref) (all []starter, err error) {
	for t, err := range api.Triggers(ctx) {
		if err != nil {
			return all, err
		}
		if t.Workflow.FullName() == ref.FullName() {
			one := starter{what: "trigger " + t.Name, resume: "lockstep triggers resume " + t.Name}
			if t.Paused != nil && t.Paused.By == nil {
				one.paused = &t.Paused.Reason
			}
			all = append(all, one)
		}
	}
	s, err := api.Schedule(ctx, ref.Package, ref.Name)
	switch {
	case workflow.Is(err, workflow.CodeNotFound):
		return all, nil
	case err != nil:
		return all, err
	}
	one := starter{what: "schedule", resume: "lockstep schedules resume " + ref.FullName()}
	if s.Paused != nil && s.Paused.By == nil {
		one.paused = &s.Paused.Reason
	}
	return append(all, one), nil
}

// archiveNotes says what archiving a version has paused or taken away.
func archiveNotes(before, after []starter, archived workflow.Ref) (notes []string) {
	for _, s := range before {
		if !slices.ContainsFunc(after, func(left starter) bool { return left.what == s.what }) {
			notes = append(notes, fmt.Sprintf("its %s starts nothing any more: the newest version that is left has none; with \"lockstep restore %s\" it does again", s.what, archived))
		}
	}
	for _, s := range after {
		if s.paused != nil {
			notes = append(notes, fmt.Sprintf("its %s is paused: %s, with \"%s\"", s.what, *s.paused, s.resume))
		}
	}
	return notes
}
