// Command infra synthesises the CloudFormation template of Lockstep. The CDK command line
// runs it (infra/cdk.json); make synth runs it without the CDK command line.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/infra"
)

func main() {
	var s settings
	flag.StringVar(&s.Stage, "stage", "", "stage, prod by default; the data of stage prod is kept")
	flag.StringVar(&s.StackName, "stack", "", "name of the stack, Lockstep-<stage> by default")
	flag.StringVar(&s.FunctionsDir, "functions", "", "directory of the built functions, dist/functions by default")
	flag.StringVar(&s.Version, "release", "", "release to tag the resources with")
	flag.StringVar(&s.Architecture, "architecture", "", "arm64, the default, or x86_64")
	flag.StringVar(&s.AlarmTopic, "alarm-topic", "", "ARN of the SNS topic that alarms notify")
	flag.StringVar(&s.WarningTopic, "warning-topic", "", "ARN of the SNS topic that alarms notify which can wait; that of the others by default")
	flag.StringVar(&s.NamePrefix, "prefix", "", "prefix of the names, which are otherwise generated")
	flag.StringVar(&s.LogLevel, "log-level", "", "debug, info, warn or error; info by default")
	flag.StringVar(&s.Config, "config", "", "configuration of the engine, inline: docs/configuration.md")
	flag.StringVar(&s.Page, "page", "", "true lets everybody load the page's static files")
	flag.StringVar(&s.TokenKeys, "token-keys", "", "ARN of the secret with the keys of resume tokens: docs/deploying.md")
	flag.StringVar(&s.SealedKey, "sealed-key", "", "ARN of the key of KMS for sealed parameters: docs/deploying.md")
	flag.StringVar(&s.PermissionsBoundary, "permissions-boundary", "", "ARN of the IAM policy, or its name in the account, that bounds every role")
	flag.StringVar(&s.WorkerSubnets, "worker-subnets", "", "ids of the subnets of the stock worker, with commas")
	flag.StringVar(&s.WorkerSecurityGroups, "worker-security-groups", "", "ids of the security groups of the stock worker, with commas")
	flag.StringVar(&s.Domain, "domain", "", "name of your own for the HTTP interface")
	flag.StringVar(&s.Certificate, "certificate", "", "ARN of the certificate of the domain")
	flag.StringVar(&s.ExistingTables, "existing-tables", "", "tables to use instead of new ones, as executions=NAME,jobs=NAME,locks=NAME,registry=NAME")
	flag.StringVar(&s.Secrets, "secrets", "", "where the secrets are that definitions refer to: secretsmanager:PREFIX/ or ssm:/PREFIX/")
	flag.StringVar(&s.OpenTriggers, "open-triggers", "", "true lets everybody call the triggers of workflows, with a proof that their secrets check")
	flag.StringVar(&s.OpenAnswers, "open-answers", "", "true lets the bearers of resume tokens answer without other credentials")
	flag.StringVar(&s.TokenAddress, "token-address", "", "where people reach the page of answers, with openAnswers that of the HTTP interface by default")
	flag.StringVar(&s.EventBus, "event-bus", "", "name or ARN of the bus of EventBridge whose events triggers take")
	flag.StringVar(&s.EventSources, "event-sources", "", "the sources of these events, with commas: each whole, or its beginning and a star")
	flag.StringVar(&s.Local, "local", "", "true deploys for an emulator of AWS")
	flag.StringVar(&s.AssetsPrefix, "assets-prefix", "", "take the functions from keys with this prefix, in a bucket that the template's parameter AssetsBucket names; by default from that of CDK's bootstrap")
	flag.StringVar(&s.OutDir, "out", "", "directory for the cloud assembly, CDK_OUTDIR by default")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "infra: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	code := 0
	if template, err := synthesize(s); err == nil {
		fmt.Println(template)
	} else {
		fmt.Fprintln(os.Stderr, "infra:", err)
		code = 1
	}
	jsii.Close() // removes the kernel's temporary files
	os.Exit(code)
}

