package infra

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

func TestMain(m *testing.M) {
	SilenceJSII()
	code := m.Run()
	jsii.Close()
	os.Exit(code)
}

var templatesFlag = flag.String("templates", "", "directory in which the synthesised templates remain")

// stacks returns the stacks under test. They are synthesised once, in one app, since the
// start of the kernel takes most of the time.
//
//   - prod: every default.
//   - dev: another stage, with every number and text set.
//   - options: prefix, key, capacity, tokens, page; and three worker pools of a user:
//     from a program, from a function, and polled.
//   - host, tenant: an engine, and a worker function in a stack of its own.
//   - pair: two engines in one stack.
//   - restored: with tables of before, a domain, a boundary, networks, and many pools.
//   - local: for an emulator. It has no authorisation, so it has its own test.
var stacks = sync.OnceValue(func() map[string]*template {
	dir, err := os.MkdirTemp("", "lockstep-infra")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	functions := filepath.Join(dir, "functions")
	if err := writeDummyFunctions(functions); err != nil {
		panic(err)
	}
	templates, out := map[string]*template{}, filepath.Join(dir, "out")
	if *templatesFlag != "" {
		out = *templatesFlag
	}
	app := awscdk.NewApp(&awscdk.AppProps{AnalyticsReporting: jsii.Bool(false), Outdir: &out})
	all := makeStacks(app, functions)
	for _, name := range nagStacks {
		addNagChecks(all[name])
	}
	// CDK's own assertions are not used: a failed one ends the process.
	app.Synth(nil)
	for name := range all {
		text, err := os.ReadFile(filepath.Join(out, name+".template.json"))
		if err != nil {
			panic(err)
		}
		t := &template{sizeBytes: len(text)}
		if err := json.Unmarshal(text, t); err != nil {
			panic(err)
		}
		for id, r := range t.Resources {
			r.ID, r.template = id, t
		}
		templates[name] = t
	}
	for _, name := range nagStacks {
		templates[name].findings = readFindings(out, name)
	}
	templates["tenant"].exporter, templates["host"].importer = templates["host"], templates["tenant"]
	return templates
})

// collectorLayer is the ARN of a layer with an OpenTelemetry collector.
const collectorLayer = "arn:aws:lambda:eu-west-1:123456789012:layer:collector:3"

