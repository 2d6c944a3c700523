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

	"github.com/lockstep-run/lockstep/shared/topology"
)

// Function is a Lambda function with a role of its own.
type Function struct {
	awslambda.Function

	role        string            // as topology names it: whose rights it has
	environment map[string]string // its environment
}

// functionSpec is what a function is made of.
type functionSpec struct {
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
	functionMemoryMB     = map[string]int{topology.FunctionSweeper: 256}
	functionDescriptions = map[string]string{
		topology.FunctionAPI:       "Lockstep: the HTTP interface",
		topology.FunctionLifecycle: "Lockstep: moves executions",
		topology.FunctionSweeper:   "Lockstep: wakes executions whose alarm has rung",
		topology.FunctionWorker:    "Lockstep: runs the packs of the default pool",
	}
)

// addFunction makes one function of the engine, with what its role allows and
// what its environment has to say.
func (e *Engine) addFunction(name string) {
	p := functionSpec{
		id: pascalCase(name), name: name, description: functionDescriptions[name], dir: filepath.Join(e.props.FunctionsDir, name),
		timeout: topology.FunctionTimeoutSeconds[name], memory: defaultMemory,
	}
	if mb, ok := functionMemoryMB[name]; ok {
		p.memory = mb
	}
	f := e.newFunction(p, name)
	e.Functions[name] = f
	e.grantRuntimePermissions(f)
	e.setEnvironment(f)
}

// newFunction makes a function with a role and a log group of its own.
func (e *Engine) newFunction(p functionSpec, rightsOf string) *Function {
	logs := awslogs.NewLogGroup(e.Construct, jsii.String(p.id+"Logs"), &awslogs.LogGroupProps{
		LogGroupName: e.physicalName(p.name), Retention: e.props.LogRetention, RemovalPolicy: logRemovalPolicy(e.props.keepsData()),
	})
	role := awsiam.NewRole(e.Construct, jsii.String(p.id+"Role"), &awsiam.RoleProps{
		AssumedBy:   awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		Description: &p.description,
	})
	architecture := awslambda.Architecture_ARM_64()
	if e.props.Architecture == archX86 {
		architecture = awslambda.Architecture_X86_64()
	}
	tracing := awslambda.Tracing_DISABLED
	if e.props.Tracing {
		tracing = awslambda.Tracing_ACTIVE
	}
	allow(role, "WriteLogs", []string{*logs.LogGroupArn()}, "logs:CreateLogStream", "logs:PutLogEvents")
	return &Function{role: rightsOf, Function: awslambda.NewFunction(e.Construct, jsii.String(p.id+"Function"), &awslambda.FunctionProps{
		FunctionName: e.physicalName(p.name),
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
		Layers:       e.props.Telemetry.lambdaLayers(),

		// JSON keeps the platform's lines readable by the same queries as the
		// engine's. Its lines about every start and end are not worth their price:
		// the metrics say the same.
		LoggingFormat:         awslambda.LoggingFormat_JSON,
		ApplicationLogLevelV2: lambdaLogLevel(e.props.LogLevel),
		SystemLogLevelV2:      awslambda.SystemLogLevel_WARN,

		// A run of many steps is one long chain of messages and invocations. Lambda
		// takes such a chain for a runaway loop after about 16 rounds and stops it,
		// unless every function that receives or sends in it says that it means it.
		// The engine has its own bound: the steps of one execution are counted.
		RecursiveLoop: awslambda.RecursiveLoop_ALLOW,
	})}
}

// setEnvironment sets a function's environment: where the parts are that its role lets
// it use, and nothing secret.
func (e *Engine) setEnvironment(f *Function) {
	for _, role := range topology.Tables {
		if len(topology.RightsFor(f.role, role)) > 0 {
			f.setEnv(topology.TableEnv[role], *e.Tables[role].TableName())
		}
	}
	f.setEnv(topology.EnvQueueLifecycle, *e.LifecycleQueue.QueueUrl())
	if resolvesPools(f.role) {
		f.setEnv(topology.EnvQueueJobsPrefix, e.poolPrefix())
	}
	f.setEnv(topology.EnvDeployment, e.deploymentName())
	f.setEnv(envLogLevel, e.props.LogLevel)
	e.props.Telemetry.setEnv(f.setEnv)
	if e.props.Config != "" {
		f.setEnv(topology.EnvConfigInline, e.props.Config)
	}
	if f.role == topology.FunctionWorker && len(e.props.AllowHosts) > 0 {
		f.setEnv(topology.EnvWorkerAllowHosts, strings.Join(e.props.AllowHosts, ","))
	}
	if f.role == topology.FunctionAPI && e.props.JWTAuth != nil && e.props.JWTAuth.TenantClaim != "" {
		f.setEnv(topology.EnvTenantClaim, e.props.JWTAuth.TenantClaim)
	}
	if f.role == topology.FunctionAPI && len(e.props.CORSOrigins) > 0 {
		f.setEnv(topology.EnvWebOrigins, strings.Join(e.props.CORSOrigins, ","))
	}
	if e.props.Local {
		f.setEnv(topology.EnvTrustHeaders, "true")
		f.setEnv(topology.EnvFunction, f.role) // an emulator lets everybody do everything
	}
}

// addMapping lets a queue invoke a function, by a mapping in scope. Its concurrency is
// bounded here, on the mapping: with a reserved concurrency instead, messages would
// be received that cannot be worked on, and would end among the dead letters.
func (e *Engine) addMapping(scope constructs.Construct, q *Queue, f *Function, concurrency int) awslambda.EventSourceMapping {
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

// setEnv sets a variable. What a function of somebody else's has of its own comes on top
// of what is counted here.
func (f *Function) setEnv(key, value string) {
	f.AddEnvironment(&key, &value, nil)
	if f.environment == nil {
		f.environment = map[string]string{}
	}
	f.environment[key] = value
	if err := validateEnvironment(f.environment); err != nil {
		panic(fmt.Errorf("%s with %s: %w", *f.Node().Id(), key, err))
	}
}

// pascalCase makes an id's part of a role's name: executions, jobs-default.
func pascalCase(name string) string {
	var b strings.Builder
	for _, part := range strings.Split(name, "-") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}
