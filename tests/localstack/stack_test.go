package localstack

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// testTimeout is the limit of everything that the tests wait for.
const testTimeout = 6 * time.Minute

// eventually polls a condition and fails the test if it stays false.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	testkit.EventuallyWithin(t, testTimeout, 50*time.Millisecond, what, condition)
}

// deployedStack is a stack that the CDK command line deploys.
type deployedStack struct {
	appProgram string   // the CDK app
	stackName  string   // the app's only stack
	context    []string // key=value
	outputs    map[string]string
}

// runCDK runs the CDK command line.
func runCDK(t testing.TB, args ...string) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 4*testTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(testkit.Root(t), "localstack", "node_modules", ".bin", "cdk"), args...)
	cmd.Dir = t.TempDir() // away from any cdk.json
	cmd.Env = append(localStack.Env(), "CI=true", "CDK_DISABLE_VERSION_CHECK=1", "CDK_DISABLE_CLI_TELEMETRY=true")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		t.Fatalf("cdk %s: %v\n%s", strings.Join(args, " "), err, output.String())
	}
	printDuration("cdk "+args[0], began)
}

// cdkArguments are the app and its context, and more arguments.
func (s *deployedStack) cdkArguments(more ...string) []string {
	args := []string{"--app", s.appProgram, "--output", filepath.Join(localStack.Dir, "tmp", s.stackName+".out")}
	for _, line := range s.context {
		args = append(args, "--context", line)
	}
	return append(args, more...)
}

// deploy creates or updates the stack and reads its outputs.
func (s *deployedStack) deploy(t testing.TB) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "outputs.json")
	runCDK(t, append([]string{"deploy", s.stackName}, s.cdkArguments("--require-approval", "never", "--outputs-file", file)...)...)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]map[string]string
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	s.outputs = all[s.stackName]
}

// destroy removes the stack.
func (s *deployedStack) destroy(t testing.TB) {
	t.Helper()
	runCDK(t, append([]string{"destroy", s.stackName, "--force"}, s.cdkArguments()...)...)
}

// output returns the output whose name has a prefix; CDK appends a hash.
func (s *deployedStack) output(t testing.TB, name string) string {
	t.Helper()
	for key, value := range s.outputs {
		if strings.HasPrefix(strings.TrimPrefix(key, "Engine"), name) {
			return value
		}
	}
	t.Fatalf("the stack %s has no output %s: %v", s.stackName, name, s.outputs)
	return ""
}

// serveFunctionURL serves the stack's function URL on this machine.
func (s *deployedStack) serveFunctionURL(t testing.TB) string {
	t.Helper()
	handler, err := localStack.FunctionURLProxy(s.output(t, "ApiUrl"), nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// client returns a client of the stack.
func (s *deployedStack) client(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{URL: s.serveFunctionURL(t), HTTP: &http.Client{Timeout: testTimeout}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// architecture is that of functions that this machine can run.
func architecture(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOARCH").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(out)) == "arm64" {
		return "arm64"
	}
	return "x86_64"
}

// scenarioStack is the app of tests/localstack/app, with the URLs that its workers call.
func scenarioStack(t testing.TB, fleetURL, commandsURL string) *deployedStack {
	t.Helper()
	return &deployedStack{
		appProgram: testkit.Binary(t, "scenarios", "app"), stackName: "Scenarios",
		context: []string{
			"architecture=" + architecture(t), "functionsDir=" + filepath.Join(testkit.Root(t), "bin", "functions"),
			"workersDir=" + filepath.Join(testkit.Root(t), "bin", "scenarios"), "fleet=" + fleetURL, "commands=" + commandsURL,
			"config={poll: 2s, job: {lease: 5s, unclaimed: 10m}, lock: {wait: 60s}}",
		},
	}
}

// settings is a configuration with seconds instead of minutes.
const settings = "{poll: 2s, job: {lease: 10s, unclaimed: 40s}, lock: {wait: 60s}, worker: {allowHosts: [loopback, host.docker.internal]}}"

// devStack is the app of infra at the stage dev.
func devStack(t testing.TB) *deployedStack {
	t.Helper()
	return &deployedStack{
		appProgram: testkit.Binary(t, "scenarios", "infra"), stackName: "Lockstep-dev",
		context: []string{
			"stage=dev", "local=true", "config=" + settings, "architecture=" + architecture(t), "functionsDir=" + filepath.Join(testkit.Root(t), "bin", "functions"),
		},
	}
}

// createTokenKeys creates the secret with the keys of resume tokens, and returns its ARN.
func createTokenKeys(t testing.TB) string {
	t.Helper()
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	name := fmt.Sprintf("token-keys-%d", time.Now().UnixNano())
	keys := fmt.Sprintf(`{"current":"2026","keys":{"2026":%q}}`, base64.StdEncoding.EncodeToString(key))
	var made struct{ ARN string }
	callService(t, "secretsmanager", "secretsmanager.CreateSecret", map[string]string{"Name": name, "SecretString": keys, "ClientRequestToken": strings.Repeat("0", 32)}, &made)
	if made.ARN == "" {
		t.Fatal("the secret was not created")
	}
	return made.ARN
}
