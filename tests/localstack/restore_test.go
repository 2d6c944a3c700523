package localstack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// The procedure of docs/runbooks/restore.md on a deployed stack: stop, purge, restore under other
// names, deploy with the names of the tables and a higher minimum for tokens, start again. An
// execution that had not ended ends unsafe, one that had ended stays, one that was started since is
// gone, and new ones have tokens above the minimum. LocalStack restores no tables, so the test
// copies them at the second to which they are restored.
func TestRestore_ProcedureOnADeployedStack(t *testing.T) {
	t.Parallel()
	bootstrap(t)
	devices := &restoredDevices{fences: map[string][]string{}, held: make(chan struct{}), begun: make(chan struct{}, 10)}
	url := serveForFunctions(t, devices)
	s := devStack(t)
	s.stackName = "Lockstep-restore"
	s.context = append(s.context, "stackName="+s.stackName)
	s.deploy(t)
	h := &stackClient{t, s.client(t)}
	h.importDevices("ended", "busy", "waiting", "later")
	for _, name := range []string{"act", "hold"} {
		b := workflow.Block{Package: "test", Name: name, Version: "1.0.0", Timeout: workflow.Duration(testTimeout), HTTP: &workflow.Endpoint{URL: url + "/" + name}}
		if _, err := h.RegisterBlock(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	for name, steps := range map[string]string{
		"quick": "[{label: one, functionBlock: test/act:1, runOn: device}]",
		"held":  "[{label: one, functionBlock: test/hold:1, runOn: device}, {label: two, functionBlock: test/act:1, runOn: device}]",
		"waits": "[{label: one, functionBlock: test/act:1, runOn: device}, {label: pause, wait: {for: 40s}}, {label: two, functionBlock: test/act:1, runOn: device}]",
	} {
		h.publish("package: test\nname: " + name + "\nversion: 1.0.0\nseedEntity: device\nsteps: " + steps + "\n")
	}
	ended := h.startExecution("test/quick", "{}", "ended")
	h.waitState(ended, sm.ExecutionCompletedAck)
	busy := h.startExecution("test/held", "{}", "busy")
	<-devices.begun
	waiting := h.startExecution("test/waits", "{}", "waiting")
	eventually(t, "the execution waits for a time", func() bool {
		x, err := h.Execution(t.Context(), waiting)
		return err == nil && x.State == sm.ExecutionWaiting
	})

	tables := map[string]string{} // the second to which the tables are restored
	var names []string
	for _, role := range topology.Tables {
		tables[role] = "restored-" + role
		copyTable(t, s.output(t, "Table"+strings.ToUpper(role[:1])+role[1:]+"Name"), tables[role])
		names = append(names, role+"="+tables[role])
	}

	close(devices.held) // what the tables will have forgotten
	h.waitState(busy, sm.ExecutionCompletedAck)
	later := h.startExecution("test/quick", "{}", "later")
	h.waitState(later, sm.ExecutionCompletedAck)

	var functions []string
	for _, f := range listResources(t) {
		if strings.HasPrefix(f, s.stackName+"-") && strings.Contains(f, "Function") {
			functions = append(functions, f)
		}
	}
	if len(functions) != len(topology.Functions) {
		t.Fatalf("functions: %v", functions)
	}
	for _, f := range functions {
		reserve(t, f, http.MethodPut)
	}
	if _, err := h.Version(t.Context()); err == nil {
		t.Error("a function of concurrency 0 answers")
	}
	checkThrottleAlarms(t, functions)
	for _, label := range []string{"Lifecycle", "JobsDefault", "Events", "HooksOut"} {
		q := s.queue(t, label)
		q.purge(t)
		(&queuePair{url: q.dlq}).purge(t)
	}

	floor := time.Now().Unix()
	s.context = append(s.context, "existingTables="+strings.Join(names, ","),
		"config="+strings.Replace(settings, "lock: {", fmt.Sprintf("lock: {floor: %d, ", floor), 1))
	s.deploy(t)
	for _, f := range functions {
		reserve(t, f, http.MethodDelete)
	}

	h = &stackClient{t, s.client(t)}
	if x := h.waitState(ended, sm.ExecutionCompletedAck); x.Cause != nil {
		t.Errorf("the execution that had ended has the cause %v", *x.Cause)
	}
	if x, err := h.Execution(t.Context(), later); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("the execution that was started since: %s, %v", x.State, err)
	}
	calls := devices.calls()
	for _, id := range []string{busy, waiting} {
		eventually(t, "the execution ends unsafe", func() bool {
			x, err := h.Execution(t.Context(), id)
			return err == nil && x.State == sm.ExecutionFailedUnsafe && x.Cause != nil && *x.Cause == workflow.CauseRestored
		})
	}
	if n := devices.calls(); n != calls {
		t.Errorf("%d calls of devices for executions of before the restore", n-calls)
	}
	next := h.startExecution("test/quick", "{}", "busy") // waits for an operator
	if x, err := h.Execution(t.Context(), next); err != nil || x.State != sm.ExecutionScheduled {
		t.Errorf("an execution over an entity that nobody has looked at: %s, %v", x.State, err)
	}
	if _, err := h.Acknowledge(t.Context(), busy, "looked at it"); err != nil {
		t.Fatal(err)
	}
	h.waitState(next, sm.ExecutionCompletedAck)
	fences := devices.of("busy")
	if last := fences[len(fences)-1]; last <= fmt.Sprintf("%010d", floor) || len(fences) < 2 || last <= fences[len(fences)-2] {
		t.Errorf("the fences of the device: %v, want the last above %d", fences, floor)
	}
	s.destroy(t)
	for _, name := range tables {
		if _, err := dynamodbClient().DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
			t.Errorf("the stack has taken a table with it that is not its own: %v", err)
		}
	}
}

