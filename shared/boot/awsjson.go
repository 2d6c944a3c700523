package boot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// awsService is an AWS service that is called with one signed JSON request. The SDK's clients for
// one or two calls would be dependencies of every function.
type awsService struct {
	name        string // as used in signatures
	target      string // prefix of an action's name
	envEndpoint string // the variable that the AWS SDKs use
	region      string // empty means that of the configuration
	china       bool
}

var (
	secretsManager = awsService{name: "secretsmanager", target: "secretsmanager.", envEndpoint: envSecretsEndpoint}
	parameterStore = awsService{name: "ssm", target: "AmazonSSM.", envEndpoint: "AWS_ENDPOINT_URL_SSM"}
)

const (
	envSecretsEndpoint = "AWS_ENDPOINT_URL_SECRETS_MANAGER"

	// maxServiceAnswer bounds the response of a service, including a text that takes twice its
	// bytes as JSON.
	maxServiceAnswer = 256 << 10
)

// call calls an action. Its error contains nothing of the request and the response.
func (s awsService) call(ctx context.Context, c aws.Config, action string, in map[string]any) (answer []byte, status int, err error) {
	if s.region == "" {
		s.region = c.Region
	}
	endpoint := os.Getenv(s.envEndpoint)
	if endpoint == "" && c.BaseEndpoint != nil {
		endpoint = *c.BaseEndpoint
	}
	if endpoint == "" {
		endpoint = "https://" + s.name + "." + s.region + ".amazonaws.com"
		if s.china {
			endpoint += ".cn"
		}
	}
	body, err := workflow.EncodeJSON(in)
	if err != nil {
		return nil, 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(endpoint, "/")+"/", bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", s.target+action)
	credentials, err := c.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, 0, err
	}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(ctx, credentials, r, hex.EncodeToString(sum[:]), s.name, s.region, time.Now()); err != nil {
		return nil, 0, err
	}
	res, err := c.HTTPClient.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = res.Body.Close() }() // it has been read
	answer, err = io.ReadAll(io.LimitReader(res.Body, maxServiceAnswer))
	return answer, res.StatusCode, err
}
