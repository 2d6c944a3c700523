// The infra command synthesises the CloudFormation template of Lockstep. The CDK
// command line runs it (see infra/cdk.json), and so does make synth, without it.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/aws/jsii-runtime-go"
)

func main() {
	var s settings
	flag.StringVar(&s.Stage, "stage", "", "stage, prod by default; data of the stage prod is kept")
	flag.StringVar(&s.StackName, "stack", "", "name of the stack, Lockstep-<stage> by default")
	flag.StringVar(&s.FunctionsDir, "functions", "", "folder of the built functions, dist/functions by default")
	flag.StringVar(&s.Version, "release", "", "release to tag the resources with")
	flag.StringVar(&s.Architecture, "architecture", "", "arm64, the default, or x86_64")
	flag.StringVar(&s.AlarmTopic, "alarm-topic", "", "ARN of the SNS topic that alarms tell")
	flag.StringVar(&s.NamePrefix, "prefix", "", "what names begin with; they are generated otherwise")
	flag.StringVar(&s.LogLevel, "log-level", "", "debug, info, warn or error; info by default")
	flag.StringVar(&s.Config, "config", "", "configuration of the engine, inline: docs/configuration.md")
	flag.StringVar(&s.Page, "page", "", "true lets everybody load the page's static files")
	flag.StringVar(&s.Local, "local", "", "true deploys for an emulator of AWS")
	flag.StringVar(&s.OutDir, "out", "", "folder for the cloud assembly, CDK_OUTDIR by default")
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
	jsii.Close() // or the kernel's files stay in the temporary folder
	os.Exit(code)
}
