package mutation

// The files of the real adapters.
const (
	dynamoLocks   = "shared/dynamo/locks.go"
	dynamoWaiters = "shared/dynamo/waiters.go"
	dynamoCommit  = "shared/dynamo/executions.go"
	dynamoPacks   = "shared/dynamo/packs.go"
	dynamoDone    = "shared/dynamo/done_set.go"
)

// Adapters returns the same mistakes in the real adapters, which the simulation does not run.
// tests/protocol finds them.
func Adapters() []Mutation {
	return []Mutation{
		{Name: "dynamo: a lock is taken whatever its revision", Edits: []Edit{{dynamoLocks, `c.Condition, c.Values = "#rev = :seen", table.Item{"seen": table.N(seen)}`, `c.Condition, c.Values = "#rev >= :seen", table.Item{"seen": table.N(0)}`}}},
		{Name: "dynamo: a take is recognised by its owner alone", Edits: []Edit{{dynamoLocks, "return old.Text(attrOwner) == r.Execution && old.Int(attrOwnerEpoch) == r.Epoch && old.Int(attrToken) == seen+1, nil", "return old.Text(attrOwner) == r.Execution, nil"}}},
		{Name: "dynamo: the token does not increase", Edits: []Edit{{dynamoLocks, "attrOwnerEpoch: table.N(r.Epoch),\n\t\t\tattrToken: table.N(seen + 1),", "attrOwnerEpoch: table.N(r.Epoch),\n\t\t\tattrToken: table.N(1),"}}},
		{Name: "dynamo: joining a shared lock does not raise the revision", Edits: []Edit{{dynamoLocks, `"#token = #rev + :one", "#rev = #rev + :one"}`, `"#token = #rev + :one"}`}}},
		{Name: "dynamo: a waiter registers with an execution that has released", Edits: []Edit{{dynamoWaiters, `		Condition: condition + " AND (`, `		Condition: "(" + condition + " OR attribute_exists(#pk)) AND (`}}},
		{Name: "dynamo: an execution that backs off forgets its waiters", Edits: []Edit{{dynamoCommit, "\treturn old.StringSet(attrWaiters), true, nil", "	return nil, true, nil"}}},
		{Name: "dynamo: a commit without a condition", Edits: []Edit{{dynamoCommit, `Condition: "#version = :seen", Values: table.Item{"seen": table.N(seen)},
	}
	if o.Release`, `Condition: "#version <> :seen OR #version = :seen", Values: table.Item{"seen": table.N(seen)},
	}
	if o.Release`}}},
		{Name: "dynamo: a takeover compares only the token", Edits: []Edit{{dynamoPacks, "return p.putPack(ctx, next, ifLeaseUnchanged+andNotCancelled, leaseValues(seen))", "return p.putPack(ctx, next, ifTokenHeld+andNotCancelled, tokenValues(seen.Token))"}}},
		{Name: "dynamo: a claim overwrites another", Edits: []Edit{{dynamoPacks, `// Claim puts p if the item is absent.
func (p *Packs) Claim(ctx context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return p.putPack(ctx, pack, table.IfAbsent, nil)`, `// Claim puts p if the item is absent.
func (p *Packs) Claim(ctx context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return p.putPack(ctx, pack, "", nil)`}}},
		{Name: "dynamo: a pack is finished without comparing the token", Edits: []Edit{{dynamoPacks, `	ifTokenHeld      = ifClaimed + " AND #token = :token"`, `	ifTokenHeld      = ifClaimed + " AND #token >= :token"`}}},
		{Name: "dynamo: a cancelled marker overwrites a claim", Edits: []Edit{{dynamoPacks, "ok, old, err := p.t.Put(ctx, it, table.IfAbsent, nil)", "ok, old, err := p.t.Put(ctx, it, \"\", nil)"}}},
		{Name: "dynamo: the cancel flag is not compared", Edits: []Edit{{dynamoPacks, `andNotCancelled  = " AND attribute_not_exists(#cancel)"`, `andNotCancelled  = ""`}}},
		{Name: "dynamo: the done set is overwritten", Edits: []Edit{{dynamoDone, "\t\tAdd:    add,\n", "\t\tSet:    add,\n"}}},
	}
}
