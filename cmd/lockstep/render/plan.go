package render

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// PrintPlan writes a plan for people.
func PrintPlan(out io.Writer, p views.PlanView) error {
	fmt.Fprintf(out, "%s\n", p.Workflow)
	if p.Region != nil {
		fmt.Fprintf(out, "region: %s\n", plannedRegion(p.Region))
	}
	if p.Problem != nil {
		fmt.Fprintf(out, "would end FAILED_SAFE at once: %s\n", describeProblem(p.Problem))
		return nil
	}
	printPlannedEntities(out, p)
	if at := p.NotBefore; at != nil && at.After(time.Now()) {
		fmt.Fprintf(out, "begins not before %s\n", Time(at))
	}
	if w := p.StartWhen; w != nil && !w.True {
		fmt.Fprintf(out, "waits until this is true: %s%s\n", OneLine(w.Condition), prefixed(" (", w.Reason, ")"))
	}
	fmt.Fprintln(out)
	t := NewTable(out, "STEP", "ON", "BLOCK", "JOBS", "SKIPPED", "CHANGES", "IF IT FAILS")
	var notes []string
	rollouts := map[string]bool{}
	for i := range p.Steps {
		s := &p.Steps[i]
		rollouts[s.Label] = len(s.Waves) > 0 || slices.Contains(s.Unknown, "waves")
		t.Row([]string{s.Label, OrDash(s.RunOn), plannedWork(s), plannedJobs(s), fmt.Sprint(s.Skipped), strings.ToLower(string(s.Effect)), dashIfEmpty(s.IfFails)})
		notes = append(notes, plannedNotes(s, rollouts)...)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, note := range notes {
		fmt.Fprintln(out, OneLine(note))
	}
	fmt.Fprintf(out, "\nabout %d messages with jobs, about %s (an estimate without retries and rollbacks, at prices of %s)\n", p.Messages, cost.Format(p.Cost.Dollars), p.Cost.PricesAsOf)
	if p.Fails {
		fmt.Fprintln(out, "the execution would fail: see above")
	}
	return nil
}

// plannedRegion describes the region of a plan, with a warning if no worker is known to serve it.
func plannedRegion(r *views.PlannedRegion) string {
	if r.Known {
		return r.Name
	}
	names := "no region"
	if len(r.Regions) > 0 {
		names = "only " + strings.Join(r.Regions, ", ")
	}
	return fmt.Sprintf("%s, for which the jobs wait until a worker serves it: the setting regions of the stage names %s; --region says another", r.Name, names)
}

func printPlannedEntities(out io.Writer, p views.PlanView) {
	var counts []string
	for _, kind := range slices.Sorted(maps.Keys(p.Entities.ByType)) {
		counts = append(counts, fmt.Sprintf("%d %s", p.Entities.ByType[kind], kind))
	}
	fmt.Fprintf(out, "entities: %s\n", dashIfEmpty(strings.Join(counts, ", ")))
	if len(p.Entities.Named) > 0 {
		more := ""
		if n := p.Entities.Total - len(p.Entities.Named); n > 0 {
			more = fmt.Sprintf(", and %d more", n)
		}
		fmt.Fprintf(out, "  %s%s\n", strings.Join(p.Entities.Named, ", "), more)
	}
	if p.Entities.Examined < p.Entities.Total {
		fmt.Fprintf(out, "  locks, conditions and assertions were looked at for the first %d of them only\n", p.Entities.Examined)
	}
	for _, m := range p.Entities.More {
		fmt.Fprintf(out, "  and more that block %s acquires%s: which cannot be told before it is called\n", m.Block, prefixed(" for step ", m.Step, ""))
	}
	if p.Locked.Count == 0 {
		fmt.Fprintln(out, "locked by others: none")
		return
	}
	fmt.Fprintf(out, "locked by others: %d; %s\n", p.Locked.Count, map[string]string{
		"wait": "the execution would wait for them", "skip": "the execution would leave them out", "fail": "the execution would fail",
	}[p.OnLocked])
	for _, l := range p.Locked.Named {
		switch {
		case l.HeldBy == nil:
			fmt.Fprintf(out, "  %s is reserved by %s\n", l.Entity, OrDash(l.ReservedBy))
		case l.NeedsPerson:
			fmt.Fprintf(out, "  %s is held by %s, which has ended and waits for somebody: \"lockstep status %s\" says what to do\n", l.Entity, *l.HeldBy, *l.HeldBy)
		default:
			fmt.Fprintf(out, "  %s is held by %s since %s\n", l.Entity, *l.HeldBy, Time(l.Since))
		}
	}
	if more := p.Locked.Count - len(p.Locked.Named); more > 0 {
		fmt.Fprintf(out, "  and %d more\n", more)
	}
}

// plannedWork returns the block of a step, or the definition that it refers to.
func plannedWork(s *views.PlannedStep) string {
	if s.Block != nil {
		return *s.Block
	}
	return OrDash(s.Workflow)
}

func plannedJobs(s *views.PlannedStep) string {
	switch {
	case slices.Contains([]views.StepEffect{views.EffectContainer, views.EffectStarts, views.EffectSets, views.EffectInserts, views.EffectSchedules, views.EffectChooses, views.EffectWaits}, s.Effect):
		return "-"
	case s.Reached == views.ReachedNever:
		return "none"
	case slices.Contains(s.Unknown, "items"):
		return "?"
	case (s.AtMost || s.Reached != views.ReachedAlways) && s.Jobs > 0:
		return fmt.Sprintf("up to %d", s.Jobs)
	case s.Repeats:
		return fmt.Sprintf("%d, repeated", s.Jobs)
	}
	return fmt.Sprint(s.Jobs)
}

// plannedNotes returns lines about what is unknown of a step, and about what fails already.
func plannedNotes(s *views.PlannedStep, rollouts map[string]bool) (notes []string) {
	if s.SkippedBy != nil {
		notes = append(notes, fmt.Sprintf("step %s: skipped, because the condition of %s is false", s.Label, *s.SkippedBy))
	}
	switch by := OrDash(s.DecidedBy); {
	case s.Reached == views.ReachedByChoice && rollouts[by]:
		notes = append(notes, fmt.Sprintf("step %s: between two waves of %s", s.Label, by))
	case s.Reached == views.ReachedByChoice:
		notes = append(notes, fmt.Sprintf("step %s: only if %s chooses so", s.Label, by))
	case s.Reached == views.ReachedByFailure:
		notes = append(notes, fmt.Sprintf("step %s: only after a failure that onFailure of %s handles", s.Label, by))
	case s.Reached == views.ReachedNever:
		if s.SkippedBy == nil {
			notes = append(notes, fmt.Sprintf("step %s: not reached with these parameters", s.Label))
		}
	}
	if r := s.Route; r != nil {
		when := "the default"
		if r.When != nil {
			when = *r.When
		}
		notes = append(notes, fmt.Sprintf("step %s takes case %d: %s", s.Label, r.Number, when))
	}
	if len(s.Waves) > 0 {
		var waves []string
		for _, w := range s.Waves[:min(len(s.Waves), 10)] {
			waves = append(waves, fmt.Sprintf("%s (%d)", w.Name, w.Entities))
		}
		if more := len(s.Waves) - len(waves); more > 0 {
			waves = append(waves, fmt.Sprintf("and %d more", more))
		}
		notes = append(notes, fmt.Sprintf("step %s: %d waves, each with so many entities: %s", s.Label, len(s.Waves), strings.Join(waves, ", ")))
	}
	if s.Next != nil {
		notes = append(notes, fmt.Sprintf("step %s goes on with %s", s.Label, *s.Next))
	}
	if len(s.Unknown) > 0 {
		notes = append(notes, fmt.Sprintf("step %s: cannot be told before results and variables are known: %s", s.Label, strings.Join(s.Unknown, ", ")))
	}
	if s.Unmet > 0 {
		notes = append(notes, fmt.Sprintf("step %s: an assertion is false for %d %s, of which %d may fail: %s", s.Label, s.Unmet, jobsOf(s.RunOn), s.Tolerated, describeProblem(s.Problem)))
	} else if s.Problem != nil {
		notes = append(notes, fmt.Sprintf("step %s fails already: %s", s.Label, describeProblem(s.Problem)))
	}
	return notes
}

// jobsOf returns the word for what a step has jobs for.
func jobsOf(runOn *string) string {
	if runOn != nil && *runOn == workflow.RunOnItem {
		return "items"
	}
	return "entities"
}

func describeProblem(f *views.FailureView) string {
	text := f.Code + ": " + f.Message
	if f.Entity != nil && !strings.Contains(text, *f.Entity) {
		text += " (" + *f.Entity + ")"
	}
	if f.Step != nil && !strings.Contains(text, *f.Step) {
		text += ", in step " + *f.Step
	}
	return OneLine(text)
}

// prefixed returns the text between before and after, "" if there is no text.
func prefixed(before string, text *string, after string) string {
	if text == nil || *text == "" {
		return ""
	}
	return before + OneLine(*text) + after
}

func dashIfEmpty(s string) string { return OrDash(&s) }

// PrintNext writes for people what a probe would do next.
func PrintNext(out io.Writer, n views.NextView) error {
	if n.Step == nil {
		fmt.Fprintln(out, "All steps are pure: there is nothing else to do.")
		return nil
	}
	if n.Block == nil {
		fmt.Fprintf(out, "Next: step %s, which a probe does not enter: it waits, starts an execution, or has branches\n", OneLine(*n.Step))
	} else {
		fmt.Fprintf(out, "Next: step %s, block %s: %d jobs, %d %s skipped\n", OneLine(*n.Step), *n.Block, n.Jobs, n.Skipped, jobsOf(n.RunOn))
	}
	if n.Problem != nil {
		fmt.Fprintf(out, "It fails already: %s\n", describeProblem(n.Problem))
	}
	if len(n.Items) == 0 {
		return nil
	}
	t := NewTable(out, "ENTITY", "PARAMETERS")
	for _, j := range n.Items {
		on := OrDash(j.Entity)
		if j.Item != nil {
			on = fmt.Sprintf("item %d", *j.Item)
		}
		t.Row([]string{on, string(j.Parameters)})
	}
	return t.Flush()
}
