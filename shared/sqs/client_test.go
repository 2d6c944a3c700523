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

// refusingHTTPClient counts the requests that reach it and answers none.
type refusingHTTPClient struct{ requests int }

func (n *refusingHTTPClient) Do(*http.Request) (*http.Response, error) {
	n.requests++
	return nil, errors.New("nobody is there")
}

// The longest name of a pool does not fit behind every prefix. No queue can have such
// a name, so that SQS need not be asked, which would refuse to answer.
func TestClient_PoolNameTooLongForQueue(t *testing.T) {
	n := &refusingHTTPClient{}
	client := awssqs.New(awssqs.Options{
		Region: "eu-west-1", BaseEndpoint: aws.String("http://localhost"), HTTPClient: n, Retryer: aws.NopRetryer{},
		Credentials: aws.AnonymousCredentials{},
	})
	const prefix = "lockstep-jobs-"
	b := Open(client, Queues{Prefix: prefix})
	url, err := b.LookupPoolQueue(t.Context(), time.Now(), strings.Repeat("p", maxQueueName-len(prefix)+1))
	if url != "" || err != nil || n.requests > 0 {
		t.Errorf("a name too long: %q, %v, after %d requests", url, err, n.requests)
	}
	if _, err := b.PoolQueueURL(t.Context(), time.Now(), strings.Repeat("p", 80)); !workflow.Is(err, workflow.CodeUnavailable) {
		t.Errorf("whoever needs the pool is told %v", err)
	}
	if _, err := b.LookupPoolQueue(t.Context(), time.Now(), strings.Repeat("p", maxQueueName-len(prefix))); err == nil || n.requests == 0 {
		t.Errorf("a name that fits is not asked for: %v", err)
	}
}
