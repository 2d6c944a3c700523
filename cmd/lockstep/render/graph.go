package render

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// GraphFormats are the formats of [Graph].
var GraphFormats = []string{"text", "mermaid", "dot"}

// Graph draws the steps of a definition and the edges between them, as text or in the languages of
// Mermaid or Graphviz.
func Graph(d *spec.Definition, format string) (string, error) {
	g := newGraph(d)
	switch format {
	case "text":
		return g.text(), nil
	case "mermaid":
		return g.mermaid(), nil
	case "dot":
		return g.dot(), nil
	}
	return "", fmt.Errorf("the format %q is none of %s", format, strings.Join(GraphFormats, ", "))
}

// graph holds the steps in the order of the definition. The node before the first step is the start
// of an execution, the node behind the last its end.
type graph struct {
	nodes []graphNode
	index map[string]int // by label
}

type graphNode struct {
	label, what string
	depth       int
	ways        []graphWay
}

// graphWay is an edge to another node. why is empty if it is the only one, or the one taken after
// success.
type graphWay struct {
	to      int
	why     string
	failure bool // taken on a failure
}

func newGraph(d *spec.Definition) *graph {
	g := &graph{nodes: []graphNode{{label: "start"}}, index: map[string]int{}}
	g.list(d.Steps, 0)
	g.nodes = append(g.nodes, graphNode{label: "end"})
	g.nodes[0].ways = []graphWay{{to: g.first(d.Steps, g.end())}}
	g.connect(d.Steps, g.end())
	return g
}

func (g *graph) list(steps []spec.Step, depth int) {
	for i := range steps {
		s := &steps[i]
		g.index[s.Label] = len(g.nodes)
		g.nodes = append(g.nodes, graphNode{label: s.Label, what: stepKind(s), depth: depth})
		for _, group := range stepGroups(s) {
			g.list(group.Steps, depth+1)
		}
	}
}

// stepGroups returns the lists of steps nested in a step, in the order of the source.
func stepGroups(s *spec.Step) (groups []spec.Group) {
	for _, group := range s.Groups() {
		if s.Rollout == nil || len(s.Rollout.Between) == 0 || len(group.Steps) == 0 || &group.Steps[0] != &s.Rollout.Between[0] {
			groups = append(groups, group)
		}
	}
	return groups
}

func (g *graph) end() int { return len(g.nodes) - 1 }

// first returns the first node of a list of steps, or the node that follows an empty list.
func (g *graph) first(steps []spec.Step, follows int) int {
	if len(steps) == 0 {
		return follows
	}
	return g.index[steps[0].Label]
}

// target returns the node of a label, or the node that follows if the label is empty.
func (g *graph) target(next string, follows int) int {
	switch at, ok := g.index[next]; {
	case next == spec.NextEnd:
		return g.end()
	case ok:
		return at
	}
	return follows
}

// connect adds the edges from the steps of a list that the node follows succeeds.
func (g *graph) connect(steps []spec.Step, follows int) {
	for i := range steps {
		after := follows
		if i+1 < len(steps) {
			after = g.index[steps[i+1].Label]
		}
		g.connectStep(&steps[i], g.target(steps[i].Next, after))
	}
}

func (g *graph) connectStep(s *spec.Step, after int) {
	at := g.index[s.Label]
	add := func(to int, failure bool, why string) {
		g.nodes[at].ways = append(g.nodes[at].ways, graphWay{to, why, failure})
	}
	cases := func(all []spec.Case, failure bool) {
		for i := range all {
			c := &all[i]
			then := g.target(c.Next, after)
			add(g.first(c.Steps, then), failure, cmp.Or(c.When, "otherwise"))
			g.connect(c.Steps, then)
		}
	}
	again := s.Loop != nil || s.Repeat != nil || s.Rollout != nil
	switch {
	case s.Workflow != nil:
		back := after
		if again {
			back = at
		}
		add(g.first(s.Workflow.Steps, back), false, map[bool]string{true: "each time"}[again])
		g.connect(s.Workflow.Steps, back)
		if again {
			add(after, false, "then")
		}
	case s.Parallel != nil:
		for i := range s.Parallel.Branches {
			b := &s.Parallel.Branches[i]
			add(g.first(b.Steps, after), false, cmp.Or(b.Label, strconv.Itoa(i+1)))
			g.connect(b.Steps, after)
		}
	case len(s.Switch) > 0:
		cases(s.Switch, false)
		if s.Switch[len(s.Switch)-1].When != "" {
			add(after, false, "otherwise")
		}
	default:
		add(after, false, "")
	}
	if w := s.Waits(); w != nil {
		if _, late := w.Limit(); late != nil && late.Next != "" {
			add(g.target(late.Next, after), true, "too late")
		}
		if a := w.Approval; a != nil && a.OnReject != nil && a.OnReject.Next != "" {
			add(g.target(a.OnReject.Next, after), true, "rejected")
		}
	}
	cases(s.OnFailure, true)
}

