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

	"github.com/lockstep-run/lockstep/shared/topology"
)

// Engine is a whole Lockstep as a construct.
type Engine struct {
	constructs.Construct

	// URL is where the HTTP interface is.
	URL *string
	// APIID is the id of the HTTP APIID, to grant execute-api:Invoke on; nil for a local
	// engine.
	APIID *string
	// Tables by role, as topology names them.
	Tables map[string]awsdynamodb.Table
	// LifecycleQueue is the queue of looks, Pools the queue of each worker pool.
	LifecycleQueue *Queue
	Pools          map[string]*Queue
	// ScheduleDLQ holds the dead letters of the schedule.
	ScheduleDLQ awssqs.Queue
	// Functions by role.
	Functions map[string]*Function
	Dashboard awscloudwatch.Dashboard

	props      EngineProps
	monitoring *monitoring

	poolByFunction map[string]string // pools by the path of a function of somebody else's
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
		Construct:      constructs.NewConstruct(scope, &id),
		Pools:          map[string]*Queue{},
		Functions:      map[string]*Function{},
		props:          props.withDefaults(),
		poolByFunction: map[string]string{},
	}
	e.monitoring = &monitoring{
		scope: e.Construct, topic: e.props.AlarmTopic, runbookURL: e.props.RunbookURL,
		namePrefix: e.props.NamePrefix, deploymentName: e.deploymentName(),
	}
	e.Tables = tableOptions{
		scope: e.Construct, physicalName: e.physicalName, retain: e.props.keepsData(), key: e.props.CustomerKey,
		maxReadUnits: e.props.Capacity.Read, maxWriteUnits: e.props.Capacity.Write, allowHTTP: e.props.Local, // as emulators are spoken to
	}.newTables()
	e.LifecycleQueue = e.newQueue("Lifecycle", topology.QueueLifecycle,
		topology.FunctionTimeoutSeconds[topology.FunctionLifecycle], topology.MaxReceiveLifecycle)
	for _, name := range topology.Functions {
		e.addFunction(name)
	}
	e.addStockPool()
	e.addMapping(e.Construct, e.LifecycleQueue, e.Functions[topology.FunctionLifecycle], e.props.concurrency(topology.FunctionLifecycle))
	e.ScheduleDLQ = e.addSchedule()
	e.addHTTPAPI()
	e.addMonitoring()
	e.addOutputs()
	for key, value := range map[string]string{"app": "lockstep", "stage": e.props.Stage, "version": e.props.Version} {
		awscdk.Tags_Of(e.Construct).Add(jsii.String(key), jsii.String(value), nil)
	}
	return e
}

// addHTTPAPI makes the HTTP interface and says where it is.
func (e *Engine) addHTTPAPI() {
	f := httpAPI{
		scope: e.Construct, function: e.Functions[topology.FunctionAPI].Function, name: *awscdk.Stack_Of(e.Construct).StackName() + "-api",
		logGroupName: e.accessLogGroupName(), retention: e.props.LogRetention, removalPolicy: logRemovalPolicy(e.props.keepsData()),
		publicPage: e.props.Page, rateLimit: e.props.RequestsPerSecond, burstLimit: e.props.Burst, corsOrigins: e.props.CORSOrigins,
	}
	if name := e.physicalName("api"); name != nil {
		f.name = *name
	}
	if tokens := e.props.JWTAuth; tokens != nil {
		f.issuer, f.audience, f.scopes = tokens.Issuer, tokens.Audience, tokens.Scopes
	}
	if e.props.Local {
		e.URL = f.addFunctionURL()
	} else {
		e.URL, e.APIID = f.addAPI()
	}
}

// accessLogGroupName is the name of the access log's group. Under this prefix all groups are one
// to the account's policy on who may deliver logs, to which the gateway adds any other
// by its name until the policy is full. The last part is the stack's own id, so that a
// group which has outlived a stack is in nobody's way.
func (e *Engine) accessLogGroupName() string {
	stack := awscdk.Fn_Select(jsii.Number(2), awscdk.Fn_Split(jsii.String("/"), awscdk.Stack_Of(e.Construct).StackId(), nil))
	return "/aws/vendedlogs/lockstep/" + e.deploymentName() + "/api-access/" + *stack
}

// addMonitoring sets the engine's alarms and makes its dashboard.
func (e *Engine) addMonitoring() {
	thresholds, content := e.props.Thresholds, dashboardContent{scheduleDLQ: e.ScheduleDLQ, tables: e.Tables, apiID: e.APIID}
	e.monitoring.addDLQAlarm("Schedules", e.ScheduleDLQ)
	e.monitoring.addSweeperAlarm(e.Functions[topology.FunctionSweeper])
	e.monitoring.addExecutionAlarms(thresholds.StuckExecutions, thresholds.LockAge)
	if e.APIID != nil {
		e.monitoring.addAPIAlarm(e.APIID, thresholds.Errors)
	}
	for _, name := range topology.Functions {
		f := monitoredFunction{name: pascalCase(name), label: name, function: e.Functions[name]}
		e.monitoring.addFunctionAlarms(f, thresholds.Errors, thresholds.Throttles)
		content.functions = append(content.functions, f)
	}
	content.queues = append(content.queues, e.LifecycleQueue.monitored(thresholds.WakeupAge))
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

// addOutputs says where the parts are.
func (e *Engine) addOutputs() {
	e.output("ApiUrl", "Where the HTTP interface is", e.URL)
	e.output("DashboardName", "Name of the CloudWatch dashboard", e.Dashboard.DashboardName())
	for _, role := range topology.Tables {
		e.output("Table"+pascalCase(role)+"Name", "Name of the table "+role, e.Tables[role].TableName())
	}
	e.outputQueue(e.LifecycleQueue)
	e.outputQueue(e.Pools[topology.PoolDefault])
	e.output("SchedulesDlqUrl", "Dead letters of the schedule", e.ScheduleDLQ.QueueUrl())
}

// deploymentName is a name that no other engine has in the account and region. The
// engine's metrics bear it, and it begins the names of queues that are looked up.
func (e *Engine) deploymentName() string {
	if e.props.NamePrefix != "" {
		return e.props.NamePrefix
	}
	return *awscdk.Names_UniqueResourceName(e.Construct, &awscdk.UniqueResourceNameOptions{
		MaxLength: jsii.Number(40), Separator: jsii.String("-"),
	})
}

// physicalName is the physical name of a part, nil for CloudFormation to make one.
func (e *Engine) physicalName(part string) *string {
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
