package infra

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// workers are the functions behind the queues of pools, of whatever stack.
func workers(t *testing.T, x *template) []*resource {
	t.Helper()
	var found []*resource
	for id, f := range fed(t, x) {
		if strings.Contains(id, "Jobs") {
			found = append(found, f)
		}
	}
	if len(found) == 0 {
		t.Fatal("no worker")
	}
	return found
}

// A worker runs code of others, the users' workers as much as the stock one.
// Whatever its policy and its environment say, they do not so much as name a table
// other than jobs.
func TestWorkersKnowNoTableButJobs(t *testing.T) {
	eachOf(t, served, func(t *testing.T, stack *template) {
		for _, worker := range workers(t, stack) {
			var said []string
			x := worker.in
			for _, s := range x.policy(t, x.refers(t, worker.at("Role"))) {
				said = append(said, s.resources...)
			}
			for _, value := range worker.env() {
				said = append(said, value)
			}
			jobs := 0
			for _, s := range said {
				for _, m := range reference.FindAllStringSubmatch(x.followed(s), -1) {
					r := x.find(m[1])
					if r == nil || r.Type != "AWS::DynamoDB::Table" {
						continue
					}
					if !r.is("TableJobs") {
						t.Errorf("%s knows %s: %s", worker.ID, r.ID, s)
					}
					jobs++
				}
			}
			if jobs == 0 {
				t.Errorf("%s does not know the table jobs", worker.ID)
			}
		}
	})
}

// rightsOf are the statements of a function without what is its own affair.
func rightsOf(t *testing.T, x *template, function *resource, queue string) []string {
	t.Helper()
	var found []string
	for _, s := range x.policy(t, x.refers(t, function.at("Role"))) {
		on := plain(x.followed(strings.Join(s.resources, " ")))
		if strings.HasPrefix(s.actions[0], "logs:") {
			continue
		}
		found = append(found, strings.Join(s.actions, " ")+" on "+strings.ReplaceAll(on, queue, "OwnQueue"))
	}
	slices.Sort(found)
	return found
}

