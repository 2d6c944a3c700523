package infra

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

// nagStacks are the stacks that cdk-nag checks, with every rule of two of its packs.
var nagStacks = []string{"prod", "options"}

// finding is a line of a cdk-nag report.
type finding struct {
	Rule       string `json:"ruleId"`
	Resource   string `json:"resourceId"`
	Compliance string `json:"compliance"`
	Info       string `json:"ruleInfo"`
}

// addNagChecks makes cdk-nag check a stack during synthesis.
func addNagChecks(stack awscdk.Stack) {
	props := &cdknag.NagPackProps{ReportFormats: &[]cdknag.NagReportFormat{cdknag.NagReportFormat_JSON}}
	awscdk.Aspects_Of(stack).Add(cdknag.NewAwsSolutionsChecks(props), nil)
	awscdk.Aspects_Of(stack).Add(cdknag.NewServerlessChecks(props), nil)
}

// readFindings reads the cdk-nag reports of a stack.
func readFindings(out, stack string) []finding {
	var all []finding
	for _, pack := range []string{"AwsSolutions", "Serverless"} {
		files, err := filepath.Glob(filepath.Join(out, pack+"-*"+stack+"-NagReport.json"))
		if err != nil || len(files) != 1 {
			panic(fmt.Errorf("reports of %s on %s: %v, %w", pack, stack, files, err))
		}
		content, err := os.ReadFile(files[0])
		if err != nil {
			panic(err)
		}
		var report struct {
			Lines []finding `json:"lines"`
		}
		if err := json.Unmarshal(content, &report); err != nil {
			panic(err)
		}
		all = append(all, report.Lines...)
	}
	return all
}

// acceptedFindings are the accepted findings, each with its reason. A new finding fails the
// test, and so does an accepted one that no longer occurs.
var acceptedFindings = []struct{ rule, resource, reason string }{
	{"AwsSolutions-IAM5", "/(Api|Lifecycle)Role/DefaultPolicy/", "a block may name any pool: sqs:GetQueueUrl is limited to this engine's prefix and reveals only whether a queue exists"},
	{"AwsSolutions-IAM5", "/(Worker|ReportsWorker|EuropeWorker|Own)Role/DefaultPolicy/", "by the option Secrets: a definition may name any secret whose name has the prefix of the option"},
	{"AwsSolutions-APIG4", "/ApiRouteHealth$", "a health check has no credentials, and the response contains no data"},
	{"AwsSolutions-APIG4", "/ApiRoutePage(Files)?$", "by the options Page and OpenAnswers: static files without any data"},
	{"AwsSolutions-APIG4", "/ApiRouteAnswerPage$", "by the option OpenAnswers: a static page without any data"},
	{"AwsSolutions-APIG4", "/ApiRoute(Question|Answers)$", "by the option OpenAnswers: the engine checks the token, which the gateway cannot, before it reads anything"},
	{"AwsSolutions-APIG4", "/ApiRoute(Hooks|Forms)$", "by the option OpenTriggers: the engine checks the proof of a call, which the gateway cannot; what a form has is public"},
	{"AwsSolutions-SQS3", "/SchedulesDlq/", "it is the dead-letter queue of a rule and of a function, which the check does not recognise"},
	{"Serverless-SQSRedrivePolicy", "Dlq/", "a dead-letter queue has no dead-letter queue"},
	{"Serverless-LambdaDLQ", "/(Api|Lifecycle|Observer|Worker|ReportsWorker|EuropeWorker|Own)Function/", "invoked by a gateway or a queue, never asynchronously: a failure goes back to the caller or the queue"},
	{"Serverless-LambdaDLQ", "/SweeperFunction/", "its failures go to a queue by a destination, which contains more than a dead letter"},
	{"Serverless-LambdaEventSourceMappingDestination", "Mapping/", "destinations are for streams; failed messages go to the dead-letter queue"},
	{"Serverless-LambdaTracing", "Function/", "AWS bills each trace of X-Ray: the option Tracing turns it on"},
	{"Serverless-LambdaDefaultMemorySize", "/OwnFunction/", "a user's function, created for the test"},
}

func TestNag_FindingsHaveReasons(t *testing.T) {
	used, checked, found := map[int]bool{}, 0, 0
	for _, name := range nagStacks {
		for _, f := range stacks()[name].findings {
			checked++
			if f.Compliance == "Compliant" || f.Compliance == "N/A" {
				continue
			}
			found++
			known := false
			for i, a := range acceptedFindings {
				if regexp.MustCompile("^("+a.rule+")").MatchString(f.Rule) && regexp.MustCompile(a.resource).MatchString(f.Resource) {
					known, used[i] = true, true
				}
			}
			if !known {
				t.Errorf("%s on %s (%s): %s", f.Rule, f.Resource, f.Compliance, f.Info)
			}
		}
	}
	if checked < 100 {
		t.Errorf("cdk-nag made only %d checks", checked)
	}
	for i, a := range acceptedFindings {
		if !used[i] || a.reason == "" {
			t.Errorf("%s on %s is accepted for %q, and does not occur", a.rule, a.resource, a.reason)
		}
	}
	t.Logf("cdk-nag: %d checks, %d findings, %d reasons", checked, found, len(acceptedFindings))
}
