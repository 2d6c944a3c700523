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

// nagStacks are the stacks that cdk-nag reads, with every rule of two of its packs.
var nagStacks = []string{"prod", "options"}

// finding is a line of cdk-nag's report.
type finding struct {
	Rule       string `json:"ruleId"`
	Resource   string `json:"resourceId"`
	Compliance string `json:"compliance"`
	Info       string `json:"ruleInfo"`
}

// addNagChecks lets cdk-nag read a stack when it is synthesised.
func addNagChecks(stack awscdk.Stack) {
	props := &cdknag.NagPackProps{ReportFormats: &[]cdknag.NagReportFormat{cdknag.NagReportFormat_JSON}}
	awscdk.Aspects_Of(stack).Add(cdknag.NewAwsSolutionsChecks(props), nil)
	awscdk.Aspects_Of(stack).Add(cdknag.NewServerlessChecks(props), nil)
}

// readFindings reads cdk-nag's reports on a stack.
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

// acceptedFindings are the findings that stay, each with its reason. One that nothing
// finds any more fails the test, and so does one that is new.
var acceptedFindings = []struct{ rule, resource, reason string }{
	{"AwsSolutions-IAM5", "/(Api|Lifecycle)Role/DefaultPolicy/", "the name of a pool is free text: sqs:GetQueueUrl ends at this engine's prefix and tells only whether a queue exists"},
	{"AwsSolutions-APIG4", "/ApiRouteHealth$", "a health check has no credentials, and the answer says nothing but that there is one"},
	{"AwsSolutions-APIG4", "/ApiRoutePage(Files)?$", "by the option Page: static files without any data"},
	{"AwsSolutions-SQS3", "/SchedulesDlq/", "it is the dead-letter queue of a rule and of a function's failures, which the check does not know"},
	{"Serverless-SQSRedrivePolicy", "Dlq/", "a dead-letter queue is where redriving ends"},
	{"Serverless-LambdaDLQ", "/(Api|Lifecycle|Worker|ReportsWorker|Own)Function/", "invoked by a gateway or a queue, never asynchronously: what fails goes back to the caller or to the queue with its dead letters"},
	{"Serverless-LambdaDLQ", "/SweeperFunction/", "its failures go to a queue by a destination, which says more than a dead letter"},
	{"Serverless-LambdaEventSourceMappingDestination", "Mapping/", "destinations are for streams; what fails goes to the dead-letter queue of the queue"},
	{"Serverless-LambdaTracing", "Function/", "X-Ray is paid for by the trace: the option Tracing turns it on"},
	{"Serverless-LambdaDefaultMemorySize", "/OwnFunction/", "a function of the user's, made for the test"},
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
		t.Errorf("cdk-nag has looked at %d things only", checked)
	}
	for i, a := range acceptedFindings {
		if !used[i] || a.reason == "" {
			t.Errorf("%s on %s is accepted for %q, and nothing finds it", a.rule, a.resource, a.reason)
		}
	}
	t.Logf("cdk-nag: %d checks, %d findings, %d reasons", checked, found, len(acceptedFindings))
}
