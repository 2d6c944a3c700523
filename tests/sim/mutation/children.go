package mutation

// children are mistakes about the outputs of children.
var children = []Mutation{
	{Name: "a large output of a child is not stored with its parent", Test: "shared/engine:TestChild_GivesItsOutput", Edits: []Edit{{fetchChild, "return w.offloadValue(ctx, &workflow.Value{Inline: output})", "_ = output\n\treturn c.execution.Output, nil"}}},
	{Name: "the output of a child is lost", Test: "shared/engine:TestChild_GivesItsOutput", Edits: []Edit{{"shared/lifecycle/child.go", "r.Child, r.Value = &child, c.Output", "r.Child = &child"}}},
}