func makeStacks(app awscdk.App, functions string) map[string]awscdk.Stack {
	all := map[string]awscdk.Stack{}
	stack := func(name string) awscdk.Stack {
		all[name] = awscdk.NewStack(app, &name, nil)
		return all[name]
	}
	NewEngine(stack("prod"), "Engine", &EngineProps{FunctionsDir: functions, Version: "1.2.3"})

	dev := stack("dev")
	NewEngine(dev, "Engine", &EngineProps{
		Stage: "dev", FunctionsDir: functions, Architecture: archX86, LogLevel: "debug",
		Config: "job: {lease: 90s}", AllowHosts: []string{"a.example", "b.example:8443"},
		Observer:          ObserverProps{EventBuses: []string{eventBusARN}, Topics: []string{topicARN}},
		EventSources:      []EventSource{{Bus: "default", Sources: []string{"shop.orders", "aws.*"}}, {Bus: eventBusARN, Sources: []string{"stock"}, Tenant: "store"}},
		Concurrency:       map[string]int{topology.FunctionWorker: 7},
		WarmThroughput:    Capacity{Read: 20000, Write: 10000},
		RequestsPerSecond: 3, Burst: 4, CORSOrigins: []string{"https://ops.example"}, Tracing: true,
		AlarmTopic: awssns.NewTopic(dev, jsii.String("Pager"), nil),
		Thresholds: Thresholds{WakeupAge: 11, PackAge: 12, Errors: 13, Throttles: 14, LockAge: 15, StuckExecutions: 16, FailedSafe: 17, FailedWakeups: 18, TableThrottles: 19},
		RunbookURL: "https://wiki.example/runbooks",
		Telemetry: &Telemetry{
			Endpoint: "http://localhost:4318", Environment: map[string]string{"OTEL_TRACES_SAMPLER": "parentbased_traceidratio"},
			Layers: []awslambda.ILayerVersion{awslambda.LayerVersion_FromLayerVersionArn(dev, jsii.String("Collector"), jsii.String(collectorLayer))},
		},
	})

	options := stack("options")
	engine := NewEngine(options, "Engine", &EngineProps{
		Stage: "acceptance", KeepData: jsii.Bool(true), NamePrefix: "acme", FunctionsDir: functions,
		Capacity:    Capacity{Read: 5000, Write: 4000},
		CustomerKey: awskms.Key_FromKeyArn(options, jsii.String("Key"), jsii.String(customerKey)),
		JWTAuth:     &JWTAuth{Issuer: "https://id.example/", Audience: []string{"lockstep"}, Scopes: []string{"runs"}, ReadScopes: []string{"reads"}, TenantClaim: "team", RolesClaim: "groups"},
		Page:        true, TokenKeys: tokenKeysSecret, OpenAnswers: true, OpenTriggers: true, Secrets: "secretsmanager:acme/secrets/", SealedKey: sealedKey,
	})
	engine.AddWorkerPool("Reports", &WorkerPoolProps{
		Pool: "reports", CodeDir: filepath.Join(functions, topology.FunctionWorker), Timeout: 60, Memory: 1024,
		Environment: map[string]string{"MODE": "quick"}, Concurrency: 9, PackAge: 600,
	})
	engine.AddWorkerPool("Edge", &WorkerPoolProps{Pool: "edge", Polled: true})
	engine.AddWorkerPool("Europe", &WorkerPoolProps{Pool: topology.PoolDefault, Region: "eu", Timeout: 90})
	engine.AddWorkerPool("Photos", &WorkerPoolProps{Pool: "photos", Function: newUserFunction(options, functions)})

	host := NewEngine(stack("host"), "Engine", &EngineProps{Stage: "dev", FunctionsDir: functions})
	edge := host.AddWorkerPool("Edge", &WorkerPoolProps{Pool: "edge", Polled: true})
	edge.GrantPolling(awsiam.NewRole(host.Construct, jsii.String("Hosts"), &awsiam.RoleProps{AssumedBy: awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil)}))
	for name, value := range edge.PollingEnvironment() {
		awscdk.NewCfnOutput(all["host"], jsii.String("EdgeEnv"+strings.ReplaceAll(name, "_", "")), &awscdk.CfnOutputProps{Value: &value})
	}
	host.AddWorkerPool("Elsewhere", &WorkerPoolProps{Pool: "elsewhere", Function: newUserFunction(stack("tenant"), functions)})

	pair := stack("pair")
	for _, id := range []string{"Blue", "Green"} {
		NewEngine(pair, id, &EngineProps{Stage: "dev", FunctionsDir: functions})
	}
	NewEngine(stack("local"), "Engine", &EngineProps{Stage: "dev", FunctionsDir: functions, Local: true})

	withTables := stack("restored")
	restored := NewEngine(withTables, "Engine", &EngineProps{
		AlarmTopic:   awssns.Topic_FromTopicArn(withTables, jsii.String("Pager"), jsii.String(pagerARN)),
		WarningTopic: awssns.Topic_FromTopicArn(withTables, jsii.String("Mail"), jsii.String(mailARN)),
		FunctionsDir: functions, ExistingTables: existingTables, PermissionsBoundary: "limits-of-the-team",
		WorkerNetwork: &Network{Subnets: []string{"subnet-0a1b2c3d", "subnet-0b1b2c3d"}, SecurityGroups: []string{"sg-0c1b2c3d"}},
		Domain:        &Domain{Name: "lockstep.example.com", CertificateARN: certificate},
	})
	restored.AddWorkerPool("Private", &WorkerPoolProps{
		Pool: "private", CodeDir: filepath.Join(functions, topology.FunctionWorker),
		Network: &Network{Subnets: []string{"subnet-0d1b2c3d"}, SecurityGroups: []string{"sg-0e1b2c3d"}},
	})
	machines := awsiam.NewRole(restored.Construct, jsii.String("Machines"), &awsiam.RoleProps{AssumedBy: awsiam.NewServicePrincipal(jsii.String("ec2.amazonaws.com"), nil)})
	for i := range manyPools {
		site := restored.AddWorkerPool(fmt.Sprintf("Site%d", i), &WorkerPoolProps{Pool: fmt.Sprintf("site-%d", i), Polled: true})
		if i < 2 {
			site.GrantPolling(machines)
		}
	}
	return all
}

