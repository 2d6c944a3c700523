package infra

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// Engine is a whole Lockstep as a construct.
type Engine struct {
	constructs.Construct

	// URL is where the HTTP interface is.
	URL *string
	// Tables by role, as topology names them.
	Tables map[string]awsdynamodb.Table
	// Lifecycle is the queue of looks, Pools the queue of each worker pool.
	Lifecycle *Queue
	Pools     map[string]*Queue
	// Functions by role.
	Functions map[string]*Function

	props EngineProps
}

// NewEngine puts an engine into scope. Nil props are all defaults. As constructs
// do, it panics on props that are wrong; ask [EngineProps.Validate] first.
func NewEngine(scope constructs.Construct, id string, props *EngineProps) *Engine {
	if props == nil {
		props = &EngineProps{}
	}
	if err := props.Validate(); err != nil {
		panic(fmt.Errorf("engine %s: %w", id, err))
	}
	e := &Engine{
		Construct: constructs.NewConstruct(scope, &id),
		Tables:    map[string]awsdynamodb.Table{},
		Pools:     map[string]*Queue{},
		Functions: map[string]*Function{},
		props:     props.filled(),
	}
	e.addTables()
	e.Lifecycle = e.newQueue("Lifecycle", topology.FunctionLifecycle, topology.MaxReceiveLifecycle)
	for _, name := range topology.Functions {
		e.addFunction(name)
	}
	e.addPool(topology.PoolDefault, e.Functions[topology.FunctionWorker])
	e.consume(e.Lifecycle, e.Functions[topology.FunctionLifecycle])
	sweeps := e.addSchedule()
	api := e.addAPI()
	alarms := e.addAlarms(api, sweeps)
	board := e.addDashboard(api, sweeps, alarms)

	e.output("ApiUrl", "Where the HTTP interface is", e.URL)
	e.output("DashboardName", "Name of the CloudWatch dashboard", board.DashboardName())
	for _, role := range topology.Tables {
		e.output("Table"+title(role)+"Name", "Name of the table "+role, e.Tables[role].TableName())
	}
	e.outputQueue("Lifecycle", e.Lifecycle)
	e.output("SchedulesDlqUrl", "Dead letters of the schedule", sweeps.QueueUrl())

	for key, value := range map[string]string{"app": "lockstep", "stage": e.props.Stage, "version": e.props.Version} {
		awscdk.Tags_Of(e.Construct).Add(jsii.String(key), jsii.String(value), nil)
	}
	return e
}

// addPool makes the queue of a worker pool, lets function work on it, and tells
// everybody who sends packs where it is.
func (e *Engine) addPool(pool string, function *Function) {
	q := e.newQueue("Jobs"+title(pool), function.role, topology.MaxReceiveJobs)
	e.Pools[pool] = q
	e.consume(q, function)
	function.send("SendPacks", q)
	function.env(topology.EnvQueueJobsURLs, urlsOf(map[string]*Queue{pool: q}))
	for _, name := range []string{topology.FunctionAPI, topology.FunctionLifecycle} {
		e.Functions[name].send("SendPacks"+title(pool), q)
		if name == topology.FunctionAPI {
			// It keeps the protocol of workers that poll over HTTP.
			e.Functions[name].allow("LendPacks"+title(pool), []string{*q.QueueArn()},
				"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes")
		}
		e.Functions[name].env(topology.EnvQueueJobsURLs, urlsOf(e.Pools))
	}
	e.outputQueue("Jobs"+title(pool), q)
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
func (e *Engine) poolPrefix() string {
	name := awscdk.Names_UniqueResourceName(e.Construct, &awscdk.UniqueResourceNameOptions{
		MaxLength: jsii.Number(40), Separator: jsii.String("-"),
	})
	return *name + "-" + topology.QueueJobsPrefix
}

func (e *Engine) output(id, description string, value *string) {
	awscdk.NewCfnOutput(e.Construct, &id, &awscdk.CfnOutputProps{Value: value, Description: &description})
}

func (e *Engine) outputQueue(name string, q *Queue) {
	e.output(name+"Url", "The queue "+q.label, q.QueueUrl())
	e.output(name+"DlqUrl", "Dead letters of the queue "+q.label, q.DLQ.QueueUrl())
}
