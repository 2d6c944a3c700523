package infra

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// WorkerPoolProps configures a worker pool of your own. Its worker is either a function
// created from CodeDir, or Function, or Polled: processes anywhere that poll the HTTP
// interface for work.
type WorkerPoolProps struct {
	// Pool is the name by which blocks select the pool: [topology.PoolNames].
	Pool string

	// Region makes this the pool for executions with that region: [topology.RegionNames]. It is a
	// name, and need not be that of an AWS region: its queue is in this stack, like all queues, and
	// its workers run wherever you connect or start them. Default: executions without a region.
	//
	// The pool "default" in a region has the stock worker if none of CodeDir, Function and Polled
	// is set.
	Region string

	// CodeDir is a directory with bootstrap, a program with the worker SDK
	// (shared/boot/workerhost), built for Linux and the engine's Architecture. It becomes
	// a function with its own role, with the same settings as the engine's functions.
	CodeDir string

	// Timeout in seconds, Memory in MB and Environment configure the function created
	// from CodeDir. Default: 900, 512, none. A job must end clock.margin before the
	// timeout, 2 s by default; a job that starts later in the invocation has less time.
	Timeout, Memory int
	Environment     map[string]string

	// Network connects the function created from CodeDir to a VPC. Default: none.
	Network *Network

	// Function is a function of your own, from this stack or another one. It must have a
	// timeout and a role whose policy the app can change. AddWorkerPool adds variables
	// and permissions to it and makes it allow recursive loops.
	Function awslambda.Function

	// Polled is a pool without a function.
	Polled bool

	// Concurrency is the maximum number of concurrent invocations by the pool's queue,
	// 2 to 1000. Default: 50.
	Concurrency int

	// PackAge is the alarm threshold for the age in seconds of the oldest pack.
	// Default: that of the engine's Thresholds.
	PackAge int
}

// WorkerPool is a worker pool: a queue with its dead-letter queue and the function that
// consumes it. A polled pool has no function and no mapping.
type WorkerPool struct {
	Queue    *Queue
	Function awslambda.Function
	Mapping  awslambda.EventSourceMapping

	engine *Engine
	name   string
}

// GrantPolling gives a principal the permissions of a worker of this polled pool: those of the
// stock worker, on this pool's queue. Its processes receive from the queue themselves, with
// shared/boot/workerhost and the variables of [WorkerPool.PollingEnvironment], so that no
// invocation of the HTTP interface waits for them. It panics if the pool has a function, which
// would compete for the packs, or if the app cannot change the principal's policy.
func (p *WorkerPool) GrantPolling(who awsiam.IGrantable) {
	if p.Function != nil {
		panic(fmt.Errorf("the pool %s has a function: only processes that poll a polled pool receive from its queue", p.name))
	}
	worker := &Function{role: topology.FunctionWorker, outside: who}
	p.engine.grantRuntimePermissions(worker)
	// The principal may receive from other pools too, and the statement ids in a policy must
	// differ.
	worker.allow("Receive"+p.Queue.label, []string{*p.Queue.QueueArn()}, "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility")
	worker.allowSend("Send"+p.Queue.label, p.Queue)
}

// PollingEnvironment returns the environment variables of a process that polls the queue: those of
// the stock worker, with the settings of the stage, except [EngineProps.Telemetry]. The names of
// resources are placeholders until the stack is deployed. Processes need the variables of the last
// deployment.
func (p *WorkerPool) PollingEnvironment() map[string]string {
	worker := &Function{role: topology.FunctionWorker}
	p.engine.setEnvironment(worker)
	worker.setEnv(topology.EnvQueueJobsURLs, queueURLsJSON(map[string]*Queue{p.name: p.Queue}))
	if region := topology.RegionOf(p.name); region != "" {
		worker.setEnv(envWorkerRegion, region)
	}
	return worker.environment
}

