// Package auth authorises requests to a deployed service: with a token, or with a signature by IAM
// credentials (AWS Signature Version 4, service execute-api), which it finds where AWS's own tools
// find them.
package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/url"
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

// Credentials authorise a caller.
type Credentials struct {
	// Token is sent unchanged, over https or to this machine only. It takes precedence over a
	// signature.
	Token string

	// TokenFrom returns the token for each request, if Token is empty; nil for none.
	TokenFrom func(ctx context.Context) (string, error)

	// IAM returns the credentials to sign with; nil signs nothing.
	IAM aws.CredentialsProvider

	// Region is the region for which requests to a custom domain are signed, over https only.
	// Without it such requests are not signed. The addresses of API Gateway contain their region.
	Region string
}

// DefaultCredentials returns the credentials of this process: LOCKSTEP_TOKEN, and those of AWS's
// default chain (the environment, a profile, single sign-on or the machine's role). The latter are
// loaded when the first request needs a signature.
func DefaultCredentials() Credentials {
	return Credentials{Token: os.Getenv(topology.EnvToken), Region: os.Getenv(topology.EnvRegion), IAM: AWSProfile("")}
}

// AWSProfile returns the credentials of a profile of AWS's own tools, or of their default chain for
// "". They are loaded when the first request needs a signature.
func AWSProfile(name string) aws.CredentialsProvider {
	load := sync.OnceValues(func() (aws.Config, error) {
		return awsconfig.LoadDefaultConfig(context.Background(), awsconfig.WithSharedConfigProfile(name))
	})
	return aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		c, err := load()
		if err != nil {
			return aws.Credentials{}, err
		}
		return c.Credentials.Retrieve(ctx) // from a cache, until they expire
	})
}

// CanSign reports whether requests to an address can be signed: it belongs to API Gateway, or uses
// https and the caller names a region.
func CanSign(address, region string) bool {
	u, err := url.Parse(address)
	return err == nil && (apiGatewayHost.MatchString(u.Hostname()) || u.Scheme == "https" && region != "")
}

// NewClient makes an HTTP client that authorises its requests. Each has a timeout of one minute. It
// does not follow a redirect to another host, because that host would get the credentials.
func NewClient(c Credentials, now func() time.Time) *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: NewTransport(c, now), CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if to, from := r.URL, via[0].URL; to.Host != from.Host || to.Scheme != from.Scheme {
			return workflow.Errorf(workflow.CodeUnauthorized, "%s redirects to %s, which is another service: use its address", from.Host, to.Host)
		}
		if len(via) >= maxRedirects {
			return workflow.Errorf(workflow.CodeUnavailable, "%s redirects again and again", r.URL.Host)
		}
		return nil
	}}
}

const maxRedirects = 5

// NewTransport makes a transport that authorises requests and sends them.
func NewTransport(c Credentials, now func() time.Time) http.RoundTripper {
	return &transport{c, now, http.DefaultTransport}
}

type transport struct {
	Credentials
	now  func() time.Time
	next http.RoundTripper
}

// apiGatewayHost matches the hosts at which API Gateway checks signatures. Requests to
// other hosts, such as a local stack, are signed only if a region is named.
var apiGatewayHost = regexp.MustCompile(`^[a-z0-9]+\.execute-api\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?$`)

// IsLoopback reports whether the host of an address is this machine.
func IsLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// RoundTrip sends a copy of the request with its authorization. A token is sent only over https or
// to this machine, because whoever can read it can use it. A signature belongs to one request and
// is no secret.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	hasToken := t.Token != "" || t.TokenFrom != nil || r.Header.Get("Authorization") != ""
	if hasToken && r.URL.Scheme != "https" && !IsLoopback(r.URL.Hostname()) {
		return nil, workflow.Errorf(workflow.CodeUnauthorized, "no token is sent to %s://%s, where others on the way can read it: use its https address, or a tunnel from this machine (ssh -L), or no token", r.URL.Scheme, r.URL.Host)
	}
	region := ""
	if match := apiGatewayHost.FindStringSubmatch(r.URL.Hostname()); match != nil {
		region = match[1]
	} else if r.URL.Scheme == "https" {
		region = t.Region
	}
	switch {
	case r.Header.Get("Authorization") != "": // the request has credentials of its own
	case t.Token != "":
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+t.Token)
	case t.TokenFrom != nil:
		token, err := t.TokenFrom(r.Context())
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+token)
	case region != "" && t.IAM != nil:
		r = r.Clone(r.Context())
		if err := t.sign(r, service, region); err != nil {
			return nil, err
		}
	}
	return t.next.RoundTrip(r)
}

// service is the service for which requests are signed.
const service = "execute-api"

// sign adds a signature of the whole request: method, path, query, headers and body. It
// is valid for a few minutes, for one service in one region.
func (t *transport) sign(r *http.Request, service, region string) error {
	creds, err := t.IAM.Retrieve(r.Context())
	if err != nil {
		return workflow.Errorf(workflow.CodeUnauthorized, "no AWS credentials: log in to AWS, or set %s: %w", topology.EnvToken, err)
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
	return v4.NewSigner().SignHTTP(r.Context(), creds, r, hex.EncodeToString(sum[:]), service, region, t.now())
}