// settings are the settings of the app. An empty one is read from the CDK context key of the same
// name (cdk synth -c stage=dev); otherwise it has its default.
type settings struct {
	Stage        string // stage; prod
	StackName    string // stackName; Lockstep-<stage>
	NamePrefix   string // namePrefix; none: names are generated
	FunctionsDir string // functionsDir; dist/functions
	Version      string // version; that of the functions, or dev
	Architecture string // architecture; arm64
	LogLevel     string // logLevel; info
	Config       string // config; the engine's configuration, inline
	AlarmTopic   string // alarmTopicArn; none
	Page         string // page; true opens the page's static files
	TokenKeys    string // tokenKeys; none: no token can be made
	SealedKey    string // sealedKey; none: no sealed parameter is taken
	Secrets      string // secrets; none: jobs with secrets fail
	OpenTriggers string // openTriggers; true lets everybody call triggers with a proof
	OpenAnswers  string // openAnswers; true lets bearers of tokens answer without other credentials
	TokenAddress string // tokenAddress; that of the HTTP interface with openAnswers
	EventBus     string // eventBus; none: events come only by POST /events
	EventSources string // eventSources; sources of the bus's events
	Local        string // local; true deploys for an emulator
	AssetsPrefix string // assetsPrefix; none: the functions are in the bucket of CDK's bootstrap

	WarningTopic         string // warningTopicArn; the topic of all alarms
	PermissionsBoundary  string // permissionsBoundary; none
	WorkerSubnets        string // workerSubnets; none: the stock worker is in no VPC
	WorkerSecurityGroups string // workerSecurityGroups
	Domain               string // domain; none
	Certificate          string // certificateArn; that of the domain
	ExistingTables       string // existingTables; none: the stack creates its tables

	// OutDir is the directory for the cloud assembly. Default: CDK_OUTDIR, which the CDK
	// command line sets, else a temporary directory.
	OutDir string
}

// synthesize writes the cloud assembly of the app, one stack with one engine, and returns
// the path of its template. It needs no network and no account: the template fits any.
func synthesize(s settings) (template string, err error) {
	// CDK reports errors by panicking. Turn them into an error.
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("synthesis: %v", cause)
		}
	}()
	infra.SilenceJSII()
	props := &awscdk.AppProps{AnalyticsReporting: jsii.Bool(false)}
	if s.OutDir != "" {
		props.Outdir = &s.OutDir
	}
	app := awscdk.NewApp(props)
	s.fromContext(app)
	if text, ok := app.Node().TryGetContext(jsii.String(cdkBoundary)).(string); ok && text != "" {
		return "", fmt.Errorf("the context %s is the text %s, which CDK ignores: use -c permissionsBoundary=NAME", cdkBoundary, text)
	}
	tables, err := parseTables(s.ExistingTables)
	if err != nil {
		return "", err
	}
	engine := &infra.EngineProps{
		Stage: s.Stage, NamePrefix: s.NamePrefix, FunctionsDir: s.FunctionsDir, Version: s.Version,
		Architecture: s.Architecture, LogLevel: s.LogLevel, Config: s.Config, Page: s.Page == "true", Local: s.Local == "true",
		TokenKeys: s.TokenKeys, SealedKey: s.SealedKey, Secrets: s.Secrets, OpenAnswers: s.OpenAnswers == "true", OpenTriggers: s.OpenTriggers == "true", TokenAddress: s.TokenAddress,
		PermissionsBoundary: s.PermissionsBoundary, ExistingTables: tables,
	}
	if s.WorkerSubnets != "" || s.WorkerSecurityGroups != "" {
		engine.WorkerNetwork = &infra.Network{Subnets: splitList(s.WorkerSubnets), SecurityGroups: splitList(s.WorkerSecurityGroups)}
	}
	if s.EventBus != "" || s.EventSources != "" {
		engine.EventSources = []infra.EventSource{{Bus: s.EventBus, Sources: splitList(s.EventSources)}}
	}
	if s.Domain != "" || s.Certificate != "" {
		engine.Domain = &infra.Domain{Name: s.Domain, CertificateARN: s.Certificate}
	}
	if err := engine.Validate(); err != nil {
		return "", err
	}
	if engine.Stage == "" {
		engine.Stage = infra.StageProd
	}
	if s.StackName == "" {
		s.StackName = "Lockstep-" + engine.Stage
	}
	stack := awscdk.NewStack(app, &s.StackName, &awscdk.StackProps{
		Description:           jsii.String("Lockstep: workflows over entities, without a server"),
		TerminationProtection: jsii.Bool(engine.Stage == infra.StageProd),
		Synthesizer:           s.synthesizer(),
	})
	if s.AssetsPrefix != "" {
		awscdk.NewCfnParameter(stack, jsii.String(assetsBucket), &awscdk.CfnParameterProps{
			Description:    jsii.String("Bucket in the region of the stack with the files of assets, under keys that begin with " + s.AssetsPrefix),
			AllowedPattern: jsii.String("[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"),
		})
	}
	if s.AlarmTopic != "" {
		engine.AlarmTopic = awssns.Topic_FromTopicArn(stack, jsii.String("AlarmTopic"), &s.AlarmTopic)
	}
	if s.WarningTopic != "" {
		engine.WarningTopic = awssns.Topic_FromTopicArn(stack, jsii.String("WarningTopic"), &s.WarningTopic)
	}
	infra.NewEngine(stack, "Engine", engine)
	assembly := app.Synth(nil)
	return filepath.Join(*assembly.Directory(), *stack.TemplateFile()), nil
}

