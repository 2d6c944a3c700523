package workflow

// Root returns the id of the outermost ancestor, which is the execution itself if it has no parent.
// In lock conflicts it is the age of an execution: the one with the smaller root is older.
func (x *Execution) Root() string {
	if x.Parent != nil {
		return x.Parent.Root
	}
	return x.ID
}

// Depth returns how many executions have started each other before this one, as children or as
// follow-ups.
func (x *Execution) Depth() int {
	switch {
	case x.Parent != nil:
		return x.Parent.Depth
	case x.FollowUpOf != nil:
		return x.FollowUpOf.Depth
	}
	return 0
}
