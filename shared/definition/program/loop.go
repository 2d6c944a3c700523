package program

import (
	"slices"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// itemNames returns the names that a definition gives to items, besides item. It reports names that
// mean something else where the items are read.
func (c *compiler) itemNames() []string {
	var names []string
	for i, s := range c.flat {
		for _, name := range s.ItemNames() {
			if name == spec.ItemName || expr.IsReserved(name) || expr.IsFlowName(name) {
				continue // the last two are reported when they are read
			}
			path := c.positions[i].path + "." + itemsField(s) + ".as"
			if _, label := c.index[name]; label {
				c.ReportAt(path, "reserved", "%q is the label of a step", name)
				continue
			}
			for _, around := range c.open(i) {
				if slices.Contains(c.flat[around].ItemNames(), name) {
					c.ReportAt(path, "duplicate", "the items of step %q around it have the name %q", c.flat[around].Label, name)
				}
			}
			names = append(names, name)
		}
	}
	return names
}

// itemsField returns the field that defines the items of a step.
func itemsField(s *spec.Step) string {
	if s.Foreach != nil {
		return "foreach"
	}
	return "loop"
}

// compileLoop compiles the list of a loop or a foreach, or the condition of a loop.
func (c *compiler) compileLoop(i int) {
	if f := c.flat[i].Foreach; f != nil {
		c.steps[i].over = c.compileExpr(i, f.Items, c.positions[i].path+".foreach.items", c.language.Compile, false)
	}
	l := c.flat[i].Loop
	if l == nil {
		return
	}
	path := c.positions[i].path + ".loop"
	c.steps[i].over = c.compileExpr(i, l.Over, path+".over", c.language.Compile, false)
	c.inLoop = i
	c.steps[i].loopWhile = c.compileCondition(i, l.While, path+".while", true)
	c.inLoop = -1
}

// open returns the steps that are open while a step is executed, outermost first.
func (c *compiler) open(i int) []int {
	if i >= len(c.flat) {
		return nil
	}
	p := &c.positions[i]
	return slices.DeleteFunc(slices.Clone(p.ancestors), func(around int) bool { return slices.Contains(p.handles, around) })
}

// checkItems checks that an expression of step i that reads an item, or its number, is evaluated
// once for each item.
func (c *compiler) checkItems(i int, path string, refs expr.References) {
	around := c.open(i)
	if c.inLoop == i {
		around = append(around, i)
	}
	var loops []*spec.Step
	for _, at := range around {
		if s := c.flat[at]; s.Loop != nil || s.Foreach != nil {
			loops = append(loops, s)
		}
	}
	for _, name := range refs.Names {
		known := slices.ContainsFunc(loops, func(s *spec.Step) bool { return slices.Contains(s.ItemNames(), name) })
		switch {
		case name == spec.IndexName && len(loops) == 0:
			c.ReportAt(path, "reference", "there is no index outside a loop")
		case name == spec.ItemName && len(loops) > 0 && len(loops[len(loops)-1].ItemNames()) == 0:
			c.ReportAt(path, "reference", "step %q goes through no list, so there is no item", loops[len(loops)-1].Label)
		case name == spec.ItemName && !known:
			c.ReportAt(path, "reference", "there is no item outside a loop over a list")
		case slices.Contains(c.items, name) && !known:
			c.ReportAt(path, "reference", "%q is an item of a loop that this step is not in", name)
		}
	}
}

// ConditionReadsItem reports whether the condition of a step with foreach may differ from item
// to item.
func (c *Compiled) ConditionReadsItem(step int, s *spec.Step) bool {
	p := c.steps[step].condition
	return p != nil && s.ReadsItem(p.References().Names)
}

// AssertionsOfItem returns the positions of the assertions of a step with foreach that may differ
// from item to item.
func (c *Compiled) AssertionsOfItem(step int, s *spec.Step) (positions []int) {
	for i, p := range c.steps[step].asserts {
		if s.ReadsItem(p.References().Names) {
			positions = append(positions, i)
		}
	}
	return positions
}

// Over evaluates the list of a loop or a foreach. It is nil for a loop with a condition.
func (c *Compiled) Over(step int, s expr.Scope) (any, error) {
	p := c.steps[step].over
	if p == nil {
		return nil, nil
	}
	return p.Eval(s)
}

// LoopWhile reports whether a loop with a condition continues.
func (c *Compiled) LoopWhile(step int, s expr.Scope) (bool, error) {
	return evalCondition(c.steps[step].loopWhile, s)
}