// Validate returns an error that names the first invalid field.
func (p *WorkerPoolProps) Validate() error {
	if !topology.ValidPool(p.Pool) {
		return fmt.Errorf("pool %q: want %s", p.Pool, topology.PoolNames)
	}
	if p.Region != "" && !topology.ValidRegion(p.Region) {
		return fmt.Errorf("region %q: want %s", p.Region, topology.RegionNames)
	}
	kinds := 0
	for _, set := range []bool{p.CodeDir != "", p.Function != nil, p.Polled} {
		if set {
			kinds++
		}
	}
	if kinds != 1 && !p.hasStockWorker() {
		return errors.New("want exactly one of CodeDir, Function and Polled")
	}
	if p.Concurrency != 0 {
		if err := validateConcurrency(p.Concurrency); err != nil {
			return fmt.Errorf("concurrency %w", err)
		}
	}
	if p.Timeout < 0 || p.Timeout > 900 || p.Memory < 0 || p.PackAge < 0 {
		return fmt.Errorf("timeout %d, memory %d, pack age %d: want positive numbers, and at most 900 s", p.Timeout, p.Memory, p.PackAge)
	}
	if err := p.Network.Validate(); err != nil {
		return err
	}
	if p.CodeDir != "" {
		if err := validateEnvironment(p.Environment); err != nil {
			return fmt.Errorf("environment: %w", err)
		}
		return validateProgram(p.CodeDir, "")
	}
	if p.hasStockWorker() {
		return validateEnvironment(p.Environment)
	}
	if p.Timeout != 0 || p.Memory != 0 || p.Network != nil || len(p.Environment) > 0 || p.Polled && p.Concurrency != 0 {
		return errors.New("timeout, memory, network and environment can only be set with CodeDir, and concurrency not with Polled")
	}
	if p.Function != nil && p.Function.Timeout() == nil {
		return errors.New("the function has no timeout, from which the queue's visibility timeout is derived")
	}
	return nil
}

// hasStockWorker reports whether the pool is that of the stock worker in a region.
func (p *WorkerPoolProps) hasStockWorker() bool {
	return p.Pool == topology.PoolDefault && p.Region != "" && p.CodeDir == "" && p.Function == nil && !p.Polled
}

// pool returns the name of the pool, with its region.
func (p *WorkerPoolProps) pool() string { return topology.PoolInRegion(p.Pool, p.Region) }

// AddWorkerPool adds a worker pool of your own to the engine. Its worker gets the permissions of
// the stock worker, on its own queue. The only table it may use is jobs, so that it cannot change
// the state of an execution or hold a lock. It panics on invalid props; call
// [WorkerPoolProps.Validate] first.
func (e *Engine) AddWorkerPool(id string, props *WorkerPoolProps) *WorkerPool {
	if err := props.Validate(); err != nil {
		panic(fmt.Errorf("worker pool %s: %w", id, err))
	}
	if props.hasStockWorker() {
		stock := *props
		stock.CodeDir = filepath.Join(e.props.FunctionsDir, topology.FunctionWorker)
		props = &stock
	}
	if err := e.validatePool(props); err != nil {
		panic(fmt.Errorf("worker pool %s: %w", id, err))
	}
	e.reservePool(id, props)
	label := "Jobs" + pascalCase(id)
	age := valueOr(props.PackAge, e.props.Thresholds.PackAge)
	if props.Polled {
		q := e.newPoolQueue(label, props.pool(), polledSeconds)
		e.addPoolMonitoring(e.Construct, id, q, nil, age)
		e.outputQueue(q)
		return &WorkerPool{Queue: q, engine: e, name: props.pool()}
	}
	function, scope := e.poolFunction(id, label, props)
	e.grantRuntimePermissions(function)
	e.setEnvironment(function)
	q := e.newPoolQueue(label, props.pool(), int(*function.Timeout().ToSeconds(nil)))
	mapping := e.attachFunction(scope, props.pool(), q, function, valueOr(props.Concurrency, defaultConcurrency))
	e.addPoolMonitoring(scope, id, q, function, age)
	e.outputQueue(q)
	return &WorkerPool{Queue: q, Function: function.Function, Mapping: mapping, engine: e, name: props.pool()}
}

// polledSeconds replaces the function's timeout for a polled pool. The engine sets the visibility
// timeout of each message that it receives for a polling worker.
const polledSeconds = 60

