package defgen

import (
	"fmt"
	"strings"
)

// Table is the table into which steps insert rows. A row has a number n; s, b, t and j are a text, a
// truth value, a time and anything.
const Table = "rows"

// TableColumns are its columns, with their types.
var TableColumns = []struct {
	Name, Type string
	Required   bool
}{{"n", "number", true}, {"s", "string", false}, {"b", "boolean", false}, {"t", "datetime", false}, {"j", "json", false}}

// FlowRow is a row that a step inserts: values by column.
type FlowRow map[string]*FlowData

// FlowSchedule is a schedule that a step makes, or removes. It never fires within a simulation.
type FlowSchedule struct {
	Name    FlowData // text
	Hour    *FlowValue
	Zone    string // "" for none
	Replace bool
	Remove  bool
	Given   []FlowData // the parameters of what it starts
}

// ScheduleCron returns the cron of a schedule with an hour.
func ScheduleCron(hour int64) string { return fmt.Sprintf("30 %d 1 7 *", hour) }

// DrawExtra draws a definition of another kind, and adds steps to it that more draws: which insert
// rows, make and remove schedules, set variables to values of all forms, and start executions for
// which nobody waits. waits says that steps may wait.
func DrawExtra(draw, more func(below int) int, waits bool) *Flow {
	var f *Flow
	switch draw(3) {
	case 0:
		f = DrawFlow(draw, waits, true)
	case 1:
		f = DrawFurther(draw, waits, true)
	default:
		f = DrawBranches(draw, waits)
	}
	f.extra, f.loops, f.indexed, f.branch = true, 0, false, ""
	f.Steps = f.withExtra(f.Steps, more)
	return f
}

// HasExtra reports whether the definition was drawn by [DrawExtra].
func (f *Flow) HasExtra() bool { return f.extra }

// withExtra adds steps to a list, and to all lists in its steps.
func (f *Flow) withExtra(steps []FlowStep, more func(below int) int) (all []FlowStep) {
	for i := range steps {
		s := steps[i]
		if more(2) == 0 && f.hasRoom() {
			all = append(all, f.extraStep(more))
		}
		if s.Starts {
			s.Forget = more(2) == 0
		}
		loops, indexed := f.loops, f.indexed
		if s.Loops {
			f.loops, f.indexed = loops+1, s.While != nil
		}
		s.Inner = f.withExtra(s.Inner, more)
		f.loops, f.indexed = loops, indexed
		for _, cases := range [][]FlowCase{s.Switch, s.OnFailure} {
			for k := range cases {
				cases[k].Steps = f.withExtra(cases[k].Steps, more)
			}
		}
		if s.Parallel != nil {
			branch := f.branch
			for k := range s.Parallel.Branches {
				b := &s.Parallel.Branches[k]
				f.branch = b.Label
				b.Steps = f.withExtra(b.Steps, more)
			}
			f.branch = branch
		}
		all = append(all, s)
	}
	if len(steps) > 0 && more(4) == 0 && f.hasRoom() {
		all = append(all, f.extraStep(more))
	}
	return all
}

// hasRoom reports whether the definition may have more steps: 200.
func (f *Flow) hasRoom() bool { return f.labels+2*f.added < 190 }

// extraStep draws one step.
func (f *Flow) extraStep(more func(below int) int) FlowStep {
	f.added++
	s := FlowStep{Label: fmt.Sprintf("t%d", f.added)}
	switch kind := more(10); {
	case kind < 3:
		s.Row = f.row(more)
	case kind < 5:
		s.Schedule = f.schedule(more)
	case kind < 8:
		f.setAnything(&s, more)
		return s
	default:
		s.Starts, s.Forget = true, more(4) > 0
	}
	switch more(4) {
	case 0:
		s.ContinueOnError = true
	case 1:
		s.OnFailure = []FlowCase{{Steps: []FlowStep{{Label: s.Label + "f", Set: []FlowSet{{Path: f.own("why"), Value: FlowValue{ErrorCode: true}}}}}}}
	}
	return s
}

