package infra

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// WorkerPoolProps is everything that may be chosen about a pool of workers of your
// own. Its worker is either a function that is made of CodeDir, or Function, or
// Polled: processes anywhere that ask the HTTP interface for work.
type WorkerPoolProps struct {
	// Pool is the name by which blocks ask for the pool: letters, digits, _ and -.
	Pool string

	// CodeDir is a folder with bootstrap, a program made with the worker SDK
	// (shared/boot/workerhost), built for linux and the engine's Architecture. It becomes
	// a function with a role of its own, under the same rules as the engine's.
	CodeDir string

	// Timeout in seconds, Memory in MB and Environment are those of the function
	// that is made of CodeDir. Default: 900, 512, none. A job ends clock.margin before
	// the time-out, 2 s by default; what has begun later in it has what is left.
	Timeout, Memory int
	Environment     map[string]string

	// Function is a function of yours, from this stack or another one. It has to
	// have a time-out, and a role whose policy is yours to write. It gets its
	// environment and its rights from the pool and is made to allow recursive loops.
	Function awslambda.Function

	// Polled is a pool without a function.
	Polled bool

	// Concurrency bounds how many invocations the pool's queue causes at a time, 2
	// to 1000. Default: 50.
	Concurrency int

	// PackAge is the age of the oldest pack in seconds from which on it is alarming.
	// Default: that of the engine's Thresholds.
	PackAge int
}

// WorkerPool is a pool of workers: a queue with its dead letters and the function
// that works on it. A polled pool has no function and no mapping.
type WorkerPool struct {
	Queue    *Queue
	Function awslambda.Function
	Mapping  awslambda.EventSourceMapping
}

var poolNameRE = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// Validate says what is wrong with the props, naming the field.
func (p *WorkerPoolProps) Validate() error {
	if !poolNameRE.MatchString(p.Pool) {
		return fmt.Errorf("pool %q: want 1 to 40 letters, digits, _ and -", p.Pool)
	}
	ways := 0
	for _, way := range []bool{p.CodeDir != "", p.Function != nil, p.Polled} {
		if way {
			ways++
		}
	}
	if ways != 1 {
		return errors.New("want one of a code dir, a function and polled")
	}
	if p.Concurrency != 0 {
		if err := validateConcurrency(p.Concurrency); err != nil {
			return fmt.Errorf("concurrency %w", err)
		}
	}
	if p.Timeout < 0 || p.Timeout > 900 || p.Memory < 0 || p.PackAge < 0 {
		return fmt.Errorf("timeout %d, memory %d, pack age %d: want positive numbers, and at most 900 s", p.Timeout, p.Memory, p.PackAge)
	}
	if p.CodeDir != "" {
		if err := validateEnvironment(p.Environment); err != nil {
			return fmt.Errorf("environment: %w", err)
		}
		return validateProgram(p.CodeDir, "")
	}
	if p.Timeout != 0 || p.Memory != 0 || len(p.Environment) > 0 || p.Polled && p.Concurrency != 0 {
		return errors.New("time-out, memory, environment and concurrency are the worker's own affair")
	}
	if p.Function != nil && p.Function.Timeout() == nil {
		return errors.New("the function has no time-out, from which that of its queue follows")
	}
	return nil
}

// AddWorkerPool adds a pool of workers of your own to the engine. The worker gets
// the rights of the stock worker on its own queue: of the tables it may use jobs
// alone, so that nothing that it does can change the state of a run or hold a lock.
// It panics on props that are wrong; ask [WorkerPoolProps.Validate] first.
func (e *Engine) AddWorkerPool(id string, props *WorkerPoolProps) *WorkerPool {
	if err := props.Validate(); err != nil {
		panic(fmt.Errorf("worker pool %s: %w", id, err))
	}
	if err := e.validatePool(props); err != nil {
		panic(fmt.Errorf("worker pool %s: %w", id, err))
	}
	e.reservePool(id, props)
	label := "Jobs" + pascalCase(id)
	age := valueOr(props.PackAge, e.props.Thresholds.PackAge)
	if props.Polled {
		q := e.newQueue(label, topology.JobsQueue(props.Pool), polledSeconds, topology.MaxReceiveJobs)
		e.registerPool(props.Pool, q)
		e.addPoolMonitoring(e.Construct, id, q, nil, age)
		e.outputQueue(q)
		return &WorkerPool{Queue: q}
	}
	function, scope := e.poolFunction(id, label, props)
	e.grantRuntimePermissions(function)
	e.setEnvironment(function)
	q := e.newQueue(label, topology.JobsQueue(props.Pool), int(*function.Timeout().ToSeconds(nil)), topology.MaxReceiveJobs)
	mapping := e.attachFunction(scope, props.Pool, q, function, valueOr(props.Concurrency, defaultConcurrency))
	e.addPoolMonitoring(scope, id, q, function, age)
	e.outputQueue(q)
	return &WorkerPool{Queue: q, Function: function.Function, Mapping: mapping}
}

// polledSeconds stands for the time-out of a function where there is none. Whoever
// receives for a polling worker says how long the message is his.
const polledSeconds = 60

