package client

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Options say whom to talk to and as whom.
type Options struct {
	// URL is where the service is: "http://localhost:3030".
	URL string

	// Tenant and Actor name the caller to a service that trusts headers; empty
	// takes its defaults. Behind an authorizer they are ignored.
	Tenant, Actor string

	// Headers are sent with every request, an Authorization for example.
	Headers http.Header

	// HTTP sends the requests; nil is a client with a time-out of a minute.
	HTTP *http.Client

	// Retries is how often a request that may be sent twice is sent again; 0 is
	// 4, less is never.
	Retries int

	// Backoff is the pause before the first repetition; it doubles with each. 0
	// is 200ms.
	Backoff time.Duration

	// Jitter gives the share, from 0 to 1, by which a pause is shortened by up to
	// a half; nil draws at random.
	Jitter func() float64

	// Sleep waits; nil waits for real.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Client talks to one service. It may be used by many goroutines at a time.
type Client struct {
	base      string // the URL without a slash at its end
	transport *transport
	sleep     func(ctx context.Context, d time.Duration) error
}

// Started is what is known of a run that has been asked for.
type Started struct {
	ID     string                       `json:"id"`
	State  statemachines.ExecutionState `json:"state"`
	Status statemachines.Status         `json:"status"`
}

// Build is what the service was built of.
type Build struct {
	Commit  string `json:"commit"`
	Go      string `json:"go"`
	Version string `json:"version"`
}

// New checks the options; it sends nothing.
func New(opt Options) (*Client, error) {
	u, err := url.Parse(opt.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, workflow.Errorf(workflow.CodeInvalid, "%q is not the address of a service: want http://host:port", opt.URL)
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

// Health is nil when the service takes requests.
func (c *Client) Health(ctx context.Context) error {
	_, err := get[struct{}](ctx, c, "health")
	return err
}

// Version is the build of the service.
func (c *Client) Version(ctx context.Context) (Build, error) {
	return get[Build](ctx, c, "version")
}