// stepKind describes what a step does.
func stepKind(s *spec.Step) string {
	var parts []string
	add := func(text string) { parts = append(parts, text) }
	switch {
	case s.HTTP != nil:
		add("http")
	case s.FunctionBlock != "":
		add(s.FunctionBlock)
	case s.Reference != nil:
		add("starts " + strings.Join(s.Reference.Names(), " or "))
	case s.Parallel != nil:
		add("branches")
	case s.Insert != nil:
		add("inserts into " + s.Insert.Table)
	case s.Schedule != nil && s.Schedule.Remove:
		add("removes a schedule of " + s.Schedule.Workflow)
	case s.Schedule != nil:
		add("schedules " + s.Schedule.Workflow)
	case s.Set != nil:
		add("set")
	}
	if s.RunOn != "" {
		add("on " + s.RunOn)
	}
	if w := s.Waits(); w != nil {
		add("waits for " + strings.ToLower(string(w.Kind())))
	}
	switch {
	case s.Foreach != nil:
		add("for each of " + s.Foreach.Items)
	case s.Rollout != nil && s.Rollout.Approve != nil:
		add("in waves, with an approval between them")
	case s.Rollout != nil:
		add("in waves")
	case s.Loop != nil:
		add("loop " + cmp.Or(s.Loop.Over, "while "+s.Loop.While))
	case s.Repeat != nil && s.Repeat.While != "":
		add("again while " + s.Repeat.While)
	case s.Repeat != nil:
		add(fmt.Sprintf("%d times", s.Repeat.Count))
	}
	if s.Condition != "" {
		add("if " + s.Condition)
	}
	if s.Compensate != nil {
		add("undone by " + cmp.Or(s.Compensate.FunctionBlock, s.Compensate.Workflow))
	}
	return strings.Join(parts, ", ")
}

// text lists the steps, each with its targets, except the next step in the list.
func (g *graph) text() string {
	var out strings.Builder
	for i := 1; i < g.end(); i++ {
		n := &g.nodes[i]
		indent := strings.Repeat("  ", n.depth)
		fmt.Fprintln(&out, strings.TrimRight(indent+OneLine(n.label+"  "+n.what), " "))
		for _, w := range n.ways {
			if len(n.ways) == 1 && w.to == i+1 && w.why == "" {
				continue
			}
			arrow := "->"
			if w.failure {
				arrow = "!>"
			}
			fmt.Fprintf(&out, "%s    %s %s\n", indent, arrow, OneLine(strings.TrimSpace(g.nodes[w.to].label+"  "+graphText(w.why))))
		}
	}
	return out.String()
}

// graphText shortens an expression.
func graphText(why string) string {
	return workflow.Truncate(strings.Join(strings.Fields(why), " "), 80)
}

func (g *graph) mermaid() string {
	quote := strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "`", "#96;").Replace
	var out strings.Builder
	out.WriteString("flowchart TD\n")
	for i, n := range g.nodes {
		open, closing := "[", "]"
		if i == 0 || i == g.end() {
			open, closing = "([", "])"
		}
		text := quote(OneLine(n.label))
		if n.what != "" {
			text += "<br>" + quote(OneLine(graphText(n.what)))
		}
		fmt.Fprintf(&out, "  n%d%s\"%s\"%s\n", i, open, text, closing)
	}
	for i, n := range g.nodes {
		for _, w := range n.ways {
			arrow := "-->"
			if w.failure {
				arrow = "-.->"
			}
			if w.why != "" {
				arrow += `|"` + quote(OneLine(graphText(w.why))) + `"|`
			}
			fmt.Fprintf(&out, "  n%d %s n%d\n", i, arrow, w.to)
		}
	}
	return out.String()
}

func (g *graph) dot() string {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace
	var out strings.Builder
	out.WriteString("digraph {\n  node [shape=box]\n")
	for i, n := range g.nodes {
		shape := ""
		if i == 0 || i == g.end() {
			shape = ", shape=oval"
		}
		text := quote(OneLine(n.label))
		if n.what != "" {
			text += `\n` + quote(OneLine(graphText(n.what)))
		}
		fmt.Fprintf(&out, "  n%d [label=\"%s\"%s]\n", i, text, shape)
	}
	for i, n := range g.nodes {
		for _, w := range n.ways {
			style := ""
			if w.failure {
				style = ", style=dashed"
			}
			fmt.Fprintf(&out, "  n%d -> n%d [label=\"%s\"%s]\n", i, w.to, quote(OneLine(graphText(w.why))), style)
		}
	}
	out.WriteString("}\n")
	return out.String()
}
