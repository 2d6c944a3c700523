package infra

import (
	"encoding/json"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// deployActions are the actions with which CloudFormation creates, reads, changes and deletes the
// resources of a type, with their tags.
var deployActions = map[string]string{
	"AWS::ApiGatewayV2::Api":          "apigateway:POST apigateway:GET apigateway:PATCH apigateway:PUT apigateway:DELETE apigateway:TagResource apigateway:UntagResource",
	"AWS::ApiGatewayV2::ApiMapping":   "apigateway:POST apigateway:GET apigateway:PATCH apigateway:DELETE",
	"AWS::ApiGatewayV2::Authorizer":   "apigateway:POST apigateway:GET apigateway:PATCH apigateway:DELETE",
	"AWS::ApiGatewayV2::DomainName":   "apigateway:POST apigateway:GET apigateway:PATCH apigateway:DELETE apigateway:TagResource apigateway:UntagResource",
	"AWS::ApiGatewayV2::Integration":  "apigateway:POST apigateway:GET apigateway:PATCH apigateway:DELETE",
	"AWS::ApiGatewayV2::Route":        "apigateway:POST apigateway:GET apigateway:PATCH apigateway:DELETE",
	"AWS::ApiGatewayV2::Stage":        "apigateway:POST apigateway:GET apigateway:PATCH apigateway:DELETE apigateway:TagResource apigateway:UntagResource logs:CreateLogDelivery logs:GetLogDelivery logs:UpdateLogDelivery logs:DeleteLogDelivery logs:ListLogDeliveries logs:PutResourcePolicy logs:DescribeResourcePolicies",
	"AWS::CloudWatch::Alarm":          "cloudwatch:PutMetricAlarm cloudwatch:DescribeAlarms cloudwatch:DeleteAlarms cloudwatch:TagResource cloudwatch:UntagResource cloudwatch:ListTagsForResource",
	"AWS::CloudWatch::Dashboard":      "cloudwatch:PutDashboard cloudwatch:GetDashboard cloudwatch:DeleteDashboards",
	"AWS::DynamoDB::Table":            "dynamodb:CreateTable dynamodb:DescribeTable dynamodb:UpdateTable dynamodb:DeleteTable dynamodb:DescribeTimeToLive dynamodb:UpdateTimeToLive dynamodb:DescribeContinuousBackups dynamodb:UpdateContinuousBackups dynamodb:TagResource dynamodb:UntagResource dynamodb:ListTagsOfResource dynamodb:GetResourcePolicy",
	"AWS::Events::Rule":               "events:PutRule events:DescribeRule events:DeleteRule events:PutTargets events:RemoveTargets events:ListTargetsByRule events:TagResource events:UntagResource events:ListTagsForResource",
	"AWS::IAM::Policy":                "iam:PutRolePolicy iam:GetRolePolicy iam:DeleteRolePolicy",
	"AWS::IAM::Role":                  "iam:CreateRole iam:GetRole iam:UpdateRole iam:UpdateAssumeRolePolicy iam:PutRolePermissionsBoundary iam:DeleteRole iam:PutRolePolicy iam:GetRolePolicy iam:DeleteRolePolicy iam:ListRolePolicies iam:ListAttachedRolePolicies iam:TagRole iam:UntagRole",
	"AWS::Lambda::Alias":              "lambda:CreateAlias lambda:GetAlias lambda:UpdateAlias lambda:DeleteAlias",
	"AWS::Lambda::EventInvokeConfig":  "lambda:PutFunctionEventInvokeConfig lambda:GetFunctionEventInvokeConfig lambda:UpdateFunctionEventInvokeConfig lambda:DeleteFunctionEventInvokeConfig",
	"AWS::Lambda::EventSourceMapping": "lambda:CreateEventSourceMapping lambda:GetEventSourceMapping lambda:UpdateEventSourceMapping lambda:DeleteEventSourceMapping lambda:TagResource lambda:UntagResource lambda:ListTags",
	"AWS::Lambda::Function":           "lambda:CreateFunction lambda:GetFunction lambda:GetFunctionConfiguration lambda:UpdateFunctionCode lambda:UpdateFunctionConfiguration lambda:DeleteFunction lambda:PutFunctionRecursionConfig lambda:GetFunctionRecursionConfig lambda:TagResource lambda:UntagResource lambda:ListTags s3:GetObject iam:PassRole",
	"AWS::Lambda::Permission":         "lambda:AddPermission lambda:RemovePermission lambda:GetPolicy",
	"AWS::Lambda::Version":            "lambda:PublishVersion lambda:ListVersionsByFunction lambda:GetFunctionConfiguration lambda:DeleteFunction",
	"AWS::Logs::LogGroup":             "logs:CreateLogGroup logs:DescribeLogGroups logs:DeleteLogGroup logs:PutRetentionPolicy logs:DeleteRetentionPolicy logs:TagResource logs:UntagResource logs:ListTagsForResource",
	"AWS::SQS::Queue":                 "sqs:CreateQueue sqs:GetQueueAttributes sqs:GetQueueUrl sqs:SetQueueAttributes sqs:DeleteQueue sqs:TagQueue sqs:UntagQueue sqs:ListQueueTags",
	"AWS::SQS::QueuePolicy":           "sqs:SetQueueAttributes sqs:GetQueueAttributes",
}

// boundaryActions are those of deployActions whose requests have the key iam:PermissionsBoundary. A
// condition on it refuses every other action.
var boundaryActions = []string{"iam:CreateRole", "iam:PutRolePolicy", "iam:DeleteRolePolicy", "iam:PutRolePermissionsBoundary"}

// testsOwn are the types of resources that the stacks under test have beside an engine.
var testsOwn = []string{"AWS::SNS::Topic", "AWS::CDK::Metadata"}

func readDeploying(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "deploying.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// quoted returns the text in the first fence of a language after a heading.
func quoted(t *testing.T, text, heading, language string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, "\n"+heading+"\n")
	_, rest, opened := strings.Cut(rest, "\n```"+language+"\n")
	body, _, closed := strings.Cut(rest, "\n```\n")
	if !found || !opened || !closed {
		t.Fatalf("no fence %s below %q", language, heading)
	}
	return body
}

// Whoever deploys may create, change and delete everything that a stack has, and its condition on
// the boundary refuses nothing that it does not mean.
func TestDeployer_MayDeployEveryResource(t *testing.T) {
	var document any
	if err := json.Unmarshal([]byte(quoted(t, readDeploying(t), "## Who deploys", "json")), &document); err != nil {
		t.Fatal(err)
	}
	policy := statements(document)
	allows := func(action string) bool {
		return slices.ContainsFunc(policy, func(s statement) bool {
			condition := render(s.condition)
			return (!strings.Contains(condition, "iam:PermissionsBoundary") || slices.Contains(boundaryActions, action)) &&
				slices.ContainsFunc(s.actions, func(pattern string) bool {
					matched, err := path.Match(pattern, action)
					if err != nil {
						t.Fatal(err)
					}
					return matched && s.effect == "Allow"
				})
		})
	}
	kinds := map[string]bool{}
	for _, x := range stacks() {
		for _, r := range x.Resources {
			kinds[r.Type] = true
		}
	}
	for kind := range kinds {
		if deployActions[kind] == "" && !slices.Contains(testsOwn, kind) && kind != "AWS::Lambda::Url" { // that of an emulator
			t.Errorf("%s: write its actions into the test, and into the policy", kind)
		}
	}
	needed := map[string]bool{}
	for _, kind := range slices.Sorted(maps.Keys(deployActions)) {
		if !kinds[kind] {
			t.Errorf("%s is in no stack", kind)
		}
		for action := range strings.FieldsSeq(deployActions[kind]) {
			needed[action] = true
			if !allows(action) {
				t.Errorf("%s: %s is not allowed", kind, action)
			}
		}
	}
	for _, s := range policy {
		for _, pattern := range s.actions {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(needed)), func(action string) bool { matched, _ := path.Match(pattern, action); return matched }) &&
				pattern != "ssm:GetParameters" { // CDK reads the version of its bootstrap
				t.Errorf("nothing needs %s", pattern)
			}
		}
		if s.effect == "Allow" && slices.Contains(s.actions, "iam:CreateRole") && !strings.Contains(render(s.condition), "iam:PermissionsBoundary") {
			t.Error("roles may be created without the boundary")
		}
	}
}

