package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"regexp"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Credentials let a caller in.
type Credentials struct {
	// Token is sent as it is. It goes before a signature.
	Token string

	// IAM gives the credentials to sign with; nil: nothing is signed.
	IAM aws.CredentialsProvider
}

// DefaultCredentials are the credentials of this process: LOCKSTEP_TOKEN, and those that every tool
// of AWS would use, of the environment, a profile, single sign-on or the machine's
// role. They are looked for when the first request needs a signature.
func DefaultCredentials() Credentials {
	load := sync.OnceValues(func() (aws.Config, error) { return awsconfig.LoadDefaultConfig(context.Background()) })
	return Credentials{
		Token: os.Getenv(topology.EnvToken),
		IAM: aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
			c, err := load()
			if err != nil {
				return aws.Credentials{}, err
			}
			return c.Credentials.Retrieve(ctx) // from a cache, until they expire
		}),
	}
}

// NewClient is an HTTP client whose requests are authorised, with a time-out of a
// minute each.
func NewClient(c Credentials, now func() time.Time) *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: NewTransport(c, now)}
}

// NewTransport authorises requests and sends them.
func NewTransport(c Credentials, now func() time.Time) http.RoundTripper {
	return &transport{c, now, http.DefaultTransport}
}

type transport struct {
	Credentials
	now  func() time.Time
	next http.RoundTripper
}

// apiGatewayHost is an address at which API Gateway checks signatures. Others, such as
// that of a local stack, are never sent one.
var apiGatewayHost = regexp.MustCompile(`^[a-z0-9]+\.execute-api\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?$`)

// RoundTrip sends a copy of the request that says who asks.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	match := apiGatewayHost.FindStringSubmatch(r.URL.Hostname())
	switch {
	case t.Token != "":
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+t.Token)
	case match != nil && t.IAM != nil:
		r = r.Clone(r.Context())
		if err := t.sign(r, match[1]); err != nil {
			return nil, err
		}
	}
	return t.next.RoundTrip(r)
}

// sign adds the signature of the whole request: method, path, query, headers and
// body. It is good for a few minutes, in one region.
func (t *transport) sign(r *http.Request, region string) error {
	creds, err := t.IAM.Retrieve(r.Context())
	if err != nil {
		return workflow.Errorf(workflow.CodeUnauthorized, "there is nothing to sign with: log in to AWS, or set %s: %w", topology.EnvToken, err)
	}
	var body []byte
	if r.Body != nil {
		if body, err = io.ReadAll(r.Body); err != nil {
			return err
		}
		_ = r.Body.Close() // it has been read
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	sum := sha256.Sum256(body)
	return v4.NewSigner().SignHTTP(r.Context(), creds, r, hex.EncodeToString(sum[:]), "execute-api", region, t.now())
}
