package localstack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/sealed"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// awsConfig is a configuration of the SDK for LocalStack.
func awsConfig() aws.Config {
	return aws.Config{HTTPClient: http.DefaultClient, Region: region, BaseEndpoint: aws.String(localStack.URL()), Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}
}

// callService sends a request of the JSON protocol to a service of LocalStack.
func callService(t testing.TB, service, action string, in, out any) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, localStack.URL(), bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", action)
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, r, hex.EncodeToString(sum[:]), service, region, time.Now()); err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }() // it has been read
	if err := json.NewDecoder(res.Body).Decode(out); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %+v, %v", action, res.StatusCode, out, err)
	}
}

// Secrets are read from Secrets Manager and from the parameter store, each by the tenant and the name.
// One that is missing, of another tenant, or about to be deleted does not exist.
func TestSecrets_AreReadFromServices(t *testing.T) {
	t.Setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", localStack.URL())
	t.Setenv("AWS_ENDPOINT_URL_SSM", localStack.URL())
	ctx, prefix := t.Context(), fmt.Sprintf("stage-%d/", time.Now().UnixNano())
	var ignored struct{}
	for _, name := range []string{"bank/key", "gone"} {
		callService(t, "secretsmanager", "secretsmanager.CreateSecret", map[string]string{"Name": prefix + "acme/" + name, "SecretString": `of Secrets Manager "<ä>"`, "ClientRequestToken": strings.Repeat("0", 32)}, &ignored)
	}
	callService(t, "secretsmanager", "secretsmanager.DeleteSecret", map[string]any{"SecretId": prefix + "acme/gone", "RecoveryWindowInDays": 7}, &ignored)
	callService(t, "ssm", "AmazonSSM.PutParameter", map[string]string{"Name": "/" + prefix + "acme/bank/key", "Value": `of the parameter store "<ä>"`, "Type": "SecureString"}, &ignored)

	for from, want := range map[string]string{"secretsmanager:" + prefix: `of Secrets Manager "<ä>"`, "ssm:/" + prefix: `of the parameter store "<ä>"`} {
		s := boot.NewSecrets(from, awsConfig(), time.Now)
		if got, err := s.Secret(ctx, "acme", "bank/key"); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", from, got, err, want)
		}
		if found, err := s.Exists(ctx, "acme", "bank/key"); !found || err != nil {
			t.Errorf("%s: it exists: %v, %v", from, found, err)
		}
		for _, missing := range [][2]string{{"acme", "none"}, {"other", "bank/key"}, {"acme", "gone"}} {
			if got, err := s.Secret(ctx, missing[0], missing[1]); got != "" || !workflow.Is(err, workflow.CodeNotFound) {
				t.Errorf("%s %v: %q, %v", from, missing, got, err)
			}
			if found, err := s.Exists(ctx, missing[0], missing[1]); found || err != nil {
				t.Errorf("%s %v exists: %v, %v", from, missing, found, err)
			}
		}
	}
}

// wrappedKeys keeps the keys of tenants as the registry does.
type wrappedKeys map[string][]byte

func (k wrappedKeys) SealingKey(_ context.Context, tenant, _ string) ([]byte, error) {
	return k[tenant], nil
}

func (k wrappedKeys) PutSealingKey(_ context.Context, tenant, _ string, wrapped []byte) ([]byte, error) {
	k[tenant] = wrapped
	return wrapped, nil
}

// A value that was sealed with a key of KMS is opened by another process for the same tenant,
// execution and place, and a key that was wrapped for one tenant is not unwrapped for another.
func TestSealed_WithAKeyOfKMS(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	made, err := kms.NewFromConfig(awsConfig()).CreateKey(ctx, &kms.CreateKeyInput{})
	if err != nil {
		t.Fatal(err)
	}
	arn, keys := *made.KeyMetadata.Arn, wrappedKeys{}
	const value = `correct horse "battery"`
	sealer := sealed.NewSealer(boot.NewOpener(arn, awsConfig()), func() sealed.Store { return keys })
	one, err := sealer.Seal(ctx, "acme", "execution", map[string]string{"password": value})
	if err != nil {
		t.Fatal(err)
	}
	if raw, _ := json.Marshal(one); bytes.Contains(raw, []byte("horse")) || bytes.Contains(keys["acme"], []byte("horse")) || len(keys["acme"]) == 0 {
		t.Errorf("sealed as %s", raw)
	}
	worker := boot.NewOpener(arn, awsConfig())
	if got, err := worker.Open(ctx, "acme", "execution", one, "password"); got != value || err != nil {
		t.Errorf("opened: %q, %v", got, err)
	}
	for _, wrong := range []struct{ tenant, execution, place string }{{"other", "execution", "password"}, {"acme", "another", "password"}, {"acme", "execution", "name"}} {
		if got, err := boot.NewOpener(arn, awsConfig()).Open(ctx, wrong.tenant, wrong.execution, one, wrong.place); got != "" || err == nil {
			t.Errorf("opened for %+v: %q, %v", wrong, got, err)
		}
	}
	if _, err := boot.NewOpener(arn, awsConfig()).Open(ctx, "other", "execution", one, "password"); err == nil || !strings.HasPrefix(err.Error(), "KMS answers ") {
		t.Errorf("another tenant is refused by %v", err)
	}
}
