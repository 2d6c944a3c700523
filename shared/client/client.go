// Package client calls the HTTP API of the engine, with the types of shared/views and
// shared/workflow. The CLI and the end-to-end tests use it.
//
//	c, err := client.New(client.Options{URL: "http://localhost:3030"})
//	started, _, err := c.Start(ctx, views.StartRequest{Workflow: "fleet/upgrade_firmware"})
//	last, err := c.Wait(ctx, started.ID, time.Second, nil)
//
// An error that the service answers is a [*workflow.Error] with its code and issues.
// If the service cannot be reached, the error is an [*UnreachableError]. Requests
// that may be sent twice are retried after transient errors, with growing, jittered
// pauses. Lists are iterators that fetch page after page.
//
//   - client.go: options. transport.go: headers and retries. request.go: calls, lists,
//     and answers.
//   - definitions.go, entities.go, executions.go, wait.go, workers.go: the routes.
//
// Package auth authorises requests to a deployed service, with a token or IAM
// credentials.
package client

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Options configure [New].
type Options struct {
	// URL is the address of the service: "http://localhost:3030".
	URL string

	// Tenant and Actor name the caller to a service that trusts headers; empty
	// means the service's defaults. A service behind an authorizer ignores them.
	Tenant, Actor string

	// Roles are the roles of the caller, separated by commas. Like Tenant and Actor, they need a
	// service that trusts headers.
	Roles string

	// Headers are sent with every request, for example Authorization.
	Headers http.Header

	// HTTP sends the requests; nil means a client with a timeout of one minute.
	HTTP *http.Client

	// Retries is how often a request that may be sent twice is retried; 0 means 4,
	// a negative number never.
	Retries int

	// Backoff is the pause before the first retry; it doubles with each retry, up to 10 s. 0 means
	// 200 ms. A pause is at least as long as the response's Retry-After; a response with more than
	// 10 s is not retried.
	Backoff time.Duration

	// Jitter returns a number from 0 to 1; a pause is shortened by up to half, in proportion to it.
	// Nil draws at random.
	Jitter func() float64

	// OnSkipped is called with the ids of executions that a page of a list leaves out, or does not
	// tell in full: a newer release of the service has written them, or their stored outcomes are
	// lost. Nil ignores them.
	OnSkipped func(ids []string)

	// Sleep waits for d; nil uses a timer.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Client calls one service. It is safe for concurrent use.
type Client struct {
	base      string // the URL without a trailing slash
	transport *transport
	sleep     func(ctx context.Context, d time.Duration) error
}

// Build is the build of the service.
type Build struct {
	Commit  string `json:"commit"`
	Go      string `json:"go"`
	Version string `json:"version"`
}

// New makes a client. It sends no request.
func New(opt Options) (*Client, error) {
	u, err := url.Parse(opt.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, workflow.Errorf(workflow.CodeInvalid, "%q is not a URL of a service: want http://host:port", opt.URL)
	}
	if opt.HTTP == nil {
		opt.HTTP = &http.Client{Timeout: time.Minute}
	}
	if opt.Retries == 0 {
		opt.Retries = 4
	}
	if opt.Backoff == 0 {
		opt.Backoff = 200 * time.Millisecond
	}
	if opt.Jitter == nil {
		opt.Jitter = rand.Float64
	}
	if opt.Sleep == nil {
		opt.Sleep = sleep
	}
	return &Client{base: strings.TrimSuffix(opt.URL, "/"), transport: &transport{opt}, sleep: opt.Sleep}, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Health returns nil if the service can serve requests.
func (c *Client) Health(ctx context.Context) error {
	_, err := get[struct{}](ctx, c, "health")
	return err
}

// Caller returns who the caller is to the service, and what it may call.
func (c *Client) Caller(ctx context.Context) (views.CallerView, error) {
	return get[views.CallerView](ctx, c, "caller")
}

// Version returns the build of the service.
func (c *Client) Version(ctx context.Context) (Build, error) {
	return get[Build](ctx, c, "version")
}
