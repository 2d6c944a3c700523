package infra

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"
)

// Settings are those of the app. An empty one is taken from the CDK context key
// of the same name (cdk synth -c stage=dev), and failing that has its default.
type Settings struct {
	Stage        string // stage; prod
	StackName    string // stackName; Lockstep-<stage>
	FunctionsDir string // functionsDir; dist/functions
	Version      string // version; dev
	Architecture string // architecture; arm64
	AlarmTopic   string // alarmTopicArn; none

	// Out is where the cloud assembly goes. Default: CDK_OUTDIR, which the CDK
	// command line sets, and without it a temporary folder.
	Out string
}

// Synthesize writes the cloud assembly of the app, which is one stack with one
// engine, and returns the path of its template. It needs no network and no
// account: the template fits any.
func Synthesize(s Settings) (template string, err error) {
	// CDK reports what it does not like by panicking. Of a setting that is wrong
	// the caller gets an error all the same.
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("synthesis: %v", cause)
		}
	}()
	Quiet()
	props := &awscdk.AppProps{AnalyticsReporting: jsii.Bool(false)}
	if s.Out != "" {
		props.Outdir = &s.Out
	}
	app := awscdk.NewApp(props)
	for key, field := range map[string]*string{
		"stage": &s.Stage, "stackName": &s.StackName, "functionsDir": &s.FunctionsDir,
		"version": &s.Version, "architecture": &s.Architecture, "alarmTopicArn": &s.AlarmTopic,
	} {
		if value, ok := app.Node().TryGetContext(&key).(string); ok && *field == "" {
			*field = value
		}
	}
	engine := &EngineProps{Stage: s.Stage, FunctionsDir: s.FunctionsDir, Version: s.Version, Architecture: s.Architecture}
	if err := engine.Validate(); err != nil {
		return "", err
	}
	filled := engine.filled()
	if s.StackName == "" {
		s.StackName = "Lockstep-" + filled.Stage
	}
	stack := awscdk.NewStack(app, &s.StackName, &awscdk.StackProps{
		Description:           jsii.String("Lockstep: workflows over entities, without a server"),
		TerminationProtection: jsii.Bool(filled.prod()),
	})
	if s.AlarmTopic != "" {
		engine.AlarmTopic = awssns.Topic_FromTopicArn(stack, jsii.String("AlarmTopic"), &s.AlarmTopic)
	}
	NewEngine(stack, "Engine", engine)
	assembly := app.Synth(nil)
	return filepath.Join(*assembly.Directory(), *stack.TemplateFile()), nil
}

// quiet are the banners that say nothing about the result. The first takes the
// major versions of Node that it is to be silent about, the others anything. What
// is not here is the warning of a Node that is known to be broken.
var quiet = map[string]string{
	"JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "18,20,22",
	"JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION":  "true",
	"JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION":    "true",
}

// Quiet keeps the JavaScript kernel behind CDK from printing banners about the
// version of Node. It has to be called before anything of CDK is: the kernel is
// prepared, with a copy of the environment, when CDK's packages are initialised,
// so that it has to be prepared again. It may still print a line about waitid
// when it ends, which means nothing. Only the first call does anything.
func Quiet() { quieten() }

var quieten = sync.OnceFunc(func() {
	for name, value := range quiet {
		if os.Getenv(name) == "" {
			_ = os.Setenv(name, value) // at worst there is a banner
		}
	}
	jsii.Close()
})
