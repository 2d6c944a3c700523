package infra

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// workerFunctions returns the functions that consume the queues of pools, of any stack.
func workerFunctions(t *testing.T, x *template) []*resource {
	t.Helper()
	var found []*resource
	for id, f := range functionsByQueue(t, x) {
		if strings.Contains(id, "Jobs") {
			found = append(found, f)
		}
	}
	if len(found) == 0 {
		t.Fatal("no worker")
	}
	return found
}

// A worker, stock or of a user, runs code of others. Neither its policy nor its
// environment contains a table other than jobs.
func TestWorkers_AccessJobsTableOnly(t *testing.T) {
	forStacks(t, allStacks, func(t *testing.T, stack *template) {
		for _, worker := range workerFunctions(t, stack) {
			var texts []string
			x := worker.template
			for _, s := range x.statementsOf(t, x.referenced(t, worker.property("Role"))) {
				texts = append(texts, s.resources...)
			}
			for _, value := range worker.environment() {
				texts = append(texts, value)
			}
			jobs := 0
			for _, s := range texts {
				for _, m := range referenceRE.FindAllStringSubmatch(x.resolveImports(s), -1) {
					r := x.findResource(m[1])
					if r == nil || r.Type != "AWS::DynamoDB::Table" {
						continue
					}
					if !r.hasID("TableJobs") {
						t.Errorf("%s refers to %s: %s", worker.ID, r.ID, s)
					}
					jobs++
				}
			}
			if jobs == 0 {
				t.Errorf("%s does not refer to the table jobs", worker.ID)
			}
		}
	})
}

// permissionsOf returns the statements of a function, without those on its own logs.
func permissionsOf(t *testing.T, x *template, function *resource, queue string) []string {
	t.Helper()
	var found []string
	for _, s := range x.statementsOf(t, x.referenced(t, function.property("Role"))) {
		on := stripHashes(x.resolveImports(strings.Join(s.resources, " ")))
		if strings.HasPrefix(s.actions[0], "logs:") {
			continue
		}
		found = append(found, strings.Join(s.actions, " ")+" on "+strings.ReplaceAll(on, queue, "OwnQueue"))
	}
	slices.Sort(found)
	return found
}