// A pool of the user's gives its worker the stock worker's rights on its own queue,
// no more and no less, whether the function is the engine's to make or not.
func TestAUsersWorkerHasTheRightsOfTheStockWorker(t *testing.T) {
	x := stacks()["options"]
	want := rightsOf(t, x, x.one(t, "WorkerFunction"), "EngineJobsDefaultQueue")
	if len(want) != 5 { // jobs, looks, key, consume, packs
		t.Fatalf("the stock worker has %q", want)
	}
	users := map[string]*resource{"EngineJobsReportsQueue": x.one(t, "ReportsWorkerFunction")}
	for id, r := range x.Resources {
		if r.Type == "AWS::Lambda::Function" && strings.HasPrefix(id, "OwnFunction") {
			users["EngineJobsPhotosQueue"] = r
		}
	}
	if len(users) != 2 {
		t.Fatal("the user's own function is missing")
	}
	for queue, f := range users {
		if got := rightsOf(t, x, f, queue); !slices.Equal(got, want) {
			t.Errorf("%s has\n%s\nwant\n%s", f.ID, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if got := text(f.at("RecursiveLoop")); got != "Allow" {
			t.Errorf("%s: recursive loops: %s", f.ID, got)
		}
	}
}

func TestAUsersPool(t *testing.T) {
	x := stacks()["options"]
	f, q, mapping := x.one(t, "ReportsWorkerFunction"), x.one(t, "JobsReportsQueue"), x.one(t, "JobsReportsMapping")
	for what, pair := range map[string][2]string{
		"time-out":    {text(f.at("Timeout")), "60"},
		"memory":      {text(f.at("MemorySize")), "1024"},
		"environment": {f.env()["MODE"], "quick"},
		"pools":       {f.env()[topology.EnvQueueJobsURLs], `{"reports":"${` + q.ID + `}"}`},
		"visibility":  {text(q.at("VisibilityTimeout")), "360"},
		"receives":    {text(q.at("RedrivePolicy", "maxReceiveCount")), "20"},
		"concurrency": {text(mapping.at("ScalingConfig", "MaximumConcurrency")), "9"},
		"alarm":       {text(x.one(t, "AlarmJobsReportsOld").at("Threshold")), "600"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %s, want %s", what, pair[0], pair[1])
		}
	}
	// Everybody who sends packs learns of it, and the HTTP interface lends them.
	for _, name := range []string{topology.FunctionAPI, topology.FunctionLifecycle} {
		env := x.one(t, title(name)+"Function").env()[topology.EnvQueueJobsURLs]
		for _, pool := range []string{`"default":"${EngineJobsDefault`, `"photos":"${EngineJobsPhotos`, `"reports":"${EngineJobsReports`} {
			if !strings.Contains(env, pool) {
				t.Errorf("%s knows %s", name, env)
			}
		}
		for _, queue := range []string{"JobsDefaultQueue.Arn}", "JobsPhotosQueue.Arn}", "JobsReportsQueue.Arn}"} {
			verbs := granted(t, x, name, "sqs")[queue]
			if !slices.Contains(verbs, "SendMessage") || slices.Contains(verbs, "ReceiveMessage") != (name == topology.FunctionAPI) {
				t.Errorf("%s: %v on %s", name, verbs, queue)
			}
		}
	}
}

// A pool that is polled is a queue without a function, which the HTTP interface
// lends from: workers anywhere need no right on anything but that interface.
func TestAPolledPool(t *testing.T) {
	x := stacks()["options"]
	q := x.one(t, "JobsEdgeQueue")
	if f := fed(t, x)[q.ID]; f != nil {
		t.Errorf("%s works on it", f.ID)
	}
	if got := text(q.at("RedrivePolicy", "maxReceiveCount")); got != "20" {
		t.Errorf("%s receives", got)
	}
	got := strings.Join(granted(t, x, topology.FunctionAPI, "sqs")["JobsEdgeQueue.Arn}"], " ")
	if got != "ChangeMessageVisibility DeleteMessage GetQueueAttributes ReceiveMessage SendMessage" {
		t.Errorf("the HTTP interface may %s", got)
	}
	if env := x.one(t, "LifecycleFunction").env()[topology.EnvQueueJobsURLs]; !strings.Contains(env, `"edge":"${`+q.ID+`}"`) {
		t.Errorf("lifecycle knows %s", env)
	}
}

// What knows a function of another stack lives in that stack: the engine's has no
// reference to it, so that either can be deployed again alone.
func TestAWorkerOfAnotherStack(t *testing.T) {
	host, tenant := stacks()["host"], stacks()["tenant"]
	for id, r := range host.Resources {
		if strings.Contains(text(r.Properties), "Fn::ImportValue") {
			t.Errorf("%s needs the other stack", id)
		}
	}
	mapping := tenant.all(t, "AWS::Lambda::EventSourceMapping")[0]
	if f := tenant.refers(t, mapping.at("FunctionName")); text(f.at("RecursiveLoop")) != "Allow" || f.env()[topology.EnvTableJobs] == "" {
		t.Errorf("%s is no worker", f.ID)
	}
	if got := text(mapping.at("EventSourceArn")); !strings.Contains(got, "Fn::ImportValue=host:") || !strings.Contains(got, "JobsElsewhereQueue") {
		t.Errorf("the mapping is of %s", got)
	}
	if got := len(tenant.all(t, "AWS::CloudWatch::Alarm")); got != 2 {
		t.Errorf("%d alarms watch the function, want errors and throttles", got)
	}
	if host.one(t, "JobsElsewhereQueue").at("RedrivePolicy") == nil || host.one(t, "AlarmJobsElsewhereDeadLetters") == nil {
		t.Error("the queue has no dead letters that somebody watches")
	}
}

func TestAddWorkerPoolRefusesWhatCannotWork(t *testing.T) {
	dir := t.TempDir()
	if err := dummies(dir); err != nil {
		t.Fatal(err)
	}
	code, intel := filepath.Join(dir, topology.FunctionWorker), t.TempDir()
	if err := os.WriteFile(filepath.Join(intel, "bootstrap"), []byte(intelProgram), 0o755); err != nil {
		t.Fatal(err)
	}
	stack := awscdk.NewStack(awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(t.TempDir())}), jsii.String("s"), nil)
	long := "a-prefix-of-thirty-characters-" // and one more
	e := NewEngine(stack, "Engine", &EngineProps{Stage: "dev", FunctionsDir: dir, NamePrefix: long[:29] + "x"})
	function := usersFunction(stack, dir)
	e.AddWorkerPool("First", &WorkerPoolProps{Pool: "first", Function: function})
	for want, p := range map[string]*WorkerPoolProps{
		"the pool default is there already": {Pool: topology.PoolDefault, CodeDir: code},
		"the pool first is there already":   {Pool: "first", CodeDir: code},
		"serves the pool first already":     {Pool: "second", Function: function},
		"the worker's own affair":           {Pool: "third", Function: function, Memory: 1},
		`pool "a b"`:                        {Pool: "a b", CodeDir: code},
		"has 65 characters, and AWS takes":  {Pool: strings.Repeat("p", 27), CodeDir: code},
		"and the architecture is arm64":     {Pool: "fourth", CodeDir: intel},
		"the largest: RULES 3802":           {Pool: "fifth", CodeDir: code, Environment: map[string]string{"RULES": strings.Repeat("x", 3800)}},
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

// A local engine has a way in that needs no gateway, and lets in whoever comes.
func TestLocalEngine(t *testing.T) {
	x := stacks()["local"]
	for id, r := range x.Resources {
		if strings.HasPrefix(r.Type, "AWS::ApiGatewayV2") {
			t.Errorf("%s is a %s", id, r.Type)
		}
	}
	url := x.one(t, "Url")
	if f := x.refers(t, url.at("TargetFunctionArn")); !f.is("ApiFunction") || f.env()[topology.EnvTrustHeaders] != "true" {
		t.Errorf("the URL leads to %s", f.ID)
	}
	// What IAM would refuse the functions, they refuse themselves.
	for _, name := range topology.Functions {
		if got := x.one(t, title(name)+"Function").env()[topology.EnvFunction]; got != name {
			t.Errorf("%s keeps to the rights of %q", name, got)
		}
	}
	if got := x.output("ApiUrl"); got != "${"+url.ID+".FunctionUrl}" {
		t.Errorf("the interface is at %s", got)
	}
}

// The worker of another stack has the rights of the stock worker, no more and no less.
func TestAWorkerOfAnotherStackHasTheRightsOfTheStockWorker(t *testing.T) {
	host, tenant := stacks()["host"], stacks()["tenant"]
	want := rightsOf(t, host, host.one(t, "WorkerFunction"), "EngineJobsDefaultQueue")
	for _, f := range tenant.all(t, "AWS::Lambda::Function") {
		if got := rightsOf(t, tenant, f, "EngineJobsElsewhereQueue"); !slices.Equal(got, want) {
			t.Errorf("%s has\n%s\nwant\n%s", f.ID, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
