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

	"github.com/lockstep-run/lockstep/infra/bounds"
	"github.com/lockstep-run/lockstep/infra/watch"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// WorkerPoolProps is everything that may be chosen about a pool of workers of your
// own. Its worker is either a function that is made of CodeDir, or Function, or
// Polled: processes anywhere that ask the HTTP interface for work.
type WorkerPoolProps struct {
	// Pool is the name by which blocks ask for the pool: letters, digits, _ and -.
	Pool string

	// CodeDir is a folder with bootstrap, a program made with the worker SDK
	// (shared/boot/pool), built for linux and the engine's Architecture. It becomes
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

var poolForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// Validate says what is wrong with the props, naming the field.
func (p *WorkerPoolProps) Validate() error {
	if !poolForm.MatchString(p.Pool) {
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
		if err := bounds.Concurrency(p.Concurrency); err != nil {
			return fmt.Errorf("concurrency %w", err)
		}
	}
	if p.Timeout < 0 || p.Timeout > 900 || p.Memory < 0 || p.PackAge < 0 {
		return fmt.Errorf("timeout %d, memory %d, pack age %d: want positive numbers, and at most 900 s", p.Timeout, p.Memory, p.PackAge)
	}
	if p.CodeDir != "" {
		if err := bounds.Environment(p.Environment); err != nil {
			return fmt.Errorf("environment: %w", err)
		}
		return bounds.Program(p.CodeDir, "")
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
	if err := e.fits(props); err != nil {
		panic(fmt.Errorf("worker pool %s: %w", id, err))
	}
	e.claim(id, props)
	label := "Jobs" + title(id)
	age := orElse(props.PackAge, e.props.Thresholds.PackAge)
	if props.Polled {
		q := e.newQueue(label, topology.JobsQueue(props.Pool), polledSeconds, topology.MaxReceiveJobs)
		e.announce(props.Pool, q)
		e.watchPool(e.Construct, id, q, nil, age)
		e.outputQueue(q)
		return &WorkerPool{Queue: q}
	}
	function, scope := e.workerOf(id, label, props)
	e.permit(function)
	e.configure(function)
	q := e.newQueue(label, topology.JobsQueue(props.Pool), int(*function.Timeout().ToSeconds(nil)), topology.MaxReceiveJobs)
	mapping := e.serve(scope, props.Pool, q, function, orElse(props.Concurrency, defaultConcurrency))
	e.watchPool(scope, id, q, function, age)
	e.outputQueue(q)
	return &WorkerPool{Queue: q, Function: function.Function, Mapping: mapping}
}

// polledSeconds stands for the time-out of a function where there is none. Whoever
// receives for a polling worker says how long the message is his.
const polledSeconds = 60

// workerOf is a pool's function, and the scope for what knows the function.
func (e *Engine) workerOf(id, label string, props *WorkerPoolProps) (*Function, constructs.Construct) {
	if props.Function == nil {
		made := e.newFunction(program{
			id: title(id) + "Worker", name: workerName(props.Pool), description: "Lockstep: runs the packs of the pool " + props.Pool,
			dir: props.CodeDir, timeout: orElse(props.Timeout, 900), memory: orElse(props.Memory, defaultMemory),
		}, topology.FunctionWorker)
		for _, key := range slices.Sorted(maps.Keys(props.Environment)) {
			made.env(key, props.Environment[key])
		}
		return made, e.Construct
	}
	allowLoops(props.Function)
	theirs := &Function{Function: props.Function, role: topology.FunctionWorker}
	home := awscdk.Stack_Of(props.Function)
	if *home.Node().Path() == *awscdk.Stack_Of(e.Construct).Node().Path() {
		return theirs, e.Construct
	}
	// What knows the function lives beside it: its stack depends on the engine's,
	// and so the engine's must not depend on it.
	return theirs, constructs.NewConstruct(home, jsii.String(*e.Node().Id()+label))
}

// fits is whether a pool's names and its program are of a kind with this engine.
func (e *Engine) fits(props *WorkerPoolProps) error {
	if name := e.name(topology.JobsQueue(props.Pool) + topology.DLQSuffix); name != nil {
		if err := bounds.QueueName(*name); err != nil {
			return err
		}
	}
	if props.CodeDir == "" {
		return nil
	}
	if name := e.name(workerName(props.Pool)); name != nil {
		if err := bounds.FunctionName(*name); err != nil {
			return err
		}
	}
	return bounds.Program(props.CodeDir, e.props.Architecture)
}

func workerName(pool string) string { return topology.FunctionWorker + "-" + pool }

// claim refuses a pool that is there already, and a function that serves another
// one: its environment names one queue.
func (e *Engine) claim(id string, props *WorkerPoolProps) {
	if e.Pools[props.Pool] != nil {
		panic(fmt.Errorf("worker pool %s: the pool %s is there already", id, props.Pool))
	}
	if props.Function == nil {
		return
	}
	path := *props.Function.Node().Path()
	if pool, ok := e.serving[path]; ok {
		panic(fmt.Errorf("worker pool %s: the function %s serves the pool %s already", id, path, pool))
	}
	e.serving[path] = props.Pool
}

// addStockPool makes the pool of the stock worker.
func (e *Engine) addStockPool() {
	q := e.newQueue("Jobs"+title(topology.PoolDefault), topology.JobsQueue(topology.PoolDefault),
		topology.FunctionTimeout[topology.FunctionWorker], topology.MaxReceiveJobs)
	e.serve(e.Construct, topology.PoolDefault, q, e.Functions[topology.FunctionWorker], e.props.concurrency(topology.FunctionWorker))
}

// serve lets a function work on a pool's queue.
func (e *Engine) serve(scope constructs.Construct, pool string, q *Queue, f *Function, concurrency int) awslambda.EventSourceMapping {
	mapping := e.consume(scope, q, f, concurrency)
	f.send("SendPacks", q)
	f.env(topology.EnvQueueJobsURLs, urlsOf(map[string]*Queue{pool: q}))
	e.announce(pool, q)
	return mapping
}

// announce tells everybody who sends packs where a pool's queue is.
func (e *Engine) announce(pool string, q *Queue) {
	e.Pools[pool] = q
	for _, name := range []string{topology.FunctionAPI, topology.FunctionLifecycle} {
		e.Functions[name].send("SendPacksTo"+q.label, q)
		if name == topology.FunctionAPI {
			// It keeps the protocol of workers that poll over HTTP.
			e.Functions[name].allow("LendPacksOf"+q.label, []string{*q.QueueArn()},
				"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes")
			e.Functions[name].redrive(q)
		}
		e.Functions[name].env(topology.EnvQueueJobsURLs, urlsOf(e.Pools))
	}
}

// watchPool sets the alarms of a pool that came after the engine's, and shows it.
func (e *Engine) watchPool(scope constructs.Construct, id string, q *Queue, f *Function, age int) {
	limits, shown := e.props.Thresholds, q.watched(age)
	here := e.watch.In(e.Construct)
	here.Queue(shown)
	var charted []watch.Function
	if f != nil {
		worker := watch.Function{Name: title(id) + "Worker", Label: "worker of " + id, Function: f.Function}
		if scope == e.Construct {
			here.Function(worker, limits.Errors, limits.Throttles)
			charted = append(charted, worker)
		} else {
			e.watch.In(scope).Function(worker, limits.Errors, limits.Throttles)
		}
	}
	here.Pool(e.Dashboard, shown, charted)
}

// allowLoops makes a function of somebody else's a part of the loop: see
// [Engine.newFunction].
func allowLoops(f awslambda.Function) {
	f.Node().DefaultChild().(awslambda.CfnFunction).SetRecursiveLoop(jsii.String("Allow"))
}

// urlsOf is the JSON object of pools and queue URLs that a function reads. The
// URLs are placeholders until the stack is deployed.
func urlsOf(pools map[string]*Queue) string {
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
func (e *Engine) poolPrefix() string { return e.deployment() + "-" + topology.QueueJobsPrefix }

func orElse(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}
