package localstack

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/client"
)

// testTimeout is how long anything in these tests may take before it is a failure.
const testTimeout = 3 * time.Minute

// repoRoot is the repository.
func repoRoot(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// builtProgram is a program that make has built.
func builtProgram(t testing.TB, path ...string) string {
	t.Helper()
	file := filepath.Join(append([]string{repoRoot(t), "bin"}, path...)...)
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("%s is not built: run make test-localstack", file)
	}
	return file
}

// deployedStack is one stack as the CDK command line deploys it.
type deployedStack struct {
	appProgram string   // the program that synthesises
	stackName  string   // its only stack
	context    []string // key=value
	outputs    map[string]string
}

// runCDK runs the CDK command line.
func runCDK(t testing.TB, args ...string) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 4*testTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(repoRoot(t), "localstack", "node_modules", ".bin", "cdk"), args...)
	cmd.Dir = t.TempDir() // away from any cdk.json
	cmd.Env = append(localStack.Env(), "CI=true", "CDK_DISABLE_VERSION_CHECK=1", "CDK_DISABLE_CLI_TELEMETRY=true")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		t.Fatalf("cdk %s: %v\n%s", strings.Join(args, " "), err, output.String())
	}
	printDuration("cdk "+args[0], began)
}

// cdkArguments are those that say which stack is meant.
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

// output is the one whose name begins so; CDK ends it with a hash.
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

// client talks to the stack.
func (s *deployedStack) client(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{URL: s.serveFunctionURL(t), HTTP: &http.Client{Timeout: testTimeout}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// eventually polls until ok, or fails.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(testTimeout)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(50 * time.Millisecond) // a poll, bounded by the deadline above
	}
}

// architecture of the functions that this machine can run.
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

// scenarioStack is the app of tests/localstack/app, with the addresses that its workers
// call.
func scenarioStack(t testing.TB, fleet, orders string) *deployedStack {
	t.Helper()
	return &deployedStack{
		appProgram: builtProgram(t, "scenes", "app"), stackName: "Scenes",
		context: []string{
			"architecture=" + architecture(t), "functionsDir=" + filepath.Join(repoRoot(t), "bin", "functions"),
			"workersDir=" + filepath.Join(repoRoot(t), "bin", "scenes"), "fleet=" + fleet, "orders=" + orders,
			"config={poll: 2s, job: {lease: 5s, unclaimed: 10m}, lock: {wait: 60s}}",
		},
	}
}

// settings are a configuration in which seconds stand for minutes.
const settings = "{poll: 2s, job: {lease: 10s, unclaimed: 40s}, lock: {wait: 60s}, worker: {allowHosts: [loopback, host.docker.internal]}}"

// devStack is the app of infra as it is, at the stage dev.
func devStack(t testing.TB) *deployedStack {
	t.Helper()
	return &deployedStack{
		appProgram: builtProgram(t, "scenes", "infra"), stackName: "Lockstep-dev",
		context: []string{
			"stage=dev", "local=true", "config=" + settings, "architecture=" + architecture(t), "functionsDir=" + filepath.Join(repoRoot(t), "bin", "functions"),
		},
	}
}