// poolFunction returns a pool's function, and the scope for resources that refer to it.
func (e *Engine) poolFunction(id, label string, props *WorkerPoolProps) (*Function, constructs.Construct) {
	if props.Function == nil {
		function := e.newFunction(functionSpec{
			id: pascalCase(id) + "Worker", name: workerName(props.pool()), description: "Lockstep: runs the packs of the pool " + props.pool(),
			dir: props.CodeDir, timeout: valueOr(props.Timeout, 900), memory: valueOr(props.Memory, defaultMemory), network: props.Network,
		}, topology.FunctionWorker)
		for _, key := range slices.Sorted(maps.Keys(props.Environment)) {
			function.setEnv(key, props.Environment[key])
		}
		return function, e.Construct
	}
	allowRecursion(props.Function)
	external := &Function{Function: props.Function, live: props.Function, role: topology.FunctionWorker}
	stack := awscdk.Stack_Of(props.Function)
	if *stack.Node().Path() == *awscdk.Stack_Of(e.Construct).Node().Path() {
		return external, e.Construct
	}
	// Resources that refer to the function belong to its stack: that stack depends on
	// the engine's, so the engine's must not depend on it.
	return external, constructs.NewConstruct(stack, jsii.String(*e.Node().Id()+label))
}

// validatePool checks a pool's names and program against the engine's props.
func (e *Engine) validatePool(props *WorkerPoolProps) error {
	if err := validateQueueName(e.poolPrefix() + topology.PoolInQueueName(props.pool()) + topology.DLQSuffix); err != nil {
		return err
	}
	if props.Region != "" && !slices.Contains(e.regions, props.Region) && len(e.regions) == topology.MaxRegions {
		return fmt.Errorf("region %q: the pools of an engine have at most %d regions", props.Region, topology.MaxRegions)
	}
	if props.CodeDir == "" {
		return nil
	}
	if name := e.physicalName(workerName(props.pool())); name != nil {
		if err := validateFunctionName(*name); err != nil {
			return err
		}
	}
	return validateProgram(props.CodeDir, e.props.Architecture)
}

func workerName(pool string) string {
	return topology.FunctionWorker + "-" + topology.PoolInQueueName(pool)
}

// reservePool panics if the pool already exists, or if the function serves another pool: its
// environment can name only one queue.
func (e *Engine) reservePool(id string, props *WorkerPoolProps) {
	if e.Pools[props.pool()] != nil {
		panic(fmt.Errorf("worker pool %s: the pool %s already exists", id, props.pool()))
	}
	if props.Function == nil {
		return
	}
	path := *props.Function.Node().Path()
	if pool, ok := e.poolByFunction[path]; ok {
		panic(fmt.Errorf("worker pool %s: the function %s already serves the pool %s", id, path, pool))
	}
	e.poolByFunction[path] = props.pool()
}

// addStockPool creates the pool of the stock worker.
func (e *Engine) addStockPool() {
	q := e.newQueue("Jobs"+pascalCase(topology.PoolDefault), topology.JobsQueue(topology.PoolDefault),
		topology.FunctionTimeoutSeconds[topology.FunctionWorker], topology.MaxReceiveJobs)
	e.attachFunction(e.Construct, topology.PoolDefault, q, e.Functions[topology.FunctionWorker], e.props.concurrency(topology.FunctionWorker))
	e.registerStockPool(q)
}

// newPoolQueue creates the queue of an added pool. Its name is the prefix and the pool. Functions
// that send packs find it by that name, so that pools take no space in their environments and
// policies, however many there are.
func (e *Engine) newPoolQueue(label, pool string, timeout int) *Queue {
	name := e.poolPrefix() + topology.PoolInQueueName(pool)
	q := e.newNamedQueue(label, &name, jsii.String(name+topology.DLQSuffix), timeout, topology.MaxReceiveJobs)
	if len(e.Pools) == 1 { // the stock pool
		e.serveAddedPools()
	}
	e.Pools[pool] = q
	if region := topology.RegionOf(pool); region != "" && !slices.Contains(e.regions, region) {
		e.regions = append(e.regions, region)
		e.Functions[topology.FunctionAPI].setEnv(topology.EnvRegions, strings.Join(e.regions, ",")) // the API lists and redrives their queues
	}
	return q
}

