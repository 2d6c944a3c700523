package infra

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/infra/bounds"
	"github.com/lockstep-run/lockstep/infra/kept"
	"github.com/lockstep-run/lockstep/infra/telemetry"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// Function is a Lambda function with a role of its own.
type Function struct {
	awslambda.Function

	role string            // as topology names it: whose rights it has
	vars map[string]string // its environment
}

// program is what a function is made of.
type program struct {
	id, name    string // of the construct; after the prefix of names
	description string
	dir         string // with bootstrap in it
	timeout     int    // seconds
	memory      int    // MB
}

const (
	// envLogLevel is the variable of the configuration's key log.level.
	envLogLevel = "LOCKSTEP_LOG_LEVEL"

	// batchSize is how many messages one invocation gets at most.
	batchSize = 10

	// defaultMemory in MB: a function's share of a processor grows with it, and
	// engine functions spend their time waiting for DynamoDB.
	defaultMemory = 512
)

var (
	memory       = map[string]int{topology.FunctionSweeper: 256}
	descriptions = map[string]string{
		topology.FunctionAPI:       "Lockstep: the HTTP interface",
		topology.FunctionLifecycle: "Lockstep: moves executions",
		topology.FunctionSweeper:   "Lockstep: wakes executions whose alarm has rung",
		topology.FunctionWorker:    "Lockstep: runs the packs of the default pool",
	}
)

// addFunction makes one function of the engine, with what its role allows and
// what its environment has to say.
func (e *Engine) addFunction(name string) {
	p := program{
		id: title(name), name: name, description: descriptions[name], dir: filepath.Join(e.props.FunctionsDir, name),
		timeout: topology.FunctionTimeout[name], memory: defaultMemory,
	}
	if mb, ok := memory[name]; ok {
		p.memory = mb
	}
	f := e.newFunction(p, name)
	e.Functions[name] = f
	e.permit(f)
	e.configure(f)
}

// newFunction makes a function with a role and a log group of its own.
func (e *Engine) newFunction(p program, rightsOf string) *Function {
	logs := awslogs.NewLogGroup(e.Construct, jsii.String(p.id+"Logs"), &awslogs.LogGroupProps{
		LogGroupName: e.name(p.name), Retention: e.props.LogRetention, RemovalPolicy: kept.Logs(e.props.keepsData()),
	})
	role := awsiam.NewRole(e.Construct, jsii.String(p.id+"Role"), &awsiam.RoleProps{
		AssumedBy:   awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		Description: &p.description,
	})
	architecture := awslambda.Architecture_ARM_64()
	if e.props.Architecture == bounds.X86 {
		architecture = awslambda.Architecture_X86_64()
	}
	tracing := awslambda.Tracing_DISABLED
	if e.props.Tracing {
		tracing = awslambda.Tracing_ACTIVE
	}
	allow(role, "WriteLogs", []string{*logs.LogGroupArn()}, "logs:CreateLogStream", "logs:PutLogEvents")
	return &Function{role: rightsOf, Function: awslambda.NewFunction(e.Construct, jsii.String(p.id+"Function"), &awslambda.FunctionProps{
		FunctionName: e.name(p.name),
		Description:  &p.description,
		Runtime:      awslambda.Runtime_PROVIDED_AL2023(),
		Architecture: architecture,
		Handler:      jsii.String("bootstrap"),
		Code:         awslambda.Code_FromAsset(&p.dir, nil),
		MemorySize:   jsii.Number(p.memory),
		Timeout:      awscdk.Duration_Seconds(jsii.Number(p.timeout)),
		Role:         role,
		LogGroup:     logs,
		Tracing:      tracing,
		Layers:       e.props.Telemetry.Every(),

		// JSON keeps the platform's lines readable by the same queries as the
		// engine's. Its lines about every start and end are not worth their price:
		// the metrics say the same.
		LoggingFormat:         awslambda.LoggingFormat_JSON,
		ApplicationLogLevelV2: telemetry.Passes(e.props.LogLevel),
		SystemLogLevelV2:      awslambda.SystemLogLevel_WARN,

		// A run of many steps is one long chain of messages and invocations. Lambda
		// takes such a chain for a runaway loop after about 16 rounds and stops it,
		// unless every function that receives or sends in it says that it means it.
		// The engine has its own bound: the steps of one execution are counted.
		RecursiveLoop: awslambda.RecursiveLoop_ALLOW,
	})}
}

// configure sets a function's environment: where the parts are that its role lets
// it use, and nothing secret.
func (e *Engine) configure(f *Function) {
	for _, role := range topology.Tables {
		if len(topology.RightsOn(f.role, role)) > 0 {
			f.env(topology.TableEnv[role], *e.Tables[role].TableName())
		}
	}
	f.env(topology.EnvQueueLifecycle, *e.Lifecycle.QueueUrl())
	if looksUpPools(f.role) {
		f.env(topology.EnvQueueJobsPrefix, e.poolPrefix())
	}
	f.env(topology.EnvDeployment, e.deployment())
	f.env(envLogLevel, e.props.LogLevel)
	e.props.Telemetry.Tell(f.env)
	if e.props.Config != "" {
		f.env(topology.EnvConfigInline, e.props.Config)
	}
	if f.role == topology.FunctionWorker && len(e.props.AllowHosts) > 0 {
		f.env(topology.EnvWorkerAllowHosts, strings.Join(e.props.AllowHosts, ","))
	}
	if f.role == topology.FunctionAPI && e.props.Tokens != nil && e.props.Tokens.TenantClaim != "" {
		f.env(topology.EnvTenantClaim, e.props.Tokens.TenantClaim)
	}
	if f.role == topology.FunctionAPI && len(e.props.CORSOrigins) > 0 {
		f.env(topology.EnvWebOrigins, strings.Join(e.props.CORSOrigins, ","))
	}
	if e.props.Local {
		f.env(topology.EnvTrustHeaders, "true")
		f.env(topology.EnvFunction, f.role) // an emulator lets everybody do everything
	}
}

// consume lets a queue invoke a function, by a mapping in scope. Its concurrency is
// bounded here, on the mapping: with a reserved concurrency instead, messages would
// be received that cannot be worked on, and would end among the dead letters.
func (e *Engine) consume(scope constructs.Construct, q *Queue, f *Function, concurrency int) awslambda.EventSourceMapping {
	f.allow("Consume"+q.label, []string{*q.QueueArn()},
		"sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage")
	mapping := awslambda.NewEventSourceMapping(scope, jsii.String(q.label+"Mapping"), &awslambda.EventSourceMappingProps{
		Target:                  f.Function,
		EventSourceArn:          q.QueueArn(),
		BatchSize:               jsii.Number(batchSize),
		MaxConcurrency:          jsii.Number(concurrency),
		ReportBatchItemFailures: jsii.Bool(true),
	})
	// Lambda tries the queue when the mapping is made, so the right comes first.
	mapping.Node().AddDependency(f.Role())
	return mapping
}

// env sets a variable. What a function of somebody else's has of its own comes on top
// of what is counted here.
func (f *Function) env(key, value string) {
	f.AddEnvironment(&key, &value, nil)
	if f.vars == nil {
		f.vars = map[string]string{}
	}
	f.vars[key] = value
	if err := bounds.Environment(f.vars); err != nil {
		panic(fmt.Errorf("%s with %s: %w", *f.Node().Id(), key, err))
	}
}

// title makes an id's part of a role's name: executions, jobs-default.
func title(name string) string {
	var b strings.Builder
	for _, part := range strings.Split(name, "-") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}
