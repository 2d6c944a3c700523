package sqs

import (
	"errors"
	"net/http"
	"strings"
	"testing"
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
