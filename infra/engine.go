// Package infra deploys Lockstep. It is a CDK construct, [NewEngine], that creates the
// tables, queues, functions, schedule and HTTP interface in any stack, and
// [Engine.AddWorkerPool], which adds a worker pool of your own.
//
// Every name on which the deployed code depends (roles of tables, keys, indexes,
// timeouts, environment variables) comes from shared/topology, the one package of the
// product that this one may import. CloudFormation generates the physical names, so
// that several deployments fit into one account and no table or queue is ever replaced
// because of its name. The functions get the names from their environment.
//
//   - props.go: [EngineProps], its defaults and checks; validate.go checks limits of AWS.
//   - engine.go: [NewEngine], which creates the parts in order, and the outputs.
//   - tables.go, queues.go, httpapi.go, schedule.go: the resources.
//   - functions.go: a function, its role, its log group, its queue mapping.
//   - permissions.go: the permissions of the roles; those on tables are rows of topology.
//   - pools.go: worker pools, the stock one and those of users.
//   - observer.go, events_in.go: what goes out to those who observe, and what comes in from EventBridge.
//   - alarms.go, dashboard.go: monitoring.
//
// cmd/infra is the app around one engine; examples/cdk is an app of a user.
//
// Some parts are plain CloudFormation resources (Cfn...) instead of CDK's own
// abstractions, because the abstraction would have granted more than is needed, or its
// package would have doubled the compile time of this one.
//
// The tests check the synthesised JSON in plain Go. A golden summary in testdata shows
// a change of types, counts or permissions in review (go test ./infra -update).
package infra

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// Engine is a complete Lockstep as a construct.
type Engine struct {
	constructs.Construct

	// URL of the HTTP interface.
	URL *string
	// APIID is the id of the HTTP API, to grant execute-api:Invoke on; nil for a local
	// engine.
	APIID *string
	// Tables by role, as topology names them.
	Tables map[string]awsdynamodb.ITable
	// LifecycleQueue is the queue of wake-ups, Pools the queue of each worker pool.
	LifecycleQueue *Queue
	Pools          map[string]*Queue
	// EventsQueue is the queue of announcements, HooksOutQueue that of events for their receivers.
	EventsQueue   *Queue
	HooksOutQueue *Queue
	// HooksInQueue is the queue of events for triggers; nil without EventSources.
	HooksInQueue *Queue
	// ScheduleDLQ holds the dead letters of the schedule.
	ScheduleDLQ awssqs.Queue
	// Functions by role.
	Functions map[string]*Function
	Dashboard awscloudwatch.Dashboard

	props      EngineProps
	monitoring *monitoring

	regions        []string          // of added pools
	poolByFunction map[string]string // pools by the path of a user's function
}

// NewEngine creates an engine in scope. Nil props are all defaults. Like every
// construct it panics on invalid props; call [EngineProps.Validate] first.
func NewEngine(scope constructs.Construct, id string, props *EngineProps) *Engine {
	if props == nil {
		props = &EngineProps{}
	}
	if err := props.Validate(); err != nil {
		panic(fmt.Errorf("engine %s: %w", id, err))
	}
	e := &Engine{
		Construct:      constructs.NewConstruct(scope, &id),
		Pools:          map[string]*Queue{},
		Functions:      map[string]*Function{},
		props:          props.withDefaults(),
		poolByFunction: map[string]string{},
	}
	e.monitoring = &monitoring{
		scope: e.Construct, topics: map[severity]awssns.ITopic{critical: e.props.AlarmTopic, warning: e.props.WarningTopic}, runbookURL: e.props.RunbookURL,
		namePrefix: e.props.NamePrefix, deploymentName: e.deploymentName(),
	}
	e.Tables = e.newTables()
	e.LifecycleQueue = e.newQueue("Lifecycle", topology.QueueLifecycle,
		topology.FunctionTimeoutSeconds[topology.FunctionLifecycle], topology.MaxReceiveLifecycle)
	e.EventsQueue = e.newQueue("Events", topology.QueueEvents, topology.FunctionTimeoutSeconds[topology.FunctionObserver], topology.MaxReceiveEvents)
	e.HooksOutQueue = e.newQueue("HooksOut", topology.QueueHooksOut, topology.FunctionTimeoutSeconds[topology.FunctionObserver], topology.MaxReceiveHooksOut)
	for _, name := range topology.Functions {
		e.addFunction(name)
	}
	e.addStockPool()
	e.addMapping(e.Construct, e.LifecycleQueue, e.Functions[topology.FunctionLifecycle], e.props.concurrency(topology.FunctionLifecycle))
	e.addObserver()
	e.addEventSources()
	e.ScheduleDLQ = e.addSchedule()
	e.addHTTPAPI()
	e.addMonitoring()
	e.addOutputs()
	for key, value := range map[string]string{"app": "lockstep", "stage": e.props.Stage} {
		awscdk.Tags_Of(e.Construct).Add(jsii.String(key), jsii.String(value), nil)
	}
	// Of all resources only functions change with a release.
	awscdk.Tags_Of(e.Construct).Add(jsii.String("version"), &e.props.Version, &awscdk.TagProps{IncludeResourceTypes: jsii.Strings("AWS::Lambda::Function")})
	e.applyBoundary()
	return e
}

