package mutation

// inventory are mistakes in people's changes of the inventory. No scenario of the simulation
// deletes or patches entities: a test detects each.
var inventory = []Mutation{
	{Name: "an entity is deleted whoever holds it", Test: "shared/engine:TestDeleteEntity_AtAnyTimeOfAnExecution", Edits: []Edit{{changeEntity, "if err := inUse(lock); err != nil {", "if err := inUse(lock); false && err != nil {"}, {changeEntity, "if lock.HeldBy != nil {\n\t\treturn e, inUse(lock)", "if lock.HeldBy != nil && e.ID == \"\" {\n\t\treturn e, inUse(lock)"}}},
	{Name: "an entity is deleted that was locked meanwhile", Test: "shared/engine:TestDeleteEntity_SurvivesAFaultAtEveryCall", Edits: []Edit{{changeEntity, "if lock.HeldBy != nil {\n\t\treturn e, inUse(lock)", "if lock.HeldBy != nil && e.ID == \"\" {\n\t\treturn e, inUse(lock)"}}},
	{Name: "an execution works on what is about to be deleted", Test: "shared/engine:TestDeleteEntity_SurvivesAFaultAtEveryCall", Edits: []Edit{{"shared/engine/fetch_locks.go", "if e := known[key]; e.Deleting {", "if e := known[key]; e.Deleting && e.ID == \"\" {"}}},
	{Name: "dynamo: the mark of a deletion is not read", Test: "tests/conformance/ports:TestDynamo_Entities", Edits: []Edit{{dynamoEntities, "Deleting: it.Has(attrDeleting) && ", "Deleting: false && "}}},
	{Name: "an execution works on what was deleted before it was locked", Test: "shared/engine:TestDeleteEntity_AtAnyTimeOfAnExecution", Edits: []Edit{{"shared/engine/fetch_locks.go", "\t\tif !exists {\n", "\t\tif false && !exists {\n"}}},
	{Name: "a deletion wakes nobody", Test: "shared/engine:TestDeleteEntity_WakesWatchers", Edits: []Edit{{changeEntity, "\tports.wake(ctx, caller.Tenant, watchers)\n\tif err != nil {\n\t\treturn e, err\n\t}\n\tif !ok {", "\t_ = watchers\n\tif err != nil {\n\t\treturn e, err\n\t}\n\tif !ok {"}}},
	{Name: "dynamo: a deleted entity is read", Test: "tests/conformance/ports:TestDynamo_Entities", Edits: []Edit{{dynamoEntities, "\t\tif isDeleted(it) {\n\t\t\treturn nil\n\t\t}\n", ""}}},
	{Name: "dynamo: a deleted entity is listed", Test: "tests/conformance/ports:TestDynamo_Entities", Edits: []Edit{{dynamoEntities, "if err == nil && isDeleted(it) {", "if false && isDeleted(it) {"}}},
	{Name: "dynamo: a deleted entity is watched", Test: "tests/conformance/ports:TestDynamo_Entities", Edits: []Edit{{dynamoEntities, "return ok || old != nil && !isDeleted(old), err", "return ok || old != nil, err"}}},
	{Name: "dynamo: what takes the place of a deleted entity cannot be created", Test: "tests/conformance/ports:TestDynamo_Entities", Edits: []Edit{{dynamoEntities, "\"attribute_not_exists(#pk) OR #deleted = #version\"", "\"attribute_not_exists(#pk)\""}}},
	{Name: "an import wipes what blocks have set", Test: "shared/catalog:TestCatalog_ImportMerges", Edits: []Edit{{"shared/catalog/entities.go", "\t\tif replace {\n", "\t\tif true || replace {\n"}}},
	{Name: "an import writes what is stored already", Test: "shared/catalog:TestCatalog_ImportMerges", Edits: []Edit{{"shared/catalog/merge.go", "\t\t\tcase !differs:\n", "\t\t\tcase false && !differs:\n"}}},
	{Name: "an import forgets what was written meanwhile", Test: "shared/catalog:TestCatalog_ConcurrentChangesAreAllMade", Edits: []Edit{{"shared/catalog/merge.go", "; !ok[n] {", "; false && !ok[n] {"}}},
	{Name: "a patch is made whatever version it names", Test: "shared/catalog:TestCatalog_PatchEntity", Edits: []Edit{{changeEntity, "if want == nil || *want == e.Version {", "if want == nil || *want > 0 {"}}},
	{Name: "what a program has written that has failed is synchronised", Test: "cmd/lockstep:TestEntitiesSync_ChangesWhatItShows", Edits: []Edit{{"cmd/lockstep/entities_sync.go", "\tcase err != nil:\n\t\treturn nil, fmt.Errorf(\"%s has failed", "\tcase err != nil && len(program) == 0:\n\t\treturn nil, fmt.Errorf(\"%s has failed"}}},
	{Name: "a synchronisation deletes all that a program does not list", Test: "cmd/lockstep:TestEntitiesSync_RefusesToDeleteTooMany", Edits: []Edit{{"cmd/lockstep/delete_limit.go", "; !l.allows(n, stored) {", "; !l.allows(n, stored) && stored == 0 {"}}},
	{Name: "the program of a synchronisation gets the token of the service", Test: "cmd/lockstep:TestReadProgram_IsKeptApart", Edits: []Edit{{"cmd/lockstep/connection.go", "return slices.Contains(names, name)", "return slices.Contains(names, name+\"=\")"}}},
}

