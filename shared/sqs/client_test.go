package sqs

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// failingHTTPClient counts requests and fails all of them.
type failingHTTPClient struct{ requests int }

func (h *failingHTTPClient) Do(*http.Request) (*http.Response, error) {
	h.requests++
	return nil, errors.New("connection refused")
}

// A pool's name may be too long for a queue's name with the prefix. SQS is not asked
// for such a queue, because it would refuse the request.
func TestClient_PoolNameTooLongForQueue(t *testing.T) {
	h := &failingHTTPClient{}
	client := awssqs.New(awssqs.Options{
		Region: "eu-west-1", BaseEndpoint: aws.String("http://localhost"), HTTPClient: h, Retryer: aws.NopRetryer{},
		Credentials: aws.AnonymousCredentials{},
	})
	const prefix = "lockstep-jobs-"
	b := Open(client, Queues{Prefix: prefix})
	url, err := b.LookupPoolQueue(t.Context(), time.Now(), strings.Repeat("p", maxQueueName-len(prefix)+1))
	if url != "" || err != nil || h.requests > 0 {
		t.Errorf("look up a name that is too long: %q, %v, after %d requests", url, err, h.requests)
	}
	if _, err := b.PoolQueueURL(t.Context(), time.Now(), strings.Repeat("p", 80)); !workflow.Is(err, workflow.CodeUnavailable) {
		t.Errorf("URL of a name that is too long: %v", err)
	}
	if _, err := b.LookupPoolQueue(t.Context(), time.Now(), strings.Repeat("p", maxQueueName-len(prefix))); err == nil || h.requests == 0 {
		t.Errorf("look up the longest name: %v after %d requests", err, h.requests)
	}
}

// A block of an earlier release may name a pool whose queue would be the dead-letter queue of another
// pool. It has no queue.
func TestClient_DeadLettersAreNoPool(t *testing.T) {
	h := &failingHTTPClient{}
	client := awssqs.New(awssqs.Options{
		Region: "eu-west-1", BaseEndpoint: aws.String("http://localhost"), HTTPClient: h, Retryer: aws.NopRetryer{},
		Credentials: aws.AnonymousCredentials{},
	})
	b := Open(client, Queues{Prefix: "lockstep-jobs-"})
	if url, err := b.LookupPoolQueue(t.Context(), time.Now(), "print-dlq"); url != "" || err != nil || h.requests > 0 {
		t.Errorf("look up: %q, %v, after %d requests", url, err, h.requests)
	}
	if _, err := b.PoolQueueURL(t.Context(), time.Now(), "print-dlq"); !workflow.Is(err, workflow.CodeUnavailable) {
		t.Errorf("its URL: %v", err)
	}
	if _, err := b.LookupPoolQueue(t.Context(), time.Now(), "print"); err == nil || h.requests == 0 {
		t.Errorf("look up print: %v after %d requests", err, h.requests)
	}
}

func TestDelaySeconds_RoundsUpAndCaps(t *testing.T) {
	for d, want := range map[time.Duration]int32{
		-time.Hour: 0, 0: 0, 1: 1, time.Second: 1, 1001 * time.Millisecond: 2, 14 * time.Minute: 840, 15 * time.Minute: 900, 48 * time.Hour: 900,
	} {
		if got := delaySeconds(d); got != want {
			t.Errorf("delay(%s) = %d, want %d", d, got, want)
		}
	}
}

func TestMessageGroupPattern_AcceptsWhatSQSAccepts(t *testing.T) {
	for name, want := range map[string]bool{
		"acme": true, "a.b-c_d/e:f@g": true, `back\slash`: true, "": false, "with space": false, "zürich": false, strings.Repeat("x", 129): false,
	} {
		if got := messageGroupPattern.MatchString(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

// silentHTTPClient ends each request without an answer, as a client does that waits for one for a while.
type silentHTTPClient struct{}

func (silentHTTPClient) Do(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(25 * time.Second):
		return nil, errors.New("timeout awaiting response headers")
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// A queue that does not answer is unavailable long before its caller has no time left, however many
// messages there are to send.
func TestSender_EndsCallsWithoutAnswer(t *testing.T) {
	for name, call := range map[string]func(context.Context, *Sender) error{
		"send": func(ctx context.Context, s *Sender) error {
			return s.SendWakeups(ctx, 0, make([]workflow.Wakeup, 500)...)
		},
		"count": func(ctx context.Context, s *Sender) error { _, err := s.QueuedWakeups(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const left = 2 * time.Minute
				ctx, cancel := context.WithTimeout(t.Context(), left)
				defer cancel()
				client := awssqs.New(awssqs.Options{
					Region: "eu-west-1", BaseEndpoint: aws.String("http://localhost"), HTTPClient: silentHTTPClient{}, Credentials: aws.AnonymousCredentials{},
				})
				sender := Open(client, Queues{Lifecycle: "http://localhost/lifecycle"}).WithMeter(nil)
				begun := time.Now()
				err := call(ctx, sender)
				if took := time.Since(begun); !workflow.Is(err, workflow.CodeUnavailable) || ctx.Err() != nil || took > left/3 {
					t.Errorf("%v after %s", err, took)
				}
			})
		})
	}
}
