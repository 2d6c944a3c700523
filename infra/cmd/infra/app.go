package main

import (
	"fmt"
	"path/filepath"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/infra"
)

// settings are those of the app. An empty one is taken from the CDK context key
// of the same name (cdk synth -c stage=dev), and failing that has its default.
type settings struct {
	Stage        string // stage; prod
	StackName    string // stackName; Lockstep-<stage>
	NamePrefix   string // namePrefix; none, so that names are generated
	FunctionsDir string // functionsDir; dist/functions
	Version      string // version; what the functions say, or dev
	Architecture string // architecture; arm64
	LogLevel     string // logLevel; info
	Config       string // config; the engine's configuration, inline
	AlarmTopic   string // alarmTopicArn; none
	Page         string // page; true opens the page's static files
	Local        string // local; true deploys for an emulator

	// OutDir is where the cloud assembly goes. Default: CDK_OUTDIR, which the CDK
	// command line sets, and without it a temporary folder.
	OutDir string
}

// synthesize writes the cloud assembly of the app, which is one stack with one
// engine, and returns the path of its template. It needs no network and no
// account: the template fits any.
func synthesize(s settings) (template string, err error) {
	// CDK reports what it does not like by panicking. Of a setting that is wrong
	// the caller gets an error all the same.
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
	engine := &infra.EngineProps{
		Stage: s.Stage, NamePrefix: s.NamePrefix, FunctionsDir: s.FunctionsDir, Version: s.Version,
		Architecture: s.Architecture, LogLevel: s.LogLevel, Config: s.Config, Page: s.Page == "true", Local: s.Local == "true",
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
	})
	if s.AlarmTopic != "" {
		engine.AlarmTopic = awssns.Topic_FromTopicArn(stack, jsii.String("AlarmTopic"), &s.AlarmTopic)
	}
	infra.NewEngine(stack, "Engine", engine)
	assembly := app.Synth(nil)
	return filepath.Join(*assembly.Directory(), *stack.TemplateFile()), nil
}

// fromContext fills the settings that are empty.
func (s *settings) fromContext(app awscdk.App) {
	for key, field := range map[string]*string{
		"stage": &s.Stage, "stackName": &s.StackName, "namePrefix": &s.NamePrefix, "functionsDir": &s.FunctionsDir,
		"version": &s.Version, "architecture": &s.Architecture, "logLevel": &s.LogLevel, "config": &s.Config, "alarmTopicArn": &s.AlarmTopic,
		"page": &s.Page, "local": &s.Local,
	} {
		if value, ok := app.Node().TryGetContext(&key).(string); ok && *field == "" {
			*field = value
		}
	}
}
