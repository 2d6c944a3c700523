package mutation

// installing are the mistakes in what a deployment consists of.
var installing = []Mutation{
	{Name: "functions of another version than the construct's are deployed", Test: "infra:TestEngineProps_FunctionsMatchModule", Edits: []Edit{{"infra/version.go", "if own != \"\" && built != own {", "if false && built != own {"}}},
	{Name: "the functions are built with the flags of the caller", Test: "cmd/lockstep:TestFunctions_AreBuiltForArchitecture", Edits: []Edit{{"cmd/lockstep/functions.go", "\"GOFLAGS=\", \"GOWORK=off\"", "\"GOWORK=off\""}}},
	{Name: "functions of two versions are shown as one", Test: "cmd/lockstep:TestFunctions_FailureLeavesNoVersion", Edits: []Edit{{"cmd/lockstep/functions.go", "if err := os.Remove(versionFile); err != nil", "if _, err := os.Stat(versionFile); err != nil"}}},
	{Name: "the functions are built from any source", Test: "cmd/lockstep:TestFindSource_ChecksWhereCommandCameFrom", Edits: []Edit{{"cmd/lockstep/functions.go", "case found.Sum != m.Sum:", "case found.Dir == \"\":"}}},
	{Name: "every request to a foreign host is signed", Test: "shared/client/auth:TestTransport_ChoosesAuthorization", Edits: []Edit{{"shared/client/auth/auth.go", "} else if r.URL.Scheme == \"https\" {", "} else if r.URL.Scheme != \"\" {"}}},
	{Name: "an alias of the sweeper is not its own", Test: "cmd/lockstep/doctor:TestStackCheck_PassesHealthyStack", Edits: []Edit{{"cmd/lockstep/doctor/stack_checks.go", "return t == arn || strings.HasPrefix(t, arn+\":\")", "return t == arn"}}},
	{Name: "pools that are found by name are not examined", Test: "cmd/lockstep/doctor:TestStackCheck_CountsExternalConsumers", Edits: []Edit{{"cmd/lockstep/doctor/stack.go", "strings.HasPrefix(name, prefix) && !", "false && !"}}},
	{Name: "a boundary that CDK ignores is accepted", Test: "infra/cmd/infra:TestCDK_PassesPermissionsBoundary", Edits: []Edit{{"infra/cmd/infra/main.go", "(string); ok && text != \"\" {", "(string); ok && text == \"-\" {"}}},
	{Name: "some tables exist and others are made", Test: "infra:TestEngineProps_ValidateNamesField", Edits: []Edit{{"infra/tables.go", "if !tableNameRE.MatchString(name) {", "if name != \"\" && !tableNameRE.MatchString(name) {"}}},
	{Name: "a worker whose packs all fail is silent", Test: "shared/boot/workerhost:TestLambdaHandler_MeasuresFailedPacks", Edits: []Edit{{"shared/boot/workerhost/workerhost.go", "if failed > 0 { // Lambda", "if failed > len(batch) { // Lambda"}}},
	{Name: "a claim that is lost is a failure of the worker", Test: "shared/worker:TestWorker_RespectsProcessDeadline", Edits: []Edit{{"shared/worker/log.go", "err != nil && !workflow.Is(err, workflow.CodeClaimLost)", "err != nil"}}},
	{Name: "the dead letters of a pool are a pool to blocks and deployments", Test: "shared/definition:TestValidateBlock_PoolIsOneThatCanBeDeployed", Edits: []Edit{{"shared/topology/topology.go", "poolRE.MatchString(name) && !NamesDeadLetters(name)", "poolRE.MatchString(name)"}}},
	{Name: "a pool of any name is deployed", Test: "infra:TestWorkerPoolProps_ValidateNamesField", Edits: []Edit{{"infra/pools.go", "if !topology.ValidPool(p.Pool) {", "if p.Pool == \"a b\" {"}}},
	{Name: "the packs of a pool are sent among the dead letters of another one", Test: "shared/sqs:TestClient_DeadLettersAreNoPool", Edits: []Edit{{"shared/sqs/client.go", "if topology.NamesDeadLetters(pool) {", "if false && topology.NamesDeadLetters(pool) {"}}},
	{Name: "a worker polls the dead letters of another pool", Test: "shared/boot/workerhost:TestQueueURL_RefusesDeadLetters", Edits: []Edit{{"shared/boot/workerhost/workerhost.go", "if topology.NamesDeadLetters(poolName) {", "if poolName == topology.DLQSuffix {"}}},
	{Name: "wake-ups that fail are not counted", Test: "functions/sqsbatch:TestHandleWakeups_ReportsFailuresPerRecord", Edits: []Edit{{"functions/sqsbatch/handler.go", "if n := len(failures.items); n > 0 {", "if n := len(failures.items); n > len(event.Records) {"}}},
	{Name: "a failure that is acknowledged at once is not counted", Test: "shared/engine:TestRecorder_MeasuresFailedExecutions", Edits: []Edit{{"shared/engine/telemetry.go", "x.State == sm.ExecutionFailedSafeAck && from != sm.ExecutionFailedSafe:", "x.State == sm.ExecutionFailedSafeAck && from == sm.ExecutionFailedUnsafe:"}}},
	{Name: "an execution that nobody claimed is a failure like any other", Test: "shared/engine:TestRecorder_MeasuresFailedExecutions", Edits: []Edit{{"shared/engine/telemetry.go", "if x.Cause == workflow.CauseUnclaimed {", "if x.Cause == \"\" {"}}},
	{Name: "an account with too little concurrency is well", Test: "cmd/lockstep/doctor:TestStackCheck_FindsEachDefect", Edits: []Edit{{"cmd/lockstep/doctor/stack_checks.go", "case have < need:", "case have < 0:"}}},
	{Name: "a table is asked to be colder than it is", Test: "infra:TestEngineProps_ValidateNamesField", Edits: []Edit{{"infra/props.go", "w.Read > 0 && w.Read < 12_000", "w.Read > 0 && w.Read < 12"}}},
}
