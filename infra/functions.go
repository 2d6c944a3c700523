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

	// live is what is invoked: an alias of the published version, so that the code and the
	// configuration of a release take effect together, and are rolled back together if the
	// deployment fails. For emulators, and for a user's function, it is the function itself.
	live awslambda.IFunction

	role        string            // role in topology; decides the permissions
	outside     awsiam.IGrantable // a principal that gets the permissions instead of a function
	environment map[string]string
}

// functionSpec describes a function to create.
type functionSpec struct {
	id, name    string // of the construct; of the function without NamePrefix
	description string
	dir         string // contains bootstrap
	timeout     int    // seconds
	memory      int    // MB
	network     *Network
}

// aliasName is the name of the alias of each function.
const aliasName = "live"

// qualifier returns the qualifier of what is invoked: the alias, or none for the newest code.
func (f *Function) qualifier() *string {
	if _, ok := f.live.(awslambda.Alias); ok {
		return jsii.String(aliasName)
	}
	return jsii.String("$LATEST")
}

const (
	// envLogLevel is the variable for the setting log.level.
	envLogLevel = "LOCKSTEP_LOG_LEVEL"
	// envWorkerRegion is the variable for the setting worker.region.
	envWorkerRegion = "LOCKSTEP_WORKER_REGION"

	// batchSize is the maximum number of messages of one invocation.
	batchSize = 10

	// defaultMemory in MB. A function's share of a processor grows with its memory, but the
	// engine's functions mostly wait for DynamoDB.
	defaultMemory = topology.FunctionMemoryMB
)

var (
	functionMemoryMB     = map[string]int{topology.FunctionSweeper: 256}
	functionDescriptions = map[string]string{
		topology.FunctionAPI:       "Lockstep: the HTTP interface",
		topology.FunctionLifecycle: "Lockstep: advances executions",
		topology.FunctionObserver:  "Lockstep: tells those who observe executions of their events",
		topology.FunctionSweeper:   "Lockstep: wakes executions whose timer is due",
		topology.FunctionWorker:    "Lockstep: works on the packs of the default pool",
	}
)

// addFunction creates one of the engine's functions, with its permissions and its
// environment.
func (e *Engine) addFunction(name string) {
	p := functionSpec{
		id: pascalCase(name), name: name, description: functionDescriptions[name], dir: filepath.Join(e.props.FunctionsDir, name),
		timeout: topology.FunctionTimeoutSeconds[name], memory: defaultMemory,
	}
	if mb, ok := functionMemoryMB[name]; ok {
		p.memory = mb
	}
	if name == topology.FunctionWorker {
		p.network = e.props.WorkerNetwork
	}
	f := e.newFunction(p, name)
	e.Functions[name] = f
	e.grantRuntimePermissions(f)
	e.setEnvironment(f)
}

