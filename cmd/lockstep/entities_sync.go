package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/inventory"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Bounds of a synchronisation.
const (
	maxSourceBytes  = 256 << 20 // output of the program
	maxSourceIssues = 50        // reported by one error
	maxShownChanges = 20        // of each kind, in the output for people
	deletesAtOnce   = 8
	sourceStopDelay = 5 * time.Second // between the request to stop and the kill of the program
)

// syncOptions are the flags of entities sync.
type syncOptions struct {
	types                       []string
	replace, deleteMissing, yes bool
	dryRun                      bool
	maxDelete                   string
	limit                       deleteLimit // parsed maxDelete
}

func newEntitiesSync(c *connection) *cobra.Command {
	var o syncOptions
	cmd := &cobra.Command{
		Use:   "sync PROGRAM [ARGUMENT]...",
		Short: "Bring the inventory to what a program writes, after showing the difference",
		Long: `Execute a program, directly and without a shell, read the entities that it writes to its standard
output as JSON lines, compare them with the inventory, show the difference, and ask. Then merge what
is new or has changed, as "lockstep entities import" does, or replace it with --replace.

Nothing changes if the program fails, writes an invalid line or nothing at all. Entities of the types
that it writes, or of --type, which it does not write are missing: they stay, unless
--delete-missing deletes them. So the program has to list all entities of its types: one that lists
those of one site deletes all others. If more than a tenth of a type is missing, and more than ten,
nothing changes unless --max-delete allows so many. One that an execution holds or waits for, or that has changed since
it was shown, is not deleted; the exit code is 5 then.`,
		Example: "  lockstep entities sync -- ./netbox-devices\n  lockstep entities sync --yes --delete-missing --type device -- python3 cmdb.py",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() != 0 {
				return errors.New("write -- in front of the program: lockstep entities sync [FLAGS] -- PROGRAM [ARGUMENT]...")
			}
			if len(args) == 0 {
				return errors.New("PROGRAM is missing: lockstep entities sync [FLAGS] -- PROGRAM [ARGUMENT]...")
			}
			for _, name := range o.types {
				if !workflow.ValidID(name) {
					return fmt.Errorf("--type: %q is not the name of an entity type", name)
				}
			}
			var err error
			if o.limit, err = parseDeleteLimit(o.maxDelete); err != nil {
				return err
			}
			ask := !o.yes && !o.dryRun
			if in, ok := cmd.InOrStdin().(*os.File); ask && (c.json() || ok && !isatty.IsTerminal(in.Fd())) {
				return errors.New("nobody can be asked here: say --yes, or --dry-run to see the difference only")
			}
			api, err := c.newClient()
			if err != nil {
				return err
			}
			return syncEntities(cmd, c, api, o, args)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.types, "type", nil, "the program lists all entities of these types; it may write no others")
	f.BoolVar(&o.replace, "replace", false, "replace entities instead of merging into them")
	f.BoolVar(&o.deleteMissing, "delete-missing", false, "delete entities that the program does not write")
	f.StringVar(&o.maxDelete, "max-delete", "", "delete up to so many entities of each type, or up to such a percentage of it (default: 10%, and always ten)")
	f.BoolVar(&o.yes, "yes", false, "change the inventory without asking")
	f.BoolVar(&o.dryRun, "dry-run", false, "show the difference, change nothing")
	return cmd
}

func syncEntities(cmd *cobra.Command, c *connection, api *client.Client, o syncOptions, program []string) error {
	ctx := cmd.Context()
	phase, done := atomic.Pointer[string]{}, atomic.Int64{}
	enter := func(name string) { done.Store(0); phase.Store(&name) }
	enter("waiting for " + program[0])
	stop := render.StartProgressNotes(cmd.ErrOrStderr(), func() string { return fmt.Sprintf("%s, %d entities", *phase.Load(), done.Load()) })
	defer func() { stop() }()

	source, err := readProgram(ctx, program, c.isTokenVariable, cmd.ErrOrStderr())
	if err != nil {
		return startError{err}
	}
	if source, err = render.Text(source); err != nil {
		return &render.FileError{Path: program[0], Err: err}
	}
	wanted, err := parseEntities(source, o.types)
	if err != nil {
		return &render.FileError{Path: program[0], Err: render.AsServiceError(err)}
	}
	enter("comparing with the inventory")
	d, err := compareInventory(ctx, api, wanted, o, &done)
	if err != nil {
		return render.AsServiceError(err)
	}
	if !c.json() {
		d.print(cmd.OutOrStdout(), o.deleteMissing)
	}
	if o.deleteMissing {
		if problem := d.tooManyDeletions(o.limit); problem != "" && o.dryRun {
			fmt.Fprintf(cmd.ErrOrStderr(), "note: without --dry-run this is refused: %s\n", problem)
		} else if problem != "" {
			return render.AsServiceError(workflow.Errorf(workflow.CodeInvalid, "%s", problem))
		}
	}
	switch {
	case o.dryRun || len(d.writes) == 0 && (!o.deleteMissing || len(d.Missing) == 0):
		return d.finish(cmd, c)
	case !o.yes:
		stop()
		if !askYes(cmd.InOrStdin(), cmd.OutOrStdout(), "Change the inventory?") {
			fmt.Fprintln(cmd.OutOrStdout(), "nothing was changed")
			return nil
		}
		stop = render.StartProgressNotes(cmd.ErrOrStderr(), func() string { return fmt.Sprintf("%s, %d entities", *phase.Load(), done.Load()) })
	}
	enter("importing")
	if len(d.writes) > 0 {
		var lines bytes.Buffer
		for _, e := range d.writes {
			if err := writeEntityLine(&lines, e); err != nil {
				return err
			}
		}
		opt := client.ImportOptions{Replace: o.replace, Progress: func(p client.ImportProgress) { done.Store(int64(p.Line)) }}
		if d.Written, err = api.Import(ctx, &lines, opt); err != nil {
			return withHint(render.AsServiceError(err), "what was imported stays; synchronise again for the rest")
		}
	}
	if o.deleteMissing {
		enter("deleting")
		if err := d.deleteMissing(ctx, api, &done); err != nil {
			return withHint(render.AsServiceError(err), "what was changed stays; synchronise again for the rest")
		}
	}
	d.Applied = true
	return d.finish(cmd, c)
}

