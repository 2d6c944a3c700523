package mutation

// The files of the real adapters.
const (
	dynamoLocks   = "shared/dynamo/locks.go"
	dynamoWaiters = "shared/dynamo/waiters.go"
	dynamoCommit  = "shared/dynamo/commit.go"
	dynamoPacks   = "shared/dynamo/packs/packs.go"
	dynamoClaims  = "shared/dynamo/packs/claims.go"
	dynamoDone    = "shared/dynamo/packs/done.go"
)

// Adapters are the same mistakes in what the simulation does not have: the real
// adapters. tests/protocol looks for them.
func Adapters() []Mutation {
	return []Mutation{
		{Name: "dynamo: a lock is taken whatever its revision", Edits: []Edit{{dynamoLocks, `c.If, c.With = "#rev = :seen", table.Item{"seen": table.N(seen)}`, `c.If, c.With = "#rev >= :seen", table.Item{"seen": table.N(0)}`}}},
		{Name: "dynamo: a take is recognised by its owner alone", Edits: []Edit{{dynamoLocks, "return old.Text(attrOwner) == owner && old.Int(attrOwnerEpoch) == epoch && old.Int(attrToken) == seen+1, nil", "return old.Text(attrOwner) == owner || true, nil"}}},
		{Name: "dynamo: the token stays", Edits: []Edit{{dynamoLocks, "attrToken: table.N(seen + 1), attrRev: table.N(seen + 1), attrSince: table.N(now.UnixMilli()),", "attrToken: table.N(1), attrRev: table.N(seen + 1), attrSince: table.N(now.UnixMilli()),"}}},
		{Name: "dynamo: who joins leaves the revision", Edits: []Edit{{dynamoLocks, `"#token = #rev + :one", "#rev = #rev + :one"}`, `"#token = #rev + :one"}`}}},
		{Name: "dynamo: registering with one who has let go", Edits: []Edit{{dynamoWaiters, `		If:   condition + " AND (`, `		If:   "(" + condition + " OR attribute_exists(#pk)) AND (`}}},
		{Name: "dynamo: who gives way forgets its waiters", Edits: []Edit{{dynamoCommit, "	return was.Texts(attrWaiters), true, nil", "	return nil, true, nil"}}},
		{Name: "dynamo: a commit without a condition", Edits: []Edit{{dynamoCommit, `If: "#version = :seen", With: table.Item{"seen": table.N(seen)},
	}
	if release`, `If: "#version <> :seen OR #version = :seen", With: table.Item{"seen": table.N(seen)},
	}
	if release`}}},
		{Name: "dynamo: a take-over looks at the token alone", Edits: []Edit{{dynamoClaims, "return p.put(ctx, next, ifAsSeen+unasked, asSeen(seen))", "return p.put(ctx, next, ifMine+unasked, mine(seen.Token))"}}},
		{Name: "dynamo: a claim is put over another", Edits: []Edit{{dynamoClaims, "// Claim puts p if the item is absent.\nfunc (p *Packs) Claim(ctx context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {\n\treturn p.put(ctx, pack, table.IfAbsent, nil)", "// Claim puts p if the item is absent.\nfunc (p *Packs) Claim(ctx context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {\n\treturn p.put(ctx, pack, \"\", nil)"}}},
		{Name: "dynamo: an end is written without the token", Edits: []Edit{{dynamoPacks, "\tifMine    = ifClaimed + \" AND #token = :token\"", "\tifMine    = ifClaimed + \" AND #token >= :token\""}}},
		{Name: "dynamo: a tombstone is put over a claim", Edits: []Edit{{dynamoPacks, "ok, old, err := p.t.Put(ctx, it, table.IfAbsent, nil)", "ok, old, err := p.t.Put(ctx, it, \"\", nil)"}}},
		{Name: "dynamo: the cancel flag is not compared", Edits: []Edit{{dynamoPacks, "unasked   = \" AND attribute_not_exists(#cancel)\"", "unasked   = \"\""}}},
		{Name: "dynamo: the done set is put anew", Edits: []Edit{{dynamoDone, "\t\tAdd:    add,\n", "\t\tSet:    add,\n"}}},
	}
}