// manyPools are more pools than the environment of a function has room for URLs.
const manyPools = 40

// The topics of alarms that cannot wait, and of those that can.
const (
	pagerARN = "arn:aws:sns:eu-west-1:123456789012:pager"
	mailARN  = "arn:aws:sns:eu-west-1:123456789012:mail"
)

const certificate = "arn:aws:acm:eu-west-1:123456789012:certificate/0a1b2c3d-0000-1111-2222-333344445555"

var existingTables = map[string]string{
	topology.TableExecutions: "before-executions", topology.TableJobs: "before-jobs", topology.TableLocks: "before-locks", topology.TableRegistry: "before-registry", topology.TableData: "before-data",
}

// tokenKeysSecret is the secret with the keys of resume tokens of the stack options.
const tokenKeysSecret = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:lockstep/token-keys-AbCdEf"

const customerKey = "arn:aws:kms:eu-west-1:123456789012:key/0a1b2c3d-0000-1111-2222-333344445555"

// newUserFunction creates a function as a user may: its role may only write its log, and
// recursive loops are terminated.
func newUserFunction(stack awscdk.Stack, functions string) awslambda.Function {
	role := awsiam.NewRole(stack, jsii.String("OwnRole"), &awsiam.RoleProps{
		AssumedBy: awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
	})
	logs := awslogs.NewLogGroup(stack, jsii.String("OwnLogs"), &awslogs.LogGroupProps{
		Retention: awslogs.RetentionDays_THREE_MONTHS, RemovalPolicy: awscdk.RemovalPolicy_RETAIN,
	})
	return awslambda.NewFunction(stack, jsii.String("OwnFunction"), &awslambda.FunctionProps{
		Runtime: awslambda.Runtime_PROVIDED_AL2023(), Architecture: awslambda.Architecture_ARM_64(), Handler: jsii.String("bootstrap"),
		Code:          awslambda.Code_FromAsset(jsii.String(filepath.Join(functions, topology.FunctionWorker)), nil),
		Timeout:       awscdk.Duration_Minutes(jsii.Number(2)),
		RecursiveLoop: awslambda.RecursiveLoop_TERMINATE, Role: role, LogGroup: logs,
	})
}

// writeDummyFunctions writes files in place of the built functions.
func writeDummyFunctions(dir string) error {
	for _, name := range topology.Functions {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name, "bootstrap"), []byte(name), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// engineStacks are the stacks with an engine for AWS; allStacks has in addition the one
// with only a worker.
var (
	engineStacks = []string{"dev", "host", "options", "pair", "prod"}
	allStacks    = append(slices.Clone(engineStacks), "tenant")
)

// forEngineStacks runs a test on every stack of engineStacks.
func forEngineStacks(t *testing.T, test func(*testing.T, *template)) {
	forStacks(t, engineStacks, test)
}

func forStacks(t *testing.T, names []string, test func(*testing.T, *template)) {
	t.Helper()
	for _, name := range names {
		t.Run(name, func(t *testing.T) { test(t, stacks()[name]) })
	}
}
