package spec

import (
	"cmp"
	"slices"
)

// Reach is whether an execution reaches a node if every step before it succeeds.
type Reach int

// Whether an execution reaches a node.
const (
	ReachNever   Reach = iota
	ReachFailure       // only after a failure that onFailure or continueOnError handles
	ReachChoice        // if a switch, a loop, or the end of a wait decides so
	ReachAlways
)

// Ways are the paths through a program, as far as the cases of its switches are known.
type Ways struct {
	Reach     []Reach // by node
	DecidedBy []int   // by node: the switch, or the node whose failure is handled, that decides; -1 for none
	program   *Program
	edges     [][]edge
	before    [][]bool
	without   map[int][]bool // by node: what can be reached without passing through it
}

// edge is one path from a node to another, or to the end.
type edge struct {
	to      int
	decides int // the node that decides whether it is taken: a switch, or one that handles a failure; -1 for none
	failure bool
}

// Ways finds the paths through the program. routes are the known cases of switches, from 1, by
// node; 0 means that no case is true, so that the switch leads nowhere. skipped are the steps with
// nested steps that are certainly skipped.
func (p *Program) Ways(routes map[int]int, skipped map[int]bool) *Ways {
	edges := make([][]edge, len(p.Nodes))
	for i := range p.Nodes {
		edges[i] = p.edges(i, routes, skipped)
	}
	end := len(p.Nodes)
	w := &Ways{program: p, edges: edges, without: map[int][]bool{}, Reach: make([]Reach, end), DecidedBy: make([]int, end), before: make([][]bool, end)}
	well, anyhow := walk(edges, 0, -1, false), walk(edges, 0, -1, true)
	for i := range p.Nodes {
		w.DecidedBy[i] = -1
		switch {
		case !anyhow[i]:
		case !well[i]:
			w.Reach[i], w.DecidedBy[i] = ReachFailure, decides(edges, anyhow, i, true)
		case walk(p.withoutBetween(edges, i), 0, i, false)[end]:
			w.Reach[i], w.DecidedBy[i] = ReachChoice, decides(edges, well, i, false)
		default:
			w.Reach[i] = ReachAlways
		}
		w.before[i] = walk(edges, i, -1, true)
		if r := p.RolloutAround(i); r >= 0 { // another wave follows
			for at := p.Nodes[r].First; at < p.Nodes[r].End; at++ {
				w.before[i][at] = true
			}
		}
	}
	return w
}

// withoutBetween returns the edges for a node. If the node is a step of a wave, it leaves out those
// that lead from the rollout past its steps to what is between two waves, because every wave has its
// steps.
func (p *Program) withoutBetween(edges [][]edge, node int) [][]edge {
	if r := p.RolloutAround(node); r >= 0 && p.InWave(r, node) {
		edges = slices.Clone(edges)
		edges[r] = edges[r][:1]
	}
	return edges
}

// MayPrecede reports whether a node may have been executed before another one, or concurrently with
// it.
func (w *Ways) MayPrecede(earlier, later int) bool {
	return w.Reach[earlier] > ReachNever && (w.before[earlier][later] || !w.program.SeesBranchOf(later, earlier))
}

// MustPrecede reports whether a node has been executed whenever another one is.
func (w *Ways) MustPrecede(earlier, later int) bool {
	if w.without[earlier] == nil {
		w.without[earlier] = walk(w.edges, 0, earlier, true)
	}
	return !w.without[earlier][later] && w.program.SeesBranchOf(later, earlier)
}

// walk marks the nodes, and the end, that can be reached from a node without passing through one of
// them.
func walk(edges [][]edge, from, without int, failures bool) []bool {
	seen := make([]bool, len(edges)+1)
	open := []int{from}
	for len(open) > 0 {
		at := open[len(open)-1]
		open = open[:len(open)-1]
		if at == without || seen[at] {
			continue
		}
		seen[at] = true
		if at == len(edges) {
			continue
		}
		for _, e := range edges[at] {
			if failures || !e.failure {
				open = append(open, e.to)
			}
		}
	}
	return seen
}

