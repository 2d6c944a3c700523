package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/infra"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// contextJSON is the context from the CDK command line; settings override it.
const contextJSON = `{"stage": "from-context", "version": "9.9.9", "alarmTopicArn": "arn:aws:sns:eu-west-1:123456789012:pager",
	"tokenKeys": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:token-keys-AbCdEf", "openAnswers": "true", "secrets": "ssm:/acme/",
	"@aws-cdk/core:bootstrapQualifier": "acme01", "@aws-cdk/core:permissionsBoundary": {"name": "limits-of-the-team"}}`

func TestMain(m *testing.M) {
	if os.Getenv(asApp) != "" {
		main()
		return
	}
	_ = os.Setenv("CDK_CONTEXT_JSON", contextJSON) // before the kernel copies the environment
	infra.SilenceJSII()
	code := m.Run()
	jsii.Close()
	os.Exit(code)
}

// asApp is the variable that makes this test's binary the app, for the CDK command line.
const asApp = "LOCKSTEP_TEST_AS_APP"

// runCDK synthesises the app as somebody who deploys it does, with the CDK command line
// (make npm), and returns its output and the template.
func runCDK(t *testing.T, context ...string) (output, template string, err error) {
	t.Helper()
	cli, err := filepath.Abs("../../../localstack/node_modules/.bin/cdk")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cli); err != nil {
		t.Fatalf("the CDK command line is missing: make npm: %v", err)
	}
	out := t.TempDir()
	args := []string{"synth", "--quiet", "--app", os.Args[0], "--output", out, "-c", "functionsDir=" + writeDummyFunctions(t)}
	for _, c := range context {
		args = append(args, "-c", c)
	}
	cmd := exec.Command(cli, args...)
	cmd.Dir = t.TempDir()
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "CDK_CONTEXT_JSON=") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, asApp+"=1", "CI=true", "CDK_DISABLE_CLI_TELEMETRY=true")
	text, err := cmd.CombinedOutput()
	content, _ := os.ReadFile(filepath.Join(out, "Lockstep-dev.template.json")) // none after an error
	return string(text), string(content), err
}

// What the command line passes as context is text, and a boundary that is silently ignored would
// leave every role without it.
func TestCDK_PassesPermissionsBoundary(t *testing.T) {
	output, template, err := runCDK(t, "stage=dev", "permissionsBoundary=limits-of-the-team")
	if err != nil || strings.Count(template, `"PermissionsBoundary": {`) != strings.Count(template, `"Type": "AWS::IAM::Role"`) || !strings.Contains(template, ":policy/limits-of-the-team") {
		t.Errorf("%v: %s, %d boundaries of %d roles", err, output, strings.Count(template, `"PermissionsBoundary": {`), strings.Count(template, `"Type": "AWS::IAM::Role"`))
	}
	output, _, err = runCDK(t, "stage=dev", cdkBoundary+`={"name":"limits-of-the-team"}`)
	if err == nil || !strings.Contains(output, "use -c permissionsBoundary=NAME") {
		t.Errorf("an object of CDK's as text: %v: %s", err, output)
	}
}