// readProgram runs a program and returns its output if it exits with 0. The program does not get
// withheld variables, such as a token of the service.
func readProgram(ctx context.Context, program []string, withhold func(variable string) bool, stderr io.Writer) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := exec.CommandContext(ctx, program[0], program[1:]...)
	p.Env = slices.DeleteFunc(os.Environ(), withhold)
	p.Cancel = func() error { return p.Process.Signal(syscall.SIGTERM) }
	p.WaitDelay = sourceStopDelay
	out := &boundedBuffer{limit: maxSourceBytes, full: cancel}
	p.Stdout, p.Stderr = out, stderr
	err := p.Run()
	switch {
	case out.exceeded:
		return nil, fmt.Errorf("%s has written more than %d bytes; nothing was changed", program[0], maxSourceBytes)
	case err != nil:
		return nil, fmt.Errorf("%s has failed: %w; nothing was changed", program[0], err)
	}
	return out.Bytes(), nil
}

// boundedBuffer keeps up to limit bytes, and calls full at the first one beyond it.
type boundedBuffer struct {
	bytes.Buffer
	limit    int
	exceeded bool
	full     func()
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.limit {
		b.exceeded = true
		b.full()
		return len(p), nil
	}
	return b.Buffer.Write(p)
}

// parseEntities reads the lines of a program, all or none.
func parseEntities(source []byte, types []string) ([]workflow.Entity, error) {
	var all []workflow.Entity
	var foreign []workflow.Issue
	issues, err := inventory.ReadImport(bytes.NewReader(source), maxSourceIssues, func(line int, e workflow.Entity) error {
		if len(types) > 0 && !slices.Contains(types, e.Type) && len(foreign) < maxSourceIssues {
			foreign = append(foreign, workflow.Issue{Line: line, Path: "type", Code: "type", Message: fmt.Sprintf("%q is none of the types of --type", e.Type)})
		}
		all = append(all, e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(issues) == 0 {
		issues = foreign
	}
	if err := workflow.Invalid("what the program has written is not valid; nothing was changed", issues); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, workflow.Errorf(workflow.CodeInvalid, "the program has written no entity; nothing was changed")
	}
	return all, nil
}

// changedEntity is an entity that changes, and its changed attributes.
type changedEntity struct {
	Entity  string   `json:"entity"`
	Set     []string `json:"set"`     // attributes
	Removed []string `json:"removed"` // attributes
	Groups  bool     `json:"groups"`
}

// undeleted is an entity that could not be deleted.
type undeleted struct {
	Entity  string        `json:"entity"`
	Code    workflow.Code `json:"code"`
	Message string        `json:"message"`
}

// difference holds what a synchronisation will change or has changed.
type difference struct {
	New        []string        `json:"new"`
	Changed    []changedEntity `json:"changed"`
	Missing    []string        `json:"missing"` // from the program's output
	Unchanged  int             `json:"unchanged"`
	Applied    bool            `json:"applied"`
	Written    int             `json:"written"`
	Deleted    int             `json:"deleted"`
	NotDeleted []undeleted     `json:"notDeleted"`

	writes  []workflow.Entity
	missing []workflow.Entity
	stored  map[string]int // number of entities in the inventory, by type
}

// compareInventory compares the output of a program with the inventory.
func compareInventory(ctx context.Context, api *client.Client, wanted []workflow.Entity, o syncOptions, read *atomic.Int64) (*difference, error) {
	d := &difference{New: []string{}, Changed: []changedEntity{}, Missing: []string{}, NotDeleted: []undeleted{}, stored: map[string]int{}}
	types, byKey := slices.Clone(o.types), map[workflow.EntityKey]workflow.Entity{}
	for _, e := range wanted {
		byKey[e.Key()] = e
		types = append(types, e.Type)
	}
	slices.Sort(types)
	stored := map[workflow.EntityKey]bool{}
	for _, name := range slices.Compact(types) {
		for e, err := range api.Entities(ctx, workflow.Selector{Type: name}) {
			if err != nil {
				return nil, err
			}
			read.Add(1)
			d.stored[e.Type]++
			line, named := byKey[e.Key()]
			if !named {
				d.Missing, d.missing = append(d.Missing, e.Key().String()), append(d.missing, e)
				continue
			}
			stored[e.Key()] = true
			if change, differs := compareEntity(e, line, o.replace); differs {
				d.Changed, d.writes = append(d.Changed, change), append(d.writes, line)
			} else {
				d.Unchanged++
			}
		}
	}
	for _, e := range wanted {
		if !stored[e.Key()] {
			d.New, d.writes = append(d.New, e.Key().String()), append(d.writes, e)
		}
	}
	return d, nil
}

// compareEntity returns what importing a line changes in a stored entity.
func compareEntity(stored, line workflow.Entity, replace bool) (changedEntity, bool) {
	set, old := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	_ = json.Unmarshal(line.Attributes, &set)   // it was validated
	_ = json.Unmarshal(stored.Attributes, &old) // it was validated
	c := changedEntity{Entity: stored.Key().String(), Set: inventory.ChangedAttributes(stored.Attributes, set), Removed: []string{}}
	if c.Set == nil {
		c.Set = []string{}
	}
	if replace {
		for name := range old {
			if _, kept := set[name]; !kept {
				c.Removed = append(c.Removed, name)
			}
		}
		slices.Sort(c.Removed)
	}
	c.Groups = (replace || line.Groups != nil) && !inventory.SameGroups(stored.Groups, line.Groups)
	return c, len(c.Set)+len(c.Removed) > 0 || c.Groups
}

// deleteMissing deletes the missing entities that have not changed since the comparison.
func (d *difference) deleteMissing(ctx context.Context, api *client.Client, deleted *atomic.Int64) error {
	var mu sync.Mutex
	err := parallel.Each(ctx, deletesAtOnce, len(d.missing), func(ctx context.Context, i int) error {
		e := d.missing[i]
		_, err := api.DeleteEntity(ctx, e.Key(), e.Version)
		mu.Lock()
		defer mu.Unlock()
		var refused *workflow.Error
		switch {
		case err == nil || workflow.Is(err, workflow.CodeNotFound):
			d.Deleted++
			deleted.Add(1)
		case errors.As(err, &refused) && (refused.Code == workflow.CodeEntityLocked || refused.Code == workflow.CodeConflict):
			d.NotDeleted = append(d.NotDeleted, undeleted{e.Key().String(), refused.Code, refused.Message})
		default:
			return err
		}
		return nil
	})
	slices.SortFunc(d.NotDeleted, func(a, b undeleted) int { return cmp.Compare(a.Entity, b.Entity) })
	return err
}

// print shows the difference for people: the first few of each kind, and the counts.
func (d *difference) print(out io.Writer, deleteMissing bool) {
	some := func(sign string, n int, line func(i int) string) {
		for i := range min(n, maxShownChanges) {
			fmt.Fprintf(out, "%s %s\n", sign, line(i))
		}
		if n > maxShownChanges {
			fmt.Fprintf(out, "%s and %d more\n", sign, n-maxShownChanges)
		}
	}
	some("+", len(d.New), func(i int) string { return d.New[i] })
	some("~", len(d.Changed), func(i int) string {
		c := d.Changed[i]
		what := slices.Clone(c.Set)
		for _, name := range c.Removed {
			what = append(what, "-"+name)
		}
		if c.Groups {
			what = append(what, "its groups")
		}
		return c.Entity + ": " + strings.Join(what, ", ")
	})
	sign, fate := "?", "which stay; --delete-missing deletes them"
	if deleteMissing {
		sign, fate = "-", "which are deleted"
	}
	some(sign, len(d.Missing), func(i int) string { return d.Missing[i] })
	fmt.Fprintf(out, "%d new, %d changed, %d unchanged, %d missing", len(d.New), len(d.Changed), d.Unchanged, len(d.Missing))
	if len(d.Missing) > 0 {
		fmt.Fprintf(out, " (%s)", fate)
	}
	fmt.Fprintln(out)
}

// finish prints what was done.
func (d *difference) finish(cmd *cobra.Command, c *connection) error {
	if c.json() {
		if err := render.PrintJSON(cmd, d); err != nil {
			return err
		}
	} else {
		for _, u := range d.NotDeleted {
			fmt.Fprintf(cmd.ErrOrStderr(), "note: not deleted: %s (%s)\n", u.Message, u.Code)
		}
		if d.Applied {
			fmt.Fprintf(cmd.OutOrStdout(), "imported %d, deleted %d\n", d.Written, d.Deleted)
		}
	}
	if len(d.NotDeleted) > 0 {
		return render.ErrPartial
	}
	return nil
}

// askYes asks a question. Only "y" and "yes" mean yes.
func askYes(in io.Reader, out io.Writer, question string) bool {
	fmt.Fprintf(out, "%s [y/N] ", question)
	line, _ := bufio.NewReader(in).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}