// decides returns the nearest node before another one that decides whether the other is reached, -1
// if there is none.
func decides(edges [][]edge, reached []bool, node int, failure bool) int {
	seen := map[int]bool{node: true}
	for open := []int{node}; len(open) > 0; {
		at := open[0]
		open = open[1:]
		for from := len(edges) - 1; from >= 0; from-- {
			for _, e := range edges[from] {
				if e.to != at || !reached[from] || e.failure && !failure {
					continue
				}
				if e.decides >= 0 && e.failure == failure {
					return e.decides
				}
				if !seen[from] {
					seen[from] = true
					open = append(open, from)
				}
			}
		}
	}
	return -1
}

// edges returns the edges from a node.
func (p *Program) edges(at int, routes map[int]int, skipped map[int]bool) []edge {
	n := &p.Nodes[at]
	var all []edge
	after := func(decides int) edge { return edge{p.leave(at, n.exit()), decides, false} }
	switch {
	case skipped[at] || !n.IsContainer():
		all = append(all, after(-1))
	case len(n.Cases) > 0:
		route, known := routes[at]
		decides := at
		if known {
			decides = -1
		}
		for i, way := range n.Cases {
			if known && i+1 != route {
				continue
			}
			all = append(all, edge{p.enter(at, way), decides, false})
		}
	case len(n.Branches) > 0:
		all = append(all, edge{to: n.Branches[0], decides: -1}) // then each of the others, see leave
	case n.Loop != nil: // which comes back after each round
		all = append(all, edge{n.First, at, false}, after(at))
	default:
		all = append(all, edge{to: n.First, decides: -1})
		if n.Between > 0 {
			all = append(all, edge{n.Between, at, false})
		}
	}
	if n.OnTimeout != nil {
		all[len(all)-1].decides = at
		all = append(all, edge{p.leave(at, *n.OnTimeout), at, false})
	}
	if n.OnResume != nil {
		all[len(all)-1].decides = at
		all = append(all, edge{p.leave(at, *n.OnResume), at, false})
	}
	for h := p.FailureHandler(at); h >= 0; h = p.FailureHandler(p.Nodes[h].Parent) {
		handler := &p.Nodes[h]
		if handler.StopsAtFailure() {
			all = append(all, edge{len(p.Nodes), h, true})
			continue
		}
		if handler.ContinueOnError {
			all = append(all, edge{p.leave(h, handler.exit()), h, true})
			break
		}
		for _, way := range handler.Handlers {
			all = append(all, edge{p.enter(h, way), h, true})
		}
	}
	return all
}

// exit returns where a node continues after it: a target, or the node that follows.
func (n *Node) exit() Target {
	if to := cmp.Or(n.Goto, n.AfterGoto); to != nil {
		return *to
	}
	return Target{Node: n.After, In: n.Parent}
}

// enter returns the node to which a case of a node leads.
func (p *Program) enter(at int, way Way) int {
	switch {
	case way.First >= 0:
		return way.First
	case way.Goto != nil:
		return p.leave(at, *way.Goto)
	}
	return p.leave(at, p.Nodes[at].exit())
}

// leave returns the node to which a target leads from a node: if it ends the nodes around it, the
// node after them. All branches are executed, so each is followed by the next one.
func (p *Program) leave(from int, to Target) int {
	for to.In >= 0 && to.Node >= p.Nodes[to.In].End {
		around := &p.Nodes[to.In]
		if around.Loop != nil {
			return to.In
		}
		if branch := around.BranchOf(from); branch >= 0 && branch+1 < len(around.Branches) {
			return around.Branches[branch+1]
		}
		out := around.exit()
		if route := around.CaseOf(from); route > 0 && around.Cases[route-1].Goto != nil {
			out = *around.Cases[route-1].Goto
		}
		from, to = to.In, out
	}
	return to.Node
}

// CaseOf returns the number of the switch's case that contains a node, from 1; 0 if none does.
func (n *Node) CaseOf(node int) int {
	number := 0
	for i, way := range n.Cases {
		if way.First >= 0 && way.First <= node && node < n.End {
			number = i + 1
		}
	}
	return number
}