// newFunction creates a function with its own IAM role and log group. role is its name in
// topology.
func (e *Engine) newFunction(p functionSpec, role string) *Function {
	logs := awslogs.NewLogGroup(e.Construct, jsii.String(p.id+"Logs"), &awslogs.LogGroupProps{
		LogGroupName: e.physicalName(p.name), Retention: e.props.LogRetention, RemovalPolicy: logRemovalPolicy(e.props.keepsData()),
	})
	iamRole := awsiam.NewRole(e.Construct, jsii.String(p.id+"Role"), &awsiam.RoleProps{
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
	allow(iamRole, "WriteLogs", []string{*logs.LogGroupArn()}, "logs:CreateLogStream", "logs:PutLogEvents")
	if p.network != nil {
		allowNetwork(iamRole)
	}
	function := awslambda.NewFunction(e.Construct, jsii.String(p.id+"Function"), &awslambda.FunctionProps{
		FunctionName: e.physicalName(p.name),
		Description:  &p.description,
		Runtime:      awslambda.Runtime_PROVIDED_AL2023(),
		Architecture: architecture,
		Handler:      jsii.String("bootstrap"),
		Code:         awslambda.Code_FromAsset(&p.dir, nil),
		MemorySize:   jsii.Number(p.memory),
		Timeout:      awscdk.Duration_Seconds(jsii.Number(p.timeout)),
		Role:         iamRole,
		LogGroup:     logs,
		Tracing:      tracing,
		Layers:       e.props.Telemetry.lambdaLayers(),

		// With JSON the same queries read the platform's lines and the engine's. The platform's
		// lines about each start and end are not worth their price, because the metrics contain the
		// same information.
		LoggingFormat:         awslambda.LoggingFormat_JSON,
		ApplicationLogLevelV2: lambdaLogLevel(e.props.LogLevel),
		SystemLogLevelV2:      awslambda.SystemLogLevel_WARN,

		// An execution with many steps is a long chain of messages and invocations.
		// After about 16 rounds Lambda takes such a chain for a runaway loop and stops
		// it, unless every function in it allows recursion. The engine has its own
		// limit: it counts the step runs of an execution.
		RecursiveLoop: awslambda.RecursiveLoop_ALLOW,
	})
	if p.network != nil {
		p.network.connect(function)
		denyNetworkToCode(e.Construct, p.id, iamRole, function)
	}
	f := &Function{role: role, Function: function, live: function}
	if !e.props.Local {
		f.live = awslambda.NewAlias(e.Construct, jsii.String(p.id+"Live"), &awslambda.AliasProps{
			AliasName: jsii.String(aliasName), Version: function.CurrentVersion(),
		})
	}
	return f
}

// setEnvironment sets a function's environment: the names of the resources that its role
// may use, and nothing secret.
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
	if f.Function != nil { // its collector is for functions
		e.props.Telemetry.setEnv(f.setEnv)
	}
	if e.props.Config != "" {
		f.setEnv(topology.EnvConfigInline, e.props.Config)
	}
	if callsHosts := f.role == topology.FunctionWorker || f.role == topology.FunctionObserver || f.role == topology.FunctionAPI; callsHosts && len(e.props.AllowHosts) > 0 {
		f.setEnv(topology.EnvWorkerAllowHosts, strings.Join(e.props.AllowHosts, ","))
	}
	if f.role == topology.FunctionAPI && e.props.JWTAuth != nil && e.props.JWTAuth.TenantClaim != "" {
		f.setEnv(topology.EnvTenantClaim, e.props.JWTAuth.TenantClaim)
	}
	if f.role == topology.FunctionAPI && e.props.JWTAuth != nil && e.props.JWTAuth.RolesClaim != "" {
		f.setEnv(topology.EnvRolesClaim, e.props.JWTAuth.RolesClaim)
	}
	if e.props.TokenKeys != "" && usesTokenKeys(f.role) {
		f.setEnv(topology.EnvTokenKeys, e.props.TokenKeys) // location of the secrets
	}
	if e.props.Secrets != "" && usesSecrets(f.role) {
		f.setEnv(topology.EnvSecretsFrom, e.props.Secrets)
	}
	if e.props.SealedKey != "" && usesSecrets(f.role) {
		f.setEnv(topology.EnvSealedKey, e.props.SealedKey)
	}
	if f.role == topology.FunctionAPI && len(e.props.CORSOrigins) > 0 {
		f.setEnv(topology.EnvWebOrigins, strings.Join(e.props.CORSOrigins, ","))
	}
	if e.props.Local {
		f.setEnv(topology.EnvTrustHeaders, "true")
		f.setEnv(topology.EnvFunction, f.role) // an emulator enforces no permissions, so the function does
	}
}

// addMapping creates, in scope, the mapping by which a queue invokes a function. The concurrency
// limit is on the mapping: with a reserved concurrency of the function, messages would be received
// that no invocation can handle, and become dead letters.
func (e *Engine) addMapping(scope constructs.Construct, q *Queue, f *Function, concurrency int) awslambda.EventSourceMapping {
	f.allow("Consume"+q.label, []string{*q.QueueArn()},
		"sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage")
	mapping := awslambda.NewEventSourceMapping(scope, jsii.String(q.label+"Mapping"), &awslambda.EventSourceMappingProps{
		Target:                  f.live,
		EventSourceArn:          q.QueueArn(),
		BatchSize:               jsii.Number(batchSize),
		MaxConcurrency:          jsii.Number(concurrency),
		ReportBatchItemFailures: jsii.Bool(true),
	})
	// Lambda calls the queue when the mapping is created, so the permission comes first.
	mapping.Node().AddDependency(f.Role())
	return mapping
}

// setEnv sets a variable and checks the size of the environment. It does not count variables that a
// user's function has of its own.
func (f *Function) setEnv(key, value string) {
	if f.environment == nil {
		f.environment = map[string]string{}
	}
	f.environment[key] = value
	if f.Function == nil { // a process elsewhere has room for more
		return
	}
	f.AddEnvironment(&key, &value, nil)
	if err := validateEnvironment(f.environment); err != nil {
		panic(fmt.Errorf("%s with %s: %w", *f.Node().Id(), key, err))
	}
}

// pascalCase turns a name such as jobs-default into the form of ids, JobsDefault.
func pascalCase(name string) string {
	var b strings.Builder
	for _, part := range strings.Split(name, "-") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}

// lambdaLogLevel returns the level at which Lambda filters a function's log lines. It is
// at most INFO: the function filters at its own level, and the metrics are lines of level
// INFO that Lambda must not drop.
func lambdaLogLevel(level string) awslambda.ApplicationLogLevel {
	if level == "debug" {
		return awslambda.ApplicationLogLevel_DEBUG
	}
	return awslambda.ApplicationLogLevel_INFO
}
