package mutation

// children are mistakes about the outputs of children.
var children = []Mutation{
	{Name: "a large output of a child is not stored with its parent", Test: "shared/engine:TestChild_GivesItsOutput", Edits: []Edit{{fetchChild, "value, err := w.offloadValue(ctx, &workflow.Value{Inline: output})", "value, err := c.execution.Output, error(nil)\n\t_ = output"}}},
	{Name: "the output of a child is lost", Test: "shared/engine:TestChild_GivesItsOutput", Edits: []Edit{{"shared/lifecycle/child.go", "r.Child, r.Value = &child, c.Output", "r.Child = &child"}}},
}