const (
	changeEntity   = "shared/catalog/change_entity.go"
	dynamoEntities = "shared/dynamo/entities.go"
)

// access are mistakes in who may do what.
var access = []Mutation{
	{Name: "what has changed is answered as unchanged", Test: "shared/api:TestHandler_AnswersWhatHasNotChangedWithoutBody", Edits: []Edit{{"shared/api/response.go", "sum := sha256.Sum256(body)", "sum := sha256.Sum256(nil)"}}},
	{Name: "a role is asked for after the request was checked", Test: "shared/api:TestAccess_DefaultAndOrder", Edits: []Edit{{"shared/api/middleware.go", "\t\t\tif err == nil {\n\t\t\t\terr = m.opt.Access.check(caller, roles...)\n\t\t\t}\n", "\t\t\tif bad := op.Validate(w, r); err == nil && bad == nil {\n\t\t\t\terr = m.opt.Access.check(caller, roles...)\n\t\t\t}\n"}}},
	{Name: "an operator answers what an execution asks", Test: "shared/api:TestAccess_EachRoleMayCallItsRoutes", Edits: []Edit{{"shared/api/executions.go", "\t\t\tneeded = RoleApprover\n", "\t\t\tneeded = RoleViewer\n"}}},
	{Name: "every role is that of a viewer", Test: "shared/api:TestAccess_EachRoleMayCallItsRoutes", Edits: []Edit{{accessFile, "role == RoleViewer && (", "role == RoleViewer && (a.has(c, RoleWorker) || "}}},
	{Name: "roles without anybody lock everybody out", Test: "shared/api:TestAccess_DefaultAndOrder", Edits: []Edit{{accessFile, "\t\tif len(names) > 0 {\n", "\t\tif len(names) >= 0 {\n"}}},
	{Name: "what cannot be audited is done", Test: "shared/api:TestAudit_ComesFirst", Edits: []Edit{{auditFile, "\tif err != nil {\n\t\ta.writeError(w, r, err)\n\t\treturn\n\t}\n\trecorder", "\t_ = err\n\trecorder"}}},
	{Name: "what needs an admin is not audited", Test: "shared/api:TestAudit_EveryChangeIsAudited", Edits: []Edit{{auditFile, "!slices.Equal(roles, []Role{RoleViewer})", "!slices.Equal(roles, []Role{RoleViewer}) && !slices.Equal(roles, []Role{RoleAdmin})"}}},
	{Name: "reading the reason takes the body away", Test: "shared/api:TestHandler_ResponsesMatchOpenAPI", Edits: []Edit{{auditFile, "\tr.Body = io.NopCloser(bytes.NewReader(body))\n", ""}}},
	{Name: "an audit entry gets the last status", Test: "tests/conformance/ports:TestDynamo_Entities", Edits: []Edit{{"shared/dynamo/audit.go", "\"attribute_exists(#pk) AND attribute_not_exists(#status)\"", "\"attribute_exists(#pk)\""}}},
	{Name: "a list of audit entries ends with an empty month", Test: "shared/catalog:TestCatalog_AuditIsListedNewestFirst", Edits: []Edit{{"shared/catalog/audit.go", "if out.NextToken = at.Format(auditMonth) + \"|\" + inner; len(out.Items) > 0 {", "if out.NextToken = at.Format(auditMonth) + \"|\" + inner; len(out.Items) > 0 || len(list.Items) == 0 {"}, {"shared/catalog/audit.go", "\tif at.AddDate(0, 1, 0).Before(since) {\n\t\tout.NextToken = \"\"\n\t}\n\treturn out, nil", "\tif len(out.Items) == 0 || at.AddDate(0, 1, 0).Before(since) {\n\t\tout.NextToken = \"\"\n\t}\n\treturn out, nil"}}},
	{Name: "a part of the name of a group is a role", Test: "shared/api/lambdahttp:TestIdentity_ReplacesClientHeaders", Edits: []Edit{{"shared/api/lambdahttp/roles.go", "\t\tnames = []string{strings.TrimSuffix(strings.TrimPrefix(text, \"[\"), \"]\")}\n", "\t\tnames = strings.Fields(strings.TrimSuffix(strings.TrimPrefix(text, \"[\"), \"]\"))\n"}}},
	{Name: "the token of somebody else gives roles", Test: "shared/api/lambdahttp:TestIdentity_ReplacesClientHeaders", Edits: []Edit{{"shared/api/lambdahttp/roles.go", "claims[\"sub\"] != any(subject) || ", ""}}},
	{Name: "spaces separate roles", Test: "shared/api:TestAccess_ByNameOfTheCaller", Edits: []Edit{{"shared/workflow/page.go", "strings.SplitSeq(c.Roles, \",\")", "strings.FieldsFuncSeq(c.Roles, func(r rune) bool { return r == ',' || r == ' ' })"}}},
	{Name: "access names what nobody can have", Test: "shared/config:TestParse_RefusesInvalidSettings", Edits: []Edit{{"shared/config/validate.go", "r == ',' || unicode.IsSpace(r) })\n}", "r == ',' && unicode.IsSpace(r) })\n}"}}},
	{Name: "a claim counts as the name of a caller", Test: "shared/api:TestAccess_ByNameOfTheCaller", Edits: []Edit{{accessFile, "\t\tif !ok {\n", "\t\tif !ok || slices.Contains(own, name) {\n"}}},
}

const (
	accessFile = "shared/api/access.go"
	auditFile  = "shared/api/audit.go"
)