// assetsBucket is the template's parameter that names the bucket of the functions.
const assetsBucket = "AssetsBucket"

// synthesizer returns a synthesizer whose template CloudFormation can deploy on its own: its
// functions are in a bucket that a parameter names, instead of that of CDK's bootstrap. It returns
// nil, for CDK's own synthesizer, if that is not requested.
func (s *settings) synthesizer() awscdk.IStackSynthesizer {
	if s.AssetsPrefix == "" {
		return nil
	}
	return awscdk.NewDefaultStackSynthesizer(&awscdk.DefaultStackSynthesizerProps{
		FileAssetsBucketName:         jsii.String("${" + assetsBucket + "}"),
		BucketPrefix:                 &s.AssetsPrefix,
		GenerateBootstrapVersionRule: jsii.Bool(false),
	})
}

// fromContext fills empty settings from the CDK context.
func (s *settings) fromContext(app awscdk.App) {
	for key, field := range map[string]*string{
		"stage": &s.Stage, "stackName": &s.StackName, "namePrefix": &s.NamePrefix, "functionsDir": &s.FunctionsDir,
		"version": &s.Version, "architecture": &s.Architecture, "logLevel": &s.LogLevel, "config": &s.Config, "alarmTopicArn": &s.AlarmTopic, "warningTopicArn": &s.WarningTopic,
		"page": &s.Page, "local": &s.Local, "tokenKeys": &s.TokenKeys, "sealedKey": &s.SealedKey, "secrets": &s.Secrets, "openAnswers": &s.OpenAnswers, "tokenAddress": &s.TokenAddress, "openTriggers": &s.OpenTriggers, "eventBus": &s.EventBus, "eventSources": &s.EventSources,
		"permissionsBoundary": &s.PermissionsBoundary, "workerSubnets": &s.WorkerSubnets, "workerSecurityGroups": &s.WorkerSecurityGroups,
		"domain": &s.Domain, "certificateArn": &s.Certificate, "existingTables": &s.ExistingTables, "assetsPrefix": &s.AssetsPrefix,
	} {
		if value, ok := app.Node().TryGetContext(&key).(string); ok && *field == "" {
			*field = value
		}
	}
}

// cdkBoundary is CDK's own context key for a permissions boundary. It takes an object, so that only
// cdk.json can set it: -c passes only text.
const cdkBoundary = "@aws-cdk/core:permissionsBoundary"

func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// parseTables reads names of tables by role.
func parseTables(text string) (map[string]string, error) {
	tables := map[string]string{}
	for _, pair := range splitList(text) {
		role, name, ok := strings.Cut(pair, "=")
		if !ok || tables[role] != "" {
			return nil, fmt.Errorf("existing tables: %q: want each table once, as ROLE=NAME", pair)
		}
		tables[role] = name
	}
	return tables, nil
}