var quotaAlarmsRE = regexp.MustCompile(`\| CloudWatch: alarms \| [0-9,]+ \| (\d+), and two to four for each pool \|`)

func TestDeployer_QuotaOfAlarmsIsTheTemplates(t *testing.T) {
	match := quotaAlarmsRE.FindStringSubmatch(readDeploying(t))
	if match == nil {
		t.Fatal("no row of alarms in the table of quotas")
	}
	if want := strconv.Itoa(len(stacks()["prod"].byType(t, "AWS::CloudWatch::Alarm"))); match[1] != want {
		t.Errorf("docs/deploying.md says that there are %s alarms, the template has %s", match[1], want)
	}
}

// The example for GitHub is YAML, has what OIDC needs, and deploys with the versions of this repository.
func TestDeployer_ExampleForGitHub(t *testing.T) {
	var example struct {
		Permissions map[string]string
		Jobs        map[string]struct {
			RunsOn string `yaml:"runs-on"`
			Steps  []struct {
				Uses, Run string
				With      map[string]any
			}
		}
	}
	if err := yaml.UnmarshalWithOptions([]byte(quoted(t, readDeploying(t), "## Who deploys", "yaml")), &example, yaml.DisallowUnknownField()); err != nil {
		t.Fatal(err)
	}
	if example.Permissions["id-token"] != "write" || example.Permissions["contents"] != "read" || len(example.Permissions) != 2 {
		t.Errorf("permissions %v", example.Permissions)
	}
	job := example.Jobs["deploy"]
	if job.RunsOn == "" {
		t.Error("the job runs nowhere")
	}
	var all []string
	for i, step := range job.Steps {
		if (step.Uses == "") == (step.Run == "") {
			t.Errorf("step %d uses %q and runs %q", i, step.Uses, step.Run)
		}
		if strings.HasPrefix(step.Uses, "aws-actions/configure-aws-credentials@") && (step.With["role-to-assume"] == nil || step.With["aws-region"] == nil) {
			t.Errorf("credentials from %v", step.With)
		}
		all = append(all, step.Uses+step.Run)
	}
	lock, err := os.ReadFile(filepath.Join("..", "localstack", "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	cdk := regexp.MustCompile(`"aws-cdk": "([0-9.]+)"`).FindSubmatch(lock)
	if cdk == nil {
		t.Fatal("no version of CDK in localstack/package.json")
	}
	order := []string{"actions/checkout@", "aws-actions/configure-aws-credentials@", "lockstep functions --out", "npx aws-cdk@" + string(cdk[1]) + " deploy"}
	last := -1
	for _, what := range order {
		at := slices.IndexFunc(all, func(step string) bool { return strings.Contains(step, what) })
		if at <= last {
			t.Errorf("%q is not after the steps before it: %q", what, all)
		}
		last = at
	}
}

// What functions may do with tables is what the local stack holds them to, in every stack.
func TestRoles_TableActionsAreRights(t *testing.T) {
	checked := 0
	for _, name := range []string{"prod", "dev", "options"} {
		for _, function := range topology.Functions {
			want := map[string][]string{}
			for _, table := range topology.Tables {
				for _, r := range topology.RightsFor(function, table) {
					arn := "Table" + pascalCase(table) + ".Arn}"
					if r.Index != "" {
						arn += "/index/" + r.Index
					}
					want[arn] = append(want[arn], r.Actions...)
				}
			}
			got := actionsByResource(t, stacks()[name], function, "dynamodb")
			for _, arn := range slices.Sorted(maps.Keys(got)) {
				checked++
				slices.Sort(want[arn])
				if !slices.Equal(got[arn], want[arn]) {
					t.Errorf("%s, %s: %q on %s, want %q", name, function, got[arn], arn, want[arn])
				}
			}
			if len(got) != len(want) {
				t.Errorf("%s, %s: %d tables and indexes, want %d", name, function, len(got), len(want))
			}
		}
	}
	if checked < 60 {
		t.Errorf("only %d", checked)
	}
}
