package mutation

const largeScopes = "shared/engine/large_scopes.go"

// room are mistakes about the limits of one process, queue or port. A test detects each.
var room = []Mutation{
	{Name: "the entities of large executions are in memory side by side", Test: "shared/engine:TestAdvance_BoundsTheEntitiesInMemory", Edits: []Edit{{largeScopes, "if !w.boundsScope ||", "if !w.boundsScope || l.most > 0 ||"}}},
	{Name: "small executions wait behind large ones", Test: "shared/engine:TestAdvance_BoundsTheEntitiesInMemory", Edits: []Edit{{largeScopes, "want <= l.most/smallScopes {", "want <= 0 {"}}},
	{Name: "a wake-up that finds no room counts as a failure", Test: "shared/engine:TestAdvance_BoundsTheEntitiesInMemory", Edits: []Edit{{largeScopes, "if !errors.Is(err, errNoRoom) {", "if err != nil || !errors.Is(err, errNoRoom) {"}}},
	{Name: "a wake-up of a lane that finds no room has tried", Test: "shared/engine:TestAdvance_LaneWithoutMemoryIsNoAttempt", Edits: []Edit{{"shared/engine/advance.go", "\t\tw.withdrawAttempt(ctx)\n", ""}}},
	{Name: "a request searches entities for as long as it takes", Test: "shared/engine:TestStart_LargeSearchIsDoneByWakeup", Edits: []Edit{{"shared/engine/fetch_discovery.go", "s.maxBytes > 0 && s.bytes > s.maxBytes", "s.maxBytes < 0"}}},
	{Name: "a function works until Lambda ends it", Test: "shared/api/lambdahttp:TestNew_ReservesTimeForTheAnswer", Edits: []Edit{{"shared/api/lambdahttp/handler.go", "deadline.Add(-min(answerTime, time.Until(deadline)/2))", "deadline"}}},
	{Name: "a function does not know how much memory it has", Test: "shared/boot:TestLimitMemory_FollowsTheFunction", Edits: []Edit{{"shared/boot/memory.go", "debug.SetMemoryLimit(mb << 20 / 5 * 4)", "debug.SetMemoryLimit(-1)"}}},
	{Name: "a step ends before its jobs", Test: "shared/engine:TestHistory_StepsEndAfterTheirJobs", Edits: []Edit{{"shared/engine/advance.go", "\t\tw.readClockAfterReport(ctx)\n", ""}}},
	{Name: "a port of the local stack answers under any name", Test: "localstack/process:TestProgramsOnly_RefusesBrowsersAndOtherHosts", Edits: []Edit{{"localstack/process/loopback.go", "if r.Host != address || r.Header", "if r.Header"}}},
	{Name: "a block may call the stack itself", Test: "shared/worker/httpblock:TestClient_RefusesPortsOfTheStack", Edits: []Edit{{"shared/worker/httpblock/allowlist.go", "ok && !slices.Contains(strings.Fields(except), net.JoinHostPort(host, port))", "ok && except != \"\""}}},
	{Name: "a port of the local stack answers a script", Test: "localstack/process:TestProgramsOnly_RefusesBrowsersAndOtherHosts", Edits: []Edit{{"localstack/process/loopback.go", "r.Header.Get(\"Origin\") != \"\" ||", "r.Header.Get(\"Origin\") == \"-\" ||"}}},
	{Name: "a page gets events of a local function", Test: "localstack/embedded/lambdahost:TestDeployedFunction_RuntimeAPIRefusesOthers", Edits: []Edit{{"localstack/embedded/lambdahost/environment.go", "process.ProgramsOnly(listener.Addr().String(), http.StripPrefix(secret, e.runtimeAPI()))", "http.StripPrefix(secret, e.runtimeAPI())"}}},
	{Name: "another program gets events of a local function", Test: "localstack/embedded/lambdahost:TestDeployedFunction_RuntimeAPIRefusesOthers", Edits: []Edit{{"localstack/embedded/lambdahost/environment.go", `secret := "/" + rand.Text()`, `secret := rand.Text()[:0]`}}},
	{Name: "the local API answers under any name", Test: "localstack/stack:TestLocalHostsOnly_RefusesOtherNames", Edits: []Edit{{"localstack/stack/stack.go", "host != \"localhost\" && (ip == nil || !ip.IsLoopback())", "host != \"localhost\" && ip != nil && !ip.IsLoopback()"}}},
}