// serveAddedPools lets the functions that send packs send to the queues of added pools. It also
// lets the API serve workers that poll them and redrive their dead letters. All of this uses the
// prefix of their names.
func (e *Engine) serveAddedPools() {
	arn := *awscdk.Stack_Of(e.Construct).FormatArn(&awscdk.ArnComponents{Service: jsii.String("sqs"), Resource: jsii.String(e.poolPrefix() + "*")})
	e.Functions[topology.FunctionLifecycle].allow("SendPacksToPools", []string{arn}, "sqs:SendMessage")
	e.Functions[topology.FunctionAPI].allow("ServePools", []string{arn},
		"sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes")
}

// attachFunction makes a function consume a pool's queue.
func (e *Engine) attachFunction(scope constructs.Construct, pool string, q *Queue, f *Function, concurrency int) awslambda.EventSourceMapping {
	mapping := e.addMapping(scope, q, f, concurrency)
	f.allowSend("SendPacks", q)
	f.setEnv(topology.EnvQueueJobsURLs, queueURLsJSON(map[string]*Queue{pool: q}))
	return mapping
}

// registerStockPool gives the functions that send packs the URL of the stock pool's queue and
// the permission to send to it. CloudFormation generates the name of this queue.
func (e *Engine) registerStockPool(q *Queue) {
	e.Pools[topology.PoolDefault] = q
	for _, name := range []string{topology.FunctionAPI, topology.FunctionLifecycle} {
		e.Functions[name].allowSend("SendPacksTo"+q.label, q)
		if name == topology.FunctionAPI {
			// The API serves the workers that poll over HTTP.
			e.Functions[name].allow("LendPacksOf"+q.label, []string{*q.QueueArn()},
				"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes")
			e.Functions[name].allowRedrive(q)
		}
		e.Functions[name].setEnv(topology.EnvQueueJobsURLs, queueURLsJSON(e.Pools))
	}
}

// addPoolMonitoring creates the alarms of a pool that was added to the engine, and its
// part of the dashboard. Alarms of a function belong to scope, the function's stack.
func (e *Engine) addPoolMonitoring(scope constructs.Construct, id string, q *Queue, f *Function, age int) {
	thresholds, queue := e.props.Thresholds, q.monitored(age)
	local := e.monitoring.inScope(e.Construct)
	local.addQueueAlarms(queue)
	var onDashboard []monitoredFunction
	if f != nil {
		worker := monitoredFunction{name: pascalCase(id) + "Worker", label: "worker of " + id, function: f.Function}
		if scope == e.Construct {
			local.addFunctionAlarms(worker, thresholds.Errors, thresholds.Throttles)
			onDashboard = append(onDashboard, worker)
		} else {
			e.monitoring.inScope(scope).addFunctionAlarms(worker, thresholds.Errors, thresholds.Throttles)
		}
	}
	local.addPoolToDashboard(e.Dashboard, queue, onDashboard)
}

// allowRecursion makes a user's function allow recursive loops: see [Engine.newFunction].
func allowRecursion(f awslambda.Function) {
	f.Node().DefaultChild().(awslambda.CfnFunction).SetRecursiveLoop(jsii.String("Allow"))
}

// queueURLsJSON returns the JSON object of queue URLs, by pool, that a function reads. The URLs are
// placeholders until the stack is deployed.
func queueURLsJSON(pools map[string]*Queue) string {
	urls := map[string]string{}
	for _, pool := range slices.Sorted(maps.Keys(pools)) {
		urls[pool] = *pools[pool].QueueUrl()
	}
	text, err := json.Marshal(urls)
	if err != nil {
		panic(err) // strings always marshal
	}
	return string(text)
}

// poolPrefix returns the prefix of the queue name that the engine looks up for a pool it does not
// know. A block may name any pool, and the lookup shows that nobody serves it. The prefix contains
// the engine's name, which is unique in an account and region. But an engine named x-jobs has
// queues, such as x-jobs-lifecycle, whose names begin with the prefix of an engine named x: do not
// give two engines of an account such names.
func (e *Engine) poolPrefix() string { return e.deploymentName() + "-" + topology.QueueJobsPrefix }

func valueOr(n, fallback int) int {
	if n == 0 {
		return fallback
	}
	return n
}
