package mutation

// children are mistakes about the outputs of children.
var children = []Mutation{
	{Name: "a large output of a child is not stored with its parent", Test: "shared/engine:TestChild_GivesItsOutput", Edits: []Edit{{fetchChild, "value, err := w.offloadValue(ctx, &workflow.Value{Inline: output})", "value, err := c.execution.Output, error(nil)\n\t_ = output"}}},
	{Name: "the output of a child is lost", Test: "shared/engine:TestChild_GivesItsOutput", Edits: []Edit{{"shared/lifecycle/child.go", "r.Child, r.Value = &child, c.Output", "r.Child = &child"}}},
	{Name: "a definition without output gives nothing", Test: "shared/engine:TestFlow_OutputOfADefinitionWithoutOne", Edits: []Edit{{"shared/workflow/outcome.go", "if x.Output == nil && completed && !x.Probe {", "if x.Output == nil && false && completed && !x.Probe {"}}},
	{Name: "an output without a value is as none", Test: "shared/engine:TestFlow_OutputOfADefinitionWithoutOne", Edits: []Edit{{"shared/lifecycle/outcome.go", "Inline: json.RawMessage(\"null\")", "Inline: json.RawMessage(\"{}\")"}}},
	{Name: "a selection of no type is a selection of nothing", Test: "shared/engine:TestChild_SelectionIsCheckedAsOfAStart", Edits: []Edit{{fetchChild, "workflow.Invalid(\"the selection of entities is not valid\", issues)", "workflow.Invalid(\"the selection of entities is not valid\", issues[:0])"}}},
}
