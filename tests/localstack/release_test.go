package localstack

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// releasedVersion and releasedBucket are those of the release that is deployed.
const (
	releasedVersion = "v0.0.1"
	releasedBucket  = "releases"
	releasedStack   = "Released"
)

// callAWS sends a signed request, and returns the body of the answer.
func callAWS(t testing.TB, service, method, address, contentType string, body []byte) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, r, hex.EncodeToString(sum[:]), service, region, time.Now()); err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }() // it has been read
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s, %v: %s", method, address, res.Status, err, answer)
	}
	return answer
}

// callCloudFormation sends a request about the released stack.
func callCloudFormation(t testing.TB, action string, more url.Values) []byte {
	t.Helper()
	form := url.Values{"Action": {action}, "Version": {"2010-05-15"}, "StackName": {releasedStack}}
	for name, values := range more {
		form[name] = values
	}
	return callAWS(t, "cloudformation", http.MethodPost, localStack.URL()+"/", "application/x-www-form-urlencoded", []byte(form.Encode()))
}

// A release is deployed as docs/deploying.md says for those who have neither Go nor CDK: the archive is
// unpacked, its functions are copied to a bucket, and CloudFormation creates the stack from the template
// with the bucket as its parameter. Only that this one is for an emulator is other than in a release.
func TestRelease_IsDeployedWithoutCDK(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, command := range [][]string{
		{testkit.Binary(t, "scenarios", "infra"), "-stage", "dev", "-stack", releasedStack, "-local", "true", "-config", settings, "-architecture", architecture(t),
			"-functions", filepath.Join("bin", "functions"), "-assets-prefix", "lockstep/" + releasedVersion + "/", "-out", filepath.Join(dir, "assembly")},
		{"go", "run", "./tests/dist/cmd/release", "-trial", "-version", releasedVersion, "-assembly", filepath.Join(dir, "assembly"), "-out", filepath.Join(dir, "release")},
	} {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir = testkit.Root(t)
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command[0], err, output)
		}
	}
	archive, err := zip.OpenReader(filepath.Join(dir, "release", "lockstep_"+releasedVersion+"_cloudformation.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }() // only read

	callAWS(t, "s3", http.MethodPut, localStack.URL()+"/"+releasedBucket, "", nil)
	template := ""
	for _, f := range archive.File {
		content, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		at := localStack.URL() + "/" + releasedBucket + "/lockstep/" + releasedVersion + "/" + path.Base(f.Name)
		if path.Base(f.Name) == "template.json" {
			template = at
		}
		callAWS(t, "s3", http.MethodPut, at, "application/octet-stream", body)
	}
	callCloudFormation(t, "CreateStack", url.Values{
		"TemplateURL": {template}, "Capabilities.member.1": {"CAPABILITY_IAM"},
		"Parameters.member.1.ParameterKey": {"AssetsBucket"}, "Parameters.member.1.ParameterValue": {releasedBucket},
	})
	s := &deployedStack{stackName: releasedStack, outputs: map[string]string{}}
	var status string
	eventually(t, "the stack is created", func() bool {
		var answer struct {
			Stack struct {
				Status  string `xml:"StackStatus"`
				Reason  string `xml:"StackStatusReason"`
				Outputs []struct {
					Key   string `xml:"OutputKey"`
					Value string `xml:"OutputValue"`
				} `xml:"Outputs>member"`
			} `xml:"DescribeStacksResult>Stacks>member"`
		}
		if err := xml.Unmarshal(callCloudFormation(t, "DescribeStacks", nil), &answer); err != nil {
			t.Fatal(err)
		}
		if status = answer.Stack.Status; strings.Contains(status, "FAILED") || strings.Contains(status, "ROLLBACK") {
			t.Fatalf("the stack is %s: %s", status, answer.Stack.Reason)
		}
		for _, o := range answer.Stack.Outputs {
			s.outputs[o.Key] = o.Value
		}
		return status == "CREATE_COMPLETE"
	})

	h := &stackClient{t, s.client(t)}
	answered := serveForFunctions(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"outcome":"OK"}`) }))
	if _, err := h.RegisterBlock(t.Context(), workflow.Block{Package: "test", Name: "released", Version: "1.0.0", RunOn: "device", Idempotent: true, HTTP: &workflow.Endpoint{URL: answered}}); err != nil {
		t.Fatal(err)
	}
	h.publish("package: test\nname: released\nversion: 1.0.0\nseedEntity: device\nsteps: [{label: one, functionBlock: test/released:1, runOn: device}]\n")
	h.importDevices("device-released")
	h.waitState(h.startExecution("test/released", "{}", "device-released"), sm.ExecutionCompletedAck)

	callCloudFormation(t, "DeleteStack", nil)
	eventually(t, "its functions are gone", func() bool {
		for _, name := range listResources(t) {
			if strings.HasPrefix(name, releasedStack+"-") {
				return false
			}
		}
		return true
	})
}
