package infra

import (
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/infra/front"
	"github.com/lockstep-run/lockstep/infra/kept"
	"github.com/lockstep-run/lockstep/infra/watch"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// Engine is a whole Lockstep as a construct.
type Engine struct {
	constructs.Construct

	// URL is where the HTTP interface is.
	URL *string
	// API is the id of the HTTP API, to grant execute-api:Invoke on; nil for a local
	// engine.
	API *string
	// Tables by role, as topology names them.
	Tables map[string]awsdynamodb.Table
	// Lifecycle is the queue of looks, Pools the queue of each worker pool.
	Lifecycle *Queue
	Pools     map[string]*Queue
	// Sweeps holds the dead letters of the schedule.
	Sweeps awssqs.Queue
	// Functions by role.
	Functions map[string]*Function
	Dashboard awscloudwatch.Dashboard

	props EngineProps
	watch *watch.Watch

	serving map[string]string // pools by the path of a function of somebody else's
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
		Pools:     map[string]*Queue{},
		Functions: map[string]*Function{},
		props:     props.filled(),
		serving:   map[string]string{},
	}
	e.watch = &watch.Watch{
		Scope: e.Construct, Topic: e.props.AlarmTopic, Runbooks: e.props.RunbookURL,
		Prefix: e.props.NamePrefix, Deployment: e.deployment(),
	}
	e.Tables = kept.Tables{
		Scope: e.Construct, Name: e.name, Outlive: e.props.keepsData(), Key: e.props.CustomerKey,
		Read: e.props.Capacity.Read, Write: e.props.Capacity.Write, Plain: e.props.Local, // as emulators are spoken to
	}.Make()
	e.Lifecycle = e.newQueue("Lifecycle", topology.QueueLifecycle,
		topology.FunctionTimeout[topology.FunctionLifecycle], topology.MaxReceiveLifecycle)
	for _, name := range topology.Functions {
		e.addFunction(name)
	}
	e.addStockPool()
	e.consume(e.Construct, e.Lifecycle, e.Functions[topology.FunctionLifecycle], e.props.concurrency(topology.FunctionLifecycle))
	e.Sweeps = e.addSchedule()
	e.addFront()
	e.addWatch()
	e.addOutputs()
	for key, value := range map[string]string{"app": "lockstep", "stage": e.props.Stage, "version": e.props.Version} {
		awscdk.Tags_Of(e.Construct).Add(jsii.String(key), jsii.String(value), nil)
	}
	return e
}

// addFront makes the HTTP interface and says where it is.
func (e *Engine) addFront() {
	f := front.Front{
		Scope: e.Construct, Function: e.Functions[topology.FunctionAPI].Function, Name: *awscdk.Stack_Of(e.Construct).StackName() + "-api",
		Logs: e.accessLogs(), Retention: e.props.LogRetention, Removal: kept.Logs(e.props.keepsData()),
		Page: e.props.Page, Rate: e.props.RequestsPerSecond, Burst: e.props.Burst, Origins: e.props.CORSOrigins,
	}
	if name := e.name("api"); name != nil {
		f.Name = *name
	}
	if tokens := e.props.Tokens; tokens != nil {
		f.Issuer, f.Audience, f.Scopes = tokens.Issuer, tokens.Audience, tokens.Scopes
	}
	if e.props.Local {
		e.URL = f.URL()
	} else {
		e.URL, e.API = f.API()
	}
}

// accessLogs is the name of the access log's group. Under this prefix all groups are one
// to the account's policy on who may deliver logs, to which the gateway adds any other
// by its name until the policy is full. The last part is the stack's own id, so that a
// group which has outlived a stack is in nobody's way.
func (e *Engine) accessLogs() string {
	stack := awscdk.Fn_Select(jsii.Number(2), awscdk.Fn_Split(jsii.String("/"), awscdk.Stack_Of(e.Construct).StackId(), nil))
	return "/aws/vendedlogs/lockstep/" + e.deployment() + "/api-access/" + *stack
}

// addWatch sets the engine's alarms and makes its dashboard.
func (e *Engine) addWatch() {
	limits, shown := e.props.Thresholds, watch.Shown{Sweeps: e.Sweeps, Tables: e.Tables, API: e.API}
	e.watch.DeadLetters("Schedules", e.Sweeps)
	e.watch.Sweeper(e.Functions[topology.FunctionSweeper])
	e.watch.Runs(limits.Stuck, limits.LockAge)
	if e.API != nil {
		e.watch.API(e.API, limits.Errors)
	}
	for _, name := range topology.Functions {
		f := watch.Function{Name: title(name), Label: name, Function: e.Functions[name]}
		e.watch.Function(f, limits.Errors, limits.Throttles)
		shown.Functions = append(shown.Functions, f)
	}
	shown.Queues = append(shown.Queues, e.Lifecycle.watched(limits.LookAge))
	for _, pool := range slices.Sorted(maps.Keys(e.Pools)) {
		shown.Queues = append(shown.Queues, e.Pools[pool].watched(limits.PackAge))
	}
	for _, q := range shown.Queues {
		e.watch.Queue(q)
	}
	e.Dashboard = e.watch.Board(shown)
}

func (q *Queue) watched(age int) watch.Queue {
	return watch.Queue{Name: q.label, Queue: q.Queue, DLQ: q.DLQ, Age: age}
}

// addOutputs says where the parts are.
func (e *Engine) addOutputs() {
	e.output("ApiUrl", "Where the HTTP interface is", e.URL)
	e.output("DashboardName", "Name of the CloudWatch dashboard", e.Dashboard.DashboardName())
	for _, role := range topology.Tables {
		e.output("Table"+title(role)+"Name", "Name of the table "+role, e.Tables[role].TableName())
	}
	e.outputQueue(e.Lifecycle)
	e.outputQueue(e.Pools[topology.PoolDefault])
	e.output("SchedulesDlqUrl", "Dead letters of the schedule", e.Sweeps.QueueUrl())
}

// deployment is a name that no other engine has in the account and region. The
// engine's metrics bear it, and it begins the names of queues that are looked up.
func (e *Engine) deployment() string {
	if e.props.NamePrefix != "" {
		return e.props.NamePrefix
	}
	return *awscdk.Names_UniqueResourceName(e.Construct, &awscdk.UniqueResourceNameOptions{
		MaxLength: jsii.Number(40), Separator: jsii.String("-"),
	})
}

// name is the physical name of a part, nil for CloudFormation to make one.
func (e *Engine) name(part string) *string {
	if e.props.NamePrefix == "" {
		return nil
	}
	return jsii.String(e.props.NamePrefix + "-" + part)
}

func (e *Engine) output(id, description string, value *string) {
	awscdk.NewCfnOutput(e.Construct, &id, &awscdk.CfnOutputProps{Value: value, Description: &description})
}

func (e *Engine) outputQueue(q *Queue) {
	e.output(q.label+"Url", "The queue "+q.label, q.QueueUrl())
	e.output(q.label+"DlqUrl", "Dead letters of the queue "+q.label, q.DLQ.QueueUrl())
}