func (f *Flow) row(more func(below int) int) FlowRow {
	number := FlowData{Kind: DataNumber, Value: f.valueBy(more)}
	if more(4) == 0 { // which may be no number
		number = FlowData{Kind: DataWhole, Text: []string{"a", "m", "x"}[more(3)]}
	}
	row := FlowRow{"n": &number}
	if more(2) == 0 {
		row["s"] = &FlowData{Kind: DataText, Text: "row ", Value: f.valueBy(more)}
		if more(3) == 0 {
			row["s"] = &FlowData{Kind: DataWhole, Text: []string{"x", "x.y", "z"}[more(3)]}
		}
	}
	if more(4) == 0 {
		row["b"] = &FlowData{Kind: DataLiteral, Text: []string{"true", "false", "null"}[more(3)]}
	}
	if more(4) == 0 {
		row["t"] = &FlowData{Kind: DataLiteral, Text: `"2030-01-31T08:00:00+01:00"`}
	}
	if more(2) == 0 {
		any := f.data(0, more)
		if more(2) == 0 {
			any = FlowData{Kind: DataWhole, Text: "x"}
		}
		row["j"] = &any
	}
	return row
}

func (f *Flow) schedule(more func(below int) int) *FlowSchedule {
	o := &FlowSchedule{Name: FlowData{Kind: DataText, Text: "on", Value: f.valueBy(more)}, Replace: more(2) == 0, Remove: more(4) == 0}
	if more(8) == 0 { // which is no name
		o.Name.Text = "1"
	}
	if o.Remove {
		return o
	}
	if more(2) == 0 {
		hour := f.valueBy(more)
		if hour.Add += 19; more(2) == 0 { // there are 24
			hour.Add, hour.Else = 30, 30
		}
		o.Hour = &hour
	}
	if more(3) == 0 {
		o.Zone = "Europe/Zurich"
	}
	for range more(3) {
		o.Given = append(o.Given, f.data(0, more))
	}
	return o
}

// setAnything draws a step that sets one or two variables.
func (f *Flow) setAnything(s *FlowStep, more func(below int) int) {
	paths := []string{[]string{"x", "x", "x.y", "x.k0", "z"}[more(5)], "w.v"}
	for _, path := range paths[:1+more(2)] {
		d := f.data(0, more)
		s.Set = append(s.Set, FlowSet{Path: f.own(path), Data: &d})
	}
}

func (r FlowRow) yaml() string {
	var row []string
	for _, c := range TableColumns {
		switch d := r[c.Name]; {
		case d == nil:
		case d.Text == "null": // which would be refused if it were known
			row = append(row, c.Name+": '${null}'")
		default:
			row = append(row, c.Name+": "+d.yaml())
		}
	}
	return fmt.Sprintf("insert: {table: %s, row: {%s}}", Table, strings.Join(row, ", "))
}

func (o *FlowSchedule) yaml() string {
	fields := []string{"name: " + o.nameYAML(), fmt.Sprintf("workflow: 'p/%s:1'", Started)}
	switch {
	case o.Remove:
		fields = append(fields, "remove: true")
	case o.Hour != nil:
		fields = append(fields, fmt.Sprintf("cron: '30 ${%s} 1 7 *'", o.Hour.expr()))
	default:
		fields = append(fields, fmt.Sprintf("cron: %q", ScheduleCron(4)))
	}
	if o.Replace {
		fields = append(fields, "replace: true")
	}
	if o.Zone != "" {
		fields = append(fields, "zone: "+o.Zone)
	}
	if len(o.Given) > 0 {
		fields = append(fields, "parameters: "+objectYAML(o.Given))
	}
	return "schedule: {" + strings.Join(fields, ", ") + "}"
}

// nameYAML returns the name, a text with an expression at its end.
func (o *FlowSchedule) nameYAML() string {
	return fmt.Sprintf("'%s${%s}'", o.Name.Text, o.Name.Value.expr())
}

// NameOf returns the name of a schedule with a number.
func (o *FlowSchedule) NameOf(n int64) string { return o.Name.Text + fmt.Sprint(n) }