// restoredDevices answer blocks and remember fences, as devices do, which no restore sets back.
type restoredDevices struct {
	held, begun chan struct{}

	mu     sync.Mutex
	fences map[string][]string // by entity
}

func (d *restoredDevices) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Entity struct{ ID string }
		Fence  string
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	d.mu.Lock()
	d.fences[call.Entity.ID] = append(d.fences[call.Entity.ID], call.Fence)
	d.mu.Unlock()
	if r.URL.Path == "/hold" {
		d.begun <- struct{}{}
		<-d.held
	}
	_, _ = fmt.Fprint(w, `{"outcome":"OK"}`) // fails if the caller has ended
}

func (d *restoredDevices) of(entity string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.fences[entity]...)
}

func (d *restoredDevices) calls() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, all := range d.fences {
		n += len(all)
	}
	return n
}

// reserve sets the concurrency of a function to 0, or removes that.
func reserve(t *testing.T, function, method string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, localStack.URL()+"/2017-10-31/functions/"+function+"/concurrency", strings.NewReader(`{"ReservedConcurrentExecutions":0}`))
	if err != nil {
		t.Fatal(err)
	}
	if status := signed(t, r); status/100 != 2 {
		t.Fatalf("%s concurrency of %s: %d", method, function, status)
	}
}

// checkThrottleAlarms invokes functions that may not run at all: what is refused is what Lambda counts, and it raises
// the alarm of the function.
func checkThrottleAlarms(t *testing.T, functions []string) {
	t.Helper()
	for _, role := range topology.Functions {
		i := slices.IndexFunc(functions, func(f string) bool { return strings.Contains(strings.ToLower(f), role+"function") })
		if i < 0 {
			t.Fatalf("no function %s in %v", role, functions)
		}
		refused := 0
		if invoke(t, functions[i]) == http.StatusTooManyRequests {
			refused = 1
		}
		alarm := testkit.ReadAlarm(t, strings.ToUpper(role[:1])+role[1:]+"Throttles")
		if !alarm.Fires([]testkit.Measured{{At: time.Now(), Value: refused}}) {
			t.Errorf("%s is not refused, so that its alarm is not raised", role)
		}
	}
}

// invoke asks Lambda to run a function, and returns the status of the answer.
func invoke(t *testing.T, function string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, localStack.URL()+"/2015-03-31/functions/"+function+"/invocations", strings.NewReader(`{"Records":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	return signed(t, r)
}

// signed sends a request to Lambda, and returns the status of the answer.
func signed(t *testing.T, r *http.Request) int {
	t.Helper()
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/"+region+"/lambda/aws4_request, SignedHeaders=host, Signature=none")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close() // its status says all
	return res.StatusCode
}

// copyTable makes a table with the keys, the indexes and the items of another one.
func copyTable(t *testing.T, from, to string) {
	t.Helper()
	db := dynamodbClient()
	d, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &from})
	if err != nil {
		t.Fatal(err)
	}
	in := &dynamodb.CreateTableInput{TableName: &to, KeySchema: d.Table.KeySchema, AttributeDefinitions: d.Table.AttributeDefinitions, BillingMode: types.BillingModePayPerRequest}
	for _, index := range d.Table.GlobalSecondaryIndexes {
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{IndexName: index.IndexName, KeySchema: index.KeySchema, Projection: index.Projection})
	}
	if _, err := db.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	pages := dynamodb.NewScanPaginator(db, &dynamodb.ScanInput{TableName: &from})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			if _, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &to, Item: item}); err != nil {
				t.Fatal(err)
			}
		}
	}
}