// addMonitoring creates the engine's alarms and its dashboard.
func (e *Engine) addMonitoring() {
	thresholds, content := e.props.Thresholds, dashboardContent{scheduleDLQ: e.ScheduleDLQ, tables: e.Tables, apiID: e.APIID}
	e.monitoring.addDLQAlarm("Schedules", e.ScheduleDLQ)
	e.monitoring.addSweeperAlarm(e.Functions[topology.FunctionSweeper])
	e.monitoring.addExecutionAlarms(thresholds.StuckExecutions, thresholds.LockAge)
	e.monitoring.addFailureAlarms(thresholds)
	for _, role := range topology.Tables {
		e.monitoring.addTableAlarm(role, e.Tables[role], thresholds.TableThrottles)
	}
	if e.APIID != nil {
		e.monitoring.addAPIAlarm(e.APIID, thresholds.Errors)
	}
	for _, name := range topology.Functions {
		f := monitoredFunction{name: pascalCase(name), label: name, function: e.Functions[name]}
		e.monitoring.addFunctionAlarms(f, thresholds.Errors, thresholds.Throttles)
		content.functions = append(content.functions, f)
	}
	content.queues = e.ownQueues()
	for _, pool := range slices.Sorted(maps.Keys(e.Pools)) {
		content.queues = append(content.queues, e.Pools[pool].monitored(thresholds.PackAge))
	}
	for _, q := range content.queues {
		e.monitoring.addQueueAlarms(q)
	}
	e.Dashboard = e.monitoring.newDashboard(content)
}

func (q *Queue) monitored(age int) monitoredQueue {
	return monitoredQueue{name: q.label, queue: q.Queue, dlq: q.DLQ, maxAge: age}
}

// addOutputs adds the stack's outputs.
func (e *Engine) addOutputs() {
	e.output("ApiUrl", "Where the HTTP interface is", e.URL)
	if e.APIID != nil {
		e.output("ApiId", "Id of the HTTP API, to allow execute-api:Invoke on", e.APIID)
	}
	for _, name := range topology.Functions {
		e.output("Function"+pascalCase(name)+"Name", "Name of the function "+name, e.Functions[name].FunctionName())
	}
	e.output("DashboardName", "Name of the CloudWatch dashboard", e.Dashboard.DashboardName())
	for _, role := range topology.Tables {
		e.output("Table"+pascalCase(role)+"Name", "Name of the table "+role, e.Tables[role].TableName())
	}
	e.outputQueue(e.LifecycleQueue)
	e.outputQueue(e.EventsQueue)
	e.outputQueue(e.HooksOutQueue)
	if e.HooksInQueue != nil {
		e.outputQueue(e.HooksInQueue)
	}
	e.outputQueue(e.Pools[topology.PoolDefault])
	e.output("SchedulesDlqUrl", "Dead letters of the schedule", e.ScheduleDLQ.QueueUrl())
}

// deploymentName returns a name that no other engine in the account and region has. It is a
// dimension of the engine's metrics, and the prefix of queue names that the engine looks up.
func (e *Engine) deploymentName() string {
	if e.props.NamePrefix != "" {
		return e.props.NamePrefix
	}
	return *awscdk.Names_UniqueResourceName(e.Construct, &awscdk.UniqueResourceNameOptions{
		MaxLength: jsii.Number(40), Separator: jsii.String("-"),
	})
}

// physicalName returns the physical name of a resource; nil to let CloudFormation generate one.
func (e *Engine) physicalName(name string) *string {
	if e.props.NamePrefix == "" {
		return nil
	}
	return jsii.String(e.props.NamePrefix + "-" + name)
}

func (e *Engine) output(id, description string, value *string) {
	awscdk.NewCfnOutput(e.Construct, &id, &awscdk.CfnOutputProps{Value: value, Description: &description})
}

func (e *Engine) outputQueue(q *Queue) {
	e.output(q.label+"Url", "The queue "+q.label, q.QueueUrl())
	e.output(q.label+"DlqUrl", "Dead letters of the queue "+q.label, q.DLQ.QueueUrl())
}

// jsiiEnv silences banners that do not concern the result. The first variable takes major versions
// of Node; the others take any value. The warning about a Node version that is known to be broken
// stays.
var jsiiEnv = map[string]string{
	"JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "18,20,22",
	"JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION":  "true",
	"JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION":    "true",
}

// SilenceJSII keeps the JavaScript kernel behind CDK from printing banners about the version of
// Node. Call it before anything from CDK: initialising CDK's packages starts the kernel with a copy
// of the environment, and SilenceJSII closes it so that it starts again. The kernel may still print
// a line about waitid when it ends, which is harmless. Only the first call has an effect.
func SilenceJSII() { silenceOnce() }

var silenceOnce = sync.OnceFunc(func() {
	for name, value := range jsiiEnv {
		if os.Getenv(name) == "" {
			_ = os.Setenv(name, value) // at worst a banner is printed
		}
	}
	jsii.Close()
})
