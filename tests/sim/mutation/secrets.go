package mutation

// secrets are mistakes with the secrets that jobs are called with. A test detects each.
var secrets = []Mutation{
	{Name: "what a block answers is recorded with the secrets in it", Test: "shared/worker:TestSecrets_AreFilledInAndRemoved", Edits: []Edit{{"shared/worker/run_job.go", "secrets.removed(a))", "a)"}}},
	{Name: "a failure is recorded with the secrets in it", Test: "shared/engine:TestSecrets_AreFilledInByWorkers", Edits: []Edit{{workerSecret, "\tif a.Failure != nil {\n\t\tr.inNames", "\tif false && a.Failure != nil {\n\t\tr.inNames"}}},
	{Name: "what a block asks for is recorded with the secrets in it", Test: "shared/worker:TestSecrets_AreRemovedFromFailures", Edits: []Edit{{workerSecret, "\tif a.Wait != nil {\n\t\tr.keep", "\tif false && a.Wait != nil {\n\t\tr.keep"}}},
	{Name: "only the plain form of a secret is removed", Test: "shared/worker:TestSecrets_AreFilledInAndRemoved", Edits: []Edit{{workerSecret, "url.QueryEscape(value), url.PathEscape(value),", "url.PathEscape(value),"}}},
	{Name: "a secret stays in names and numbers", Test: "shared/worker:TestSecrets_AreFilledInAndRemoved", Edits: []Edit{{workerSecret, "\t\t\tall[replaced] = r.value(field, changed)", "\t\t\tall[name] = r.value(field, changed)"}}},
	{Name: "the id of an entity is a reference to a secret", Test: "shared/worker:TestSecrets_FailWhereNoReferenceCanStand", Edits: []Edit{{workerSecret, "\t\tr.misplaced = where\n", "\t\t_ = where\n"}}},
	{Name: "a secret is removed from inside numbers", Test: "shared/worker:TestSecrets_FailWhereNoReferenceCanStand", Edits: []Edit{{workerSecret, "if reference := r.forms[v.String()]; reference != \"\" {", "if reference := r.text(v.String()); reference != v.String() {\n\t\t\tr.misplaced = \"a number\""}}},
	{Name: "a panic of the worker ends its process", Test: "shared/worker:TestHandle_OutlivesItsOwnPanics", Edits: []Edit{{"shared/worker/run_job.go", "\tdefer s.recoverJob(ctx, i)\n", ""}, {"shared/worker/session.go", "\t\t\t\tdefer s.recoverJob(ctx, i)\n", ""}}},
	{Name: "an item of the name secret signs", Test: "shared/definition:TestParse_ListsAllIssues", Edits: []Edit{{"shared/definition/program/secret.go", "len(call.Sign) > 0 && hides", "len(call.Sign) < 0 && hides"}}},
	{Name: "a secret is filled in whatever stands in its place", Test: "shared/worker:TestSecrets_MissingOnesAreNotSent", Edits: []Edit{{"shared/workflow/secret.go", "json.Unmarshal(v, &text) != nil || text != was {", "json.Unmarshal(v, &text) != nil {"}}},
	{Name: "a job is called without its secrets", Test: "shared/worker:TestSecrets_MissingOnesAreNotSent", Edits: []Edit{{workerSecret, "\tif w.opts.Secrets == nil {\n", "\tif w.opts.Secrets == nil {\n\t\treturn nil, nil\n"}}},
	{Name: "a store of secrets that does not answer fails a job for good", Test: "shared/worker:TestSecrets_MissingOnesAreNotSent", Edits: []Edit{{workerSecret, "Retryable: code == workflow.FailureSecretUnavailable, Unsent", "Retryable: false, Unsent"}}},
	{Name: "a job that lacks a secret counts as called", Test: "shared/worker:TestSecrets_MissingOnesAreNotSent", Edits: []Edit{{workerSecret, "FailureSecretUnavailable, Unsent: true}", "FailureSecretUnavailable, Unsent: false}"}}},
	{Name: "a worker that polls takes the reference for the secret", Test: "shared/worker:TestSecrets_AreWithheldFromRemoteWorkers", Edits: []Edit{{"shared/worker/remote_lease.go", "if len(secretsOf(&m.Work)) > 0 {\n\t\tw.logWarning", "if false && len(secretsOf(&m.Work)) > 0 {\n\t\tw.logWarning"}}},
	{Name: "a rollback is called with the reference to a secret", Test: "shared/engine:TestSecrets_AreFilledInByWorkers", Edits: []Edit{{"shared/engine/planner/planner.go", "work.Secrets = p.Program.Secrets(r.StepIndex)", "if r.Kind != workflow.JobRollback {\n\t\t\twork.Secrets = p.Program.Secrets(r.StepIndex)\n\t\t}"}}},
	{Name: "what undoes a step is called with the secrets of the step", Test: "shared/engine:TestSecrets_AreFilledInByWorkers", Edits: []Edit{{"shared/engine/planner/planner.go", "work.Secrets = p.Program.CompensationSecrets(r.StepIndex)", "_ = p.Program.CompensationSecrets"}}},
	{Name: "an older release calls blocks with references to secrets", Test: "shared/definition/program:TestCompiled_FillsSecretsByPlace", Edits: []Edit{{"shared/workflow/spec/definition.go", "|| keepsSecrets ||", "|| false && keepsSecrets ||"}}},
	{Name: "an escaped reference is a secret", Test: "shared/definition/program:TestCompiled_FillsSecretsByPlace", Edits: []Edit{{"shared/definition/program/secret.go", "\tall, ok := expr.Split(s)\n", "\tall, ok := expr.Split(strings.ReplaceAll(s, \"$${\", \"${\"))\n"}}},
	{Name: "an item of the name hides no secrets", Test: "shared/definition/program:TestCompiled_FillsSecretsByPlace", Edits: []Edit{{"shared/definition/program/secret.go", "s.Label == spec.SecretName || slices.Contains(s.ItemNames(), spec.SecretName)", "s.Label == spec.SecretName"}}},
	{Name: "a tenant gets the secret of another", Test: "shared/boot:TestSecrets_AreReadFromServices", Edits: []Edit{{"shared/boot/secrets.go", "k := s.entry([2]string{tenant, name})", "k := s.entry([2]string{\"\", name})"}}},
	{Name: "a secret is kept for ever", Test: "shared/boot:TestSecrets_AreReadFromServices", Edits: []Edit{{"shared/boot/secrets.go", "s.now().Sub(k.readAt) < secretLife {", "s.now().Sub(k.readAt) < 1000*secretLife {"}}},
	{Name: "a file of secrets is read once", Test: "shared/boot:TestSecrets_AreReadFromFile", Edits: []Edit{{"shared/boot/secrets.go", "strings.HasPrefix(s.from, \"file:\")", "strings.HasPrefix(s.from, \"files:\")"}}},
	{Name: "a call waits for a secret after it was stopped", Test: "shared/boot:TestSecrets_WaitNoLongerThanTheyMay", Edits: []Edit{{"shared/boot/secrets.go", "\tcase <-ctx.Done():\n\t\treturn \"\", ctx.Err()\n", ""}}},
	{Name: "a list of secrets reads their values", Test: "shared/boot:TestSecrets_AreReadFromServices", Edits: []Edit{{"shared/boot/secrets.go", "\"DescribeSecret\"", "\"GetSecretValue\""}}},
	{Name: "an export leaves out references to secrets", Test: "cmd/lockstep/transfer:TestSecretFields_AreWithheld", Edits: []Edit{{"cmd/lockstep/transfer/format.go", "refersToSecrets(value) {\n", "false && refersToSecrets(value) {\n"}}},
	{Name: "an export has what stands beside a reference to a secret", Test: "cmd/lockstep/transfer:TestSecretFields_AreWithheld", Edits: []Edit{{"cmd/lockstep/transfer/format.go", "return workflow.HasSecrets(value) && schemeRE", "return workflow.HasSecrets(value) || schemeRE"}}},
	{Name: "the list of secrets is of archived versions too", Test: "shared/catalog:TestCatalog_ListsSecrets", Edits: []Edit{{"shared/catalog/secrets.go", "if !d.Archived && (", "if true && ("}}},
}

const workerSecret = "shared/worker/secret.go"