// writeDummyFunctions writes files in place of the built functions.
func writeDummyFunctions(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range topology.Functions {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "bootstrap"), []byte(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// synthesizeTemplate returns the path, the resources and the manifest of a synthesis.
func synthesizeTemplate(t *testing.T, s settings) (string, map[string]any, string) {
	t.Helper()
	s.FunctionsDir, s.OutDir = writeDummyFunctions(t), t.TempDir()
	file, err := synthesize(s)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var parsed struct{ Resources map[string]any }
	if err := json.Unmarshal(content, &parsed); err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(s.OutDir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	return file, parsed.Resources, string(manifest)
}

// propertiesByType returns the properties of the resources of a type.
func propertiesByType(t *testing.T, resources map[string]any, kind string) []map[string]any {
	t.Helper()
	var found []map[string]any
	for _, r := range resources {
		if r := r.(map[string]any); r["Type"] == kind {
			found = append(found, r["Properties"].(map[string]any))
		}
	}
	if len(found) == 0 {
		t.Fatalf("no %s", kind)
	}
	return found
}

func TestSynthesize_UsesContextAndSettings(t *testing.T) {
	file, resources, manifest := synthesizeTemplate(t, settings{Stage: "prod"})
	if filepath.Base(file) != "Lockstep-prod.template.json" {
		t.Errorf("template in %s", file)
	}
	for _, alarm := range propertiesByType(t, resources, "AWS::CloudWatch::Alarm") {
		if got := fmt.Sprint(alarm["AlarmActions"]); got != "[arn:aws:sns:eu-west-1:123456789012:pager]" {
			t.Errorf("an alarm notifies %s", got)
		}
	}
	if !strings.Contains(manifest, `"terminationProtection": true`) {
		t.Error("the stack of prod has no termination protection")
	}
	// The account's bootstrap qualifier and permissions boundary.
	for _, f := range propertiesByType(t, resources, "AWS::Lambda::Function") {
		if got := fmt.Sprint(f["Code"]); !strings.Contains(got, "cdk-acme01-assets-") {
			t.Errorf("the code is in %s", got)
		}
		if got := fmt.Sprint(f["Tags"]); !strings.Contains(got, "Value:9.9.9") {
			t.Errorf("tags %s", got)
		}
	}
	if !strings.Contains(manifest, "cdk-acme01-deploy-role") || strings.Contains(manifest, "hnb659fds") {
		t.Error("the deployment uses another bootstrap stack")
	}
	open := 0
	for _, r := range propertiesByType(t, resources, "AWS::ApiGatewayV2::Route") {
		if strings.HasSuffix(fmt.Sprint(r["RouteKey"]), " /answers") {
			open++
		}
	}
	if env := fmt.Sprint(propertiesByType(t, resources, "AWS::Lambda::Function")); open != 2 || !strings.Contains(env, topology.EnvTokenKeys+":arn:aws:secretsmanager:eu-west-1:123456789012:secret:token-keys-AbCdEf") {
		t.Errorf("%d routes for the bearers of tokens, or no keys", open)
	}
	if env := fmt.Sprint(propertiesByType(t, resources, "AWS::Lambda::Function")); !strings.Contains(env, topology.EnvSecretsFrom+":ssm:/acme/") {
		t.Error("no function knows where the secrets are")
	}
	for _, role := range propertiesByType(t, resources, "AWS::IAM::Role") {
		if got := fmt.Sprint(role["PermissionsBoundary"]); !strings.Contains(got, ":policy/limits-of-the-team") {
			t.Errorf("a role has the boundary %s", got)
		}
	}
}

// A release's template is deployed without CDK: it needs nothing from the bucket of CDK's
// bootstrap, and does not check the bootstrap's version.
func TestSynthesize_FunctionsInABucketOfTheirOwn(t *testing.T) {
	file, resources, _ := synthesizeTemplate(t, settings{AssetsPrefix: "lockstep/v1.2.3/"})
	functions := propertiesByType(t, resources, "AWS::Lambda::Function")
	for _, f := range functions {
		code, _ := f["Code"].(map[string]any)
		if key, _ := code["S3Key"].(string); fmt.Sprint(code["S3Bucket"]) != "map[Fn::Sub:${AssetsBucket}]" || !strings.HasPrefix(key, "lockstep/v1.2.3/") {
			t.Errorf("a function is in %v", code)
		}
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var parsed struct{ Parameters, Rules map[string]any }
	if err := json.Unmarshal(content, &parsed); err != nil || len(functions) != len(topology.Functions) {
		t.Fatalf("%d functions, %v", len(functions), err)
	}
	if len(parsed.Parameters) != 1 || parsed.Parameters[assetsBucket] == nil || len(parsed.Rules) > 0 || strings.Contains(string(content), "cdk-acme01") {
		t.Errorf("parameters %v, rules %v, or the bucket of CDK's bootstrap", parsed.Parameters, parsed.Rules)
	}
}

func TestSynthesize_LocalSettings(t *testing.T) {
	file, resources, manifest := synthesizeTemplate(t, settings{Local: "true", NamePrefix: "here", Architecture: "x86_64", LogLevel: "debug", Config: "{job: {lease: 10s}}"})
	if filepath.Base(file) != "Lockstep-from-context.template.json" || strings.Contains(manifest, `"terminationProtection": true`) {
		t.Errorf("wrong file %s, or termination protection", file)
	}
	propertiesByType(t, resources, "AWS::Lambda::Url")
	for _, f := range propertiesByType(t, resources, "AWS::Lambda::Function") {
		if name := fmt.Sprint(f["FunctionName"]); !strings.HasPrefix(name, "here-") || fmt.Sprint(f["Architectures"]) != "[x86_64]" {
			t.Errorf("function %s on %v", name, f["Architectures"])
		}
		if env := fmt.Sprint(f["Environment"]); !strings.Contains(env, topology.EnvConfigInline+":{job: {lease: 10s}}") {
			t.Errorf("environment %s", env)
		}
	}
}

func TestSynthesize_ReturnsErrorOnInvalidSettings(t *testing.T) {
	functions := writeDummyFunctions(t)
	for want, s := range map[string]settings{
		"bootstrap is missing": {FunctionsDir: filepath.Join(functions, "nowhere")},
		"stage":                {FunctionsDir: functions, Stage: "!"},
		"cannot be local":      {FunctionsDir: functions, Stage: "prod", Local: "true"},
		"want each table once": {FunctionsDir: functions, ExistingTables: "executions"},
		"jobs is \"\": want":   {FunctionsDir: functions, ExistingTables: "executions=abc"},
		`boundary "{\"name`:    {FunctionsDir: functions, PermissionsBoundary: `{"name":"x"}`},
		"network: want":        {FunctionsDir: functions, WorkerSubnets: "subnet-0a1b2c3d"},
		"certificate \"\"":     {FunctionsDir: functions, Domain: "lockstep.example.com"},
		// CDK panics for this one.
		"synthesis: ": {FunctionsDir: functions, StackName: "under_score"},
	} {
		s.OutDir = t.TempDir()
		if file, err := synthesize(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %q, %v", want, file, err)
		}
	}
}