// The worker of a user's pool has exactly the permissions of the stock worker, on its own
// queue, whether the engine or the user created the function.
func TestWorkerPool_UserFunctionHasStockPermissions(t *testing.T) {
	x := stacks()["options"]
	want := permissionsOf(t, x, x.byID(t, "WorkerFunction"), "EngineJobsDefaultQueue")
	if len(want) != 7 { // jobs, wake-ups, key, secrets, sealed parameters, consume, packs
		t.Fatalf("the stock worker has %q", want)
	}
	users := map[string]*resource{"EngineJobsReportsQueue": x.byID(t, "ReportsWorkerFunction")}
	for id, r := range x.Resources {
		if r.Type == "AWS::Lambda::Function" && strings.HasPrefix(id, "OwnFunction") {
			users["EngineJobsPhotosQueue"] = r
		}
	}
	if len(users) != 2 {
		t.Fatal("the user's own function is missing")
	}
	for queue, f := range users {
		if got := permissionsOf(t, x, f, queue); !slices.Equal(got, want) {
			t.Errorf("%s has\n%s\nwant\n%s", f.ID, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if got := render(f.property("RecursiveLoop")); got != "Allow" {
			t.Errorf("%s: recursive loops: %s", f.ID, got)
		}
	}
}

func TestWorkerPool_OfUserFunction(t *testing.T) {
	x := stacks()["options"]
	f, q, mapping := x.byID(t, "ReportsWorkerFunction"), x.byID(t, "JobsReportsQueue"), x.byID(t, "JobsReportsMapping")
	for setting, pair := range map[string][2]string{
		"timeout":     {render(f.property("Timeout")), "60"},
		"memory":      {render(f.property("MemorySize")), "1024"},
		"environment": {f.environment()["MODE"], "quick"},
		"pools":       {f.environment()[topology.EnvQueueJobsURLs], `{"reports":"${` + q.ID + `}"}`},
		"visibility":  {render(q.property("VisibilityTimeout")), "360"},
		"receives":    {render(q.property("RedrivePolicy", "maxReceiveCount")), "20"},
		"concurrency": {render(mapping.property("ScalingConfig", "MaximumConcurrency")), "9"},
		"alarm":       {render(x.byID(t, "AlarmJobsReportsOld").property("Threshold")), "600"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %s, want %s", setting, pair[0], pair[1])
		}
	}
	// The functions that send packs find the queue by its name, and the HTTP interface may receive.
	for _, name := range []string{topology.FunctionAPI, topology.FunctionLifecycle} {
		prefix := x.byID(t, pascalCase(name)+"Function").environment()[topology.EnvQueueJobsPrefix]
		if got := render(q.property("QueueName")); got != prefix+"reports" {
			t.Errorf("the queue is named %s, and %s looks for %sreports", got, name, prefix)
		}
		for on, verbs := range actionsByResource(t, x, name, "sqs") {
			if strings.HasSuffix(on, ":"+prefix+"*") && (!slices.Contains(verbs, "SendMessage") || slices.Contains(verbs, "ReceiveMessage") != (name == topology.FunctionAPI)) {
				t.Errorf("%s: %v on %s", name, verbs, on)
			}
		}
	}
}

// The pool of the stock worker in a region has a queue of that, which a function with the stock worker's
// program and rights consumes. The HTTP interface knows the region.
func TestWorkerPool_OfRegion(t *testing.T) {
	x := stacks()["options"]
	q, f := x.byID(t, "JobsEuropeQueue"), x.byID(t, "EuropeWorkerFunction")
	for what, pair := range map[string][2]string{
		"queue":      {render(q.property("QueueName")), "acme-jobs-default--eu"},
		"consumer":   {functionsByQueue(t, x)[q.ID].ID, f.ID},
		"program":    {render(f.property("Code")), render(x.byID(t, "WorkerFunction").property("Code"))},
		"pools":      {f.environment()[topology.EnvQueueJobsURLs], `{"default@eu":"${` + q.ID + `}"}`},
		"name":       {render(f.property("FunctionName")), "acme-worker-default--eu"},
		"regions":    {x.byID(t, "ApiFunction").environment()[topology.EnvRegions], "eu"},
		"receives":   {render(q.property("RedrivePolicy", "maxReceiveCount")), "20"},
		"visibility": {render(q.property("VisibilityTimeout")), "540"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %s, want %s", what, pair[0], pair[1])
		}
	}
	if stock := x.byID(t, "JobsDefaultQueue"); stock.ID == q.ID {
		t.Error("it is the queue of those without a region")
	}
}

// A polled pool is a queue without a function. The HTTP interface receives from it, so
// that polling workers need no permission except on that interface.
func TestWorkerPool_PolledHasNoFunction(t *testing.T) {
	x := stacks()["options"]
	q := x.byID(t, "JobsEdgeQueue")
	if f := functionsByQueue(t, x)[q.ID]; f != nil {
		t.Errorf("%s consumes it", f.ID)
	}
	if got := render(q.property("RedrivePolicy", "maxReceiveCount")); got != "20" {
		t.Errorf("%s receives", got)
	}
	if got := render(q.property("QueueName")); got != "acme-jobs-edge" {
		t.Errorf("it is named %s", got)
	}
	for on, verbs := range actionsByResource(t, x, topology.FunctionAPI, "sqs") {
		if got := strings.Join(verbs, " "); strings.HasSuffix(on, ":acme-jobs-*") && got != "ChangeMessageVisibility DeleteMessage GetQueueAttributes GetQueueUrl ReceiveMessage SendMessage" {
			t.Errorf("the HTTP interface may %s", got)
		}
	}
}

// Processes that receive from the queue of a polled pool themselves have the permissions of the
// stock worker and no more. Where a function consumes the queue, none can be given.
func TestWorkerPool_GrantPolling(t *testing.T) {
	x := stacks()["host"]
	want := []string{ // as permissionsOf lists those of the stock worker, but for what a mapping asks besides
		"dynamodb:GetItem dynamodb:PutItem dynamodb:UpdateItem on ${EngineTableJobs.Arn}",
		"sqs:ReceiveMessage sqs:DeleteMessage sqs:ChangeMessageVisibility on ${EngineJobsEdgeQueue.Arn}",
		"sqs:SendMessage on ${EngineJobsEdgeQueue.Arn}",
		"sqs:SendMessage on ${EngineLifecycleQueue.Arn}",
	}
	var got []string
	for _, s := range x.statementsOf(t, x.byID(t, "Hosts")) {
		got = append(got, strings.Join(s.actions, " ")+" on "+stripHashes(strings.Join(s.resources, " ")))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for name, want := range map[string]string{
		topology.EnvTableJobs: "${EngineTableJobs}", topology.EnvQueueLifecycle: "${EngineLifecycleQueue}", topology.EnvQueueJobsURLs: `{"edge":"${EngineJobsEdgeQueue}"}`,
	} {
		if got := stripHashes(render(x.Outputs["EdgeEnv"+strings.ReplaceAll(name, "_", "")].Value)); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// Resources that refer to a function of another stack belong to that stack, so that the engine's
// stack does not depend on it. Processes that receive from the queue themselves have the settings
// of the stage, like its functions: without lock.floor they would, after a restore, execute
// messages from before it. They run in the region of their pool.
func TestWorkerPool_PollingEnvironmentHasTheSettings(t *testing.T) {
	dir := t.TempDir()
	if err := writeDummyFunctions(dir); err != nil {
		t.Fatal(err)
	}
	stack := awscdk.NewStack(awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(t.TempDir())}), jsii.String("s"), nil)
	props := &EngineProps{Stage: "dev", FunctionsDir: dir, Config: "lock: {floor: 7}", Secrets: "secretsmanager:lockstep/", AllowHosts: []string{"a.example"}, LogLevel: "debug"}
	got := NewEngine(stack, "Engine", props).AddWorkerPool("Meters", &WorkerPoolProps{Pool: "meters", Region: "eu", Polled: true}).PollingEnvironment()
	for name, want := range map[string]string{
		topology.EnvConfigInline: props.Config, topology.EnvSecretsFrom: props.Secrets, topology.EnvWorkerAllowHosts: "a.example", envLogLevel: "debug", "LOCKSTEP_WORKER_REGION": "eu",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if got[topology.EnvTableJobs] == "" || got[topology.EnvTableExecutions] != "" || !strings.Contains(got[topology.EnvQueueJobsURLs], `{"meters@eu":`) {
		t.Errorf("%v", got)
	}
}

// One role may receive from several pools: IAM refuses a policy with two statements of one id.
func TestWorkerPool_GrantPollingOfSeveralPools(t *testing.T) {
	x := stacks()["restored"]
	seen, queues := map[string]bool{}, 0
	for _, s := range x.statementsOf(t, x.byID(t, "Machines")) {
		if seen[s.sid] {
			t.Errorf("two statements are called %s", s.sid)
		}
		if seen[s.sid] = true; strings.HasPrefix(s.sid, "ReceiveJobs") {
			queues++
		}
	}
	if queues != 2 {
		t.Errorf("%d queues to receive from", queues)
	}
}

func TestWorkerPool_FunctionOfAnotherStack(t *testing.T) {
	host, tenant := stacks()["host"], stacks()["tenant"]
	for id, r := range host.Resources {
		if strings.Contains(render(r.Properties), "Fn::ImportValue") {
			t.Errorf("%s depends on the other stack", id)
		}
	}
	mapping := tenant.byType(t, "AWS::Lambda::EventSourceMapping")[0]
	if f := tenant.referenced(t, mapping.property("FunctionName")); render(f.property("RecursiveLoop")) != "Allow" || f.environment()[topology.EnvTableJobs] == "" {
		t.Errorf("%s is not set up as a worker", f.ID)
	}
	if got := render(mapping.property("EventSourceArn")); !strings.Contains(got, "Fn::ImportValue=host:") || !strings.Contains(got, "JobsElsewhereQueue") {
		t.Errorf("the mapping is of %s", got)
	}
	if got := len(tenant.byType(t, "AWS::CloudWatch::Alarm")); got != 2 {
		t.Errorf("%d alarms of the function, want errors and throttles", got)
	}
	if host.byID(t, "JobsElsewhereQueue").property("RedrivePolicy") == nil || host.byID(t, "AlarmJobsElsewhereDeadLetters") == nil {
		t.Error("the queue has no dead-letter queue with an alarm")
	}
}

func TestAddWorkerPool_PanicsOnInvalidPool(t *testing.T) {
	dir := t.TempDir()
	if err := writeDummyFunctions(dir); err != nil {
		t.Fatal(err)
	}
	code, intel := filepath.Join(dir, topology.FunctionWorker), t.TempDir()
	if err := os.WriteFile(filepath.Join(intel, "bootstrap"), []byte(x86ELFHeader), 0o755); err != nil {
		t.Fatal(err)
	}
	stack := awscdk.NewStack(awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(t.TempDir())}), jsii.String("s"), nil)
	prefix := "a-prefix-of-thirty-characters-"[:29] + "x" // 30 characters
	e := NewEngine(stack, "Engine", &EngineProps{Stage: "dev", FunctionsDir: dir, NamePrefix: prefix})
	function := newUserFunction(stack, dir)
	first := e.AddWorkerPool("First", &WorkerPoolProps{Pool: "first", Function: function})
	func() {
		defer func() {
			if cause, _ := recover().(error); cause == nil || !strings.Contains(cause.Error(), "the pool first has a function") {
				t.Errorf("processes may receive packs beside a function: %v", cause)
			}
		}()
		first.GrantPolling(function)
	}()
	e.AddWorkerPool("Europe", &WorkerPoolProps{Pool: topology.PoolDefault, Region: "eu"})
	for i := range topology.MaxRegions - 1 {
		e.AddWorkerPool(fmt.Sprintf("Region%d", i), &WorkerPoolProps{Pool: "r", Region: fmt.Sprintf("r%d", i), Polled: true})
	}
	for want, p := range map[string]*WorkerPoolProps{
		"the pool default already exists":    {Pool: topology.PoolDefault, CodeDir: code},
		"the pool first already exists":      {Pool: "first", CodeDir: code},
		"the pool default@eu already exists": {Pool: topology.PoolDefault, Region: "eu"},
		"at most 20 regions":                 {Pool: "third", Region: "another", CodeDir: code},
		"already serves the pool first":      {Pool: "second", Function: function},
		"can only be set with CodeDir":       {Pool: "third", Function: function, Memory: 1},
		`pool "a b"`:                         {Pool: "a b", CodeDir: code},
		"has 65 characters, and AWS accepts": {Pool: strings.Repeat("p", 27), CodeDir: code},
		"and the architecture is arm64":      {Pool: "fourth", CodeDir: intel},
		"the largest: RULES 3802":            {Pool: "fifth", CodeDir: code, Environment: map[string]string{"RULES": strings.Repeat("x", 3800)}},
	} {
		func() {
			defer func() {
				if cause, _ := recover().(error); cause == nil || !strings.Contains(cause.Error(), want) {
					t.Errorf("want a panic with %q, got %v", want, cause)
				}
			}()
			e.AddWorkerPool("Another", p)
		}()
	}
}

// A local engine has a function URL without authorisation instead of an API.
func TestEngine_LocalHasFunctionURL(t *testing.T) {
	x := stacks()["local"]
	for id, r := range x.Resources {
		if strings.HasPrefix(r.Type, "AWS::ApiGatewayV2") {
			t.Errorf("%s is a %s", id, r.Type)
		}
	}
	url := x.byID(t, "Url")
	if f := x.referenced(t, url.property("TargetFunctionArn")); !f.hasID("ApiFunction") || f.environment()[topology.EnvTrustHeaders] != "true" {
		t.Errorf("the URL invokes %s", f.ID)
	}
	// The functions enforce their permissions themselves, since no IAM does.
	for _, name := range topology.Functions {
		if got := x.byID(t, pascalCase(name)+"Function").environment()[topology.EnvFunction]; got != name {
			t.Errorf("%s enforces the permissions of %q", name, got)
		}
	}
	if got := x.output("ApiUrl"); got != "${"+url.ID+".FunctionUrl}" {
		t.Errorf("the interface is at %s", got)
	}
}

// The worker of another stack has exactly the permissions of the stock worker.
func TestWorkerPool_ExternalFunctionHasStockPermissions(t *testing.T) {
	host, tenant := stacks()["host"], stacks()["tenant"]
	want := permissionsOf(t, host, host.byID(t, "WorkerFunction"), "EngineJobsDefaultQueue")
	for _, f := range tenant.byType(t, "AWS::Lambda::Function") {
		if got := permissionsOf(t, tenant, f, "EngineJobsElsewhereQueue"); !slices.Equal(got, want) {
			t.Errorf("%s has\n%s\nwant\n%s", f.ID, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