// poolFunction is a pool's function, and the scope for what knows the function.
func (e *Engine) poolFunction(id, label string, props *WorkerPoolProps) (*Function, constructs.Construct) {
	if props.Function == nil {
		function := e.newFunction(functionSpec{
			id: pascalCase(id) + "Worker", name: workerName(props.Pool), description: "Lockstep: runs the packs of the pool " + props.Pool,
			dir: props.CodeDir, timeout: valueOr(props.Timeout, 900), memory: valueOr(props.Memory, defaultMemory),
		}, topology.FunctionWorker)
		for _, key := range slices.Sorted(maps.Keys(props.Environment)) {
			function.setEnv(key, props.Environment[key])
		}
		return function, e.Construct
	}
	allowRecursion(props.Function)
	external := &Function{Function: props.Function, role: topology.FunctionWorker}
	stack := awscdk.Stack_Of(props.Function)
	if *stack.Node().Path() == *awscdk.Stack_Of(e.Construct).Node().Path() {
		return external, e.Construct
	}
	// What knows the function lives beside it: its stack depends on the engine's,
	// and so the engine's must not depend on it.
	return external, constructs.NewConstruct(stack, jsii.String(*e.Node().Id()+label))
}

// validatePool is whether a pool's names and its program are of a kind with this engine.
func (e *Engine) validatePool(props *WorkerPoolProps) error {
	if name := e.physicalName(topology.JobsQueue(props.Pool) + topology.DLQSuffix); name != nil {
		if err := validateQueueName(*name); err != nil {
			return err
		}
	}
	if props.CodeDir == "" {
		return nil
	}
	if name := e.physicalName(workerName(props.Pool)); name != nil {
		if err := validateFunctionName(*name); err != nil {
			return err
		}
	}
	return validateProgram(props.CodeDir, e.props.Architecture)
}

func workerName(pool string) string { return topology.FunctionWorker + "-" + pool }

// reservePool refuses a pool that is there already, and a function that serves another
// one: its environment names one queue.
func (e *Engine) reservePool(id string, props *WorkerPoolProps) {
	if e.Pools[props.Pool] != nil {
		panic(fmt.Errorf("worker pool %s: the pool %s is there already", id, props.Pool))
	}
	if props.Function == nil {
		return
	}
	path := *props.Function.Node().Path()
	if pool, ok := e.poolByFunction[path]; ok {
		panic(fmt.Errorf("worker pool %s: the function %s serves the pool %s already", id, path, pool))
	}
	e.poolByFunction[path] = props.Pool
}

// addStockPool makes the pool of the stock worker.
func (e *Engine) addStockPool() {
	q := e.newQueue("Jobs"+pascalCase(topology.PoolDefault), topology.JobsQueue(topology.PoolDefault),
		topology.FunctionTimeoutSeconds[topology.FunctionWorker], topology.MaxReceiveJobs)
	e.attachFunction(e.Construct, topology.PoolDefault, q, e.Functions[topology.FunctionWorker], e.props.concurrency(topology.FunctionWorker))
}

// attachFunction lets a function work on a pool's queue.
func (e *Engine) attachFunction(scope constructs.Construct, pool string, q *Queue, f *Function, concurrency int) awslambda.EventSourceMapping {
	mapping := e.addMapping(scope, q, f, concurrency)
	f.allowSend("SendPacks", q)
	f.setEnv(topology.EnvQueueJobsURLs, queueURLsJSON(map[string]*Queue{pool: q}))
	e.registerPool(pool, q)
	return mapping
}

// registerPool tells everybody who sends packs where a pool's queue is.
func (e *Engine) registerPool(pool string, q *Queue) {
	e.Pools[pool] = q
	for _, name := range []string{topology.FunctionAPI, topology.FunctionLifecycle} {
		e.Functions[name].allowSend("SendPacksTo"+q.label, q)
		if name == topology.FunctionAPI {
			// It keeps the protocol of workers that poll over HTTP.
			e.Functions[name].allow("LendPacksOf"+q.label, []string{*q.QueueArn()},
				"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes")
			e.Functions[name].allowRedrive(q)
		}
		e.Functions[name].setEnv(topology.EnvQueueJobsURLs, queueURLsJSON(e.Pools))
	}
}

// addPoolMonitoring sets the alarms of a pool that came after the engine's, and shows it.
func (e *Engine) addPoolMonitoring(scope constructs.Construct, id string, q *Queue, f *Function, age int) {
	thresholds, queue := e.props.Thresholds, q.monitored(age)
	local := e.monitoring.inScope(e.Construct)
	local.addQueueAlarms(queue)
	var charted []monitoredFunction
	if f != nil {
		worker := monitoredFunction{name: pascalCase(id) + "Worker", label: "worker of " + id, function: f.Function}
		if scope == e.Construct {
			local.addFunctionAlarms(worker, thresholds.Errors, thresholds.Throttles)
			charted = append(charted, worker)
		} else {
			e.monitoring.inScope(scope).addFunctionAlarms(worker, thresholds.Errors, thresholds.Throttles)
		}
	}
	local.addPoolToDashboard(e.Dashboard, queue, charted)
}

// allowRecursion makes a function of somebody else's a part of the loop: see
// [Engine.newFunction].
func allowRecursion(f awslambda.Function) {
	f.Node().DefaultChild().(awslambda.CfnFunction).SetRecursiveLoop(jsii.String("Allow"))
}

// queueURLsJSON is the JSON object of pools and queue URLs that a function reads. The
// URLs are placeholders until the stack is deployed.
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

// poolPrefix begins the name of a queue that is looked up because a pool is not
// among the engine's own. Pools are free text, and the lookup is how the engine
// learns that nobody serves one. The name is unique to this engine, so that it
// never finds the queue of another.
func (e *Engine) poolPrefix() string { return e.deploymentName() + "-" + topology.QueueJobsPrefix }

func valueOr(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}
