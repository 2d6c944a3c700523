package workerhost

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// A worker that can handle none of its packs answers each invocation well: without the metric
// nothing would tell until the packs are dead letters, a day later.
func TestLambdaHandler_MeasuresFailedPacks(t *testing.T) {
	measured := map[string]int{}
	p := &boot.Process{RecordMetric: func(_ context.Context, metric string, n int) { measured[metric] += n }}
	handle := lambdaHandler(p, worker.New(worker.Options{Pool: "p", Logger: slog.New(slog.DiscardHandler)}))
	for range 2 {
		reply, err := handle(t.Context(), events.SQSEvent{Records: []events.SQSMessage{{MessageId: "1", Body: "not a pack"}, {MessageId: "2", Body: "nor this"}}})
		if err != nil || len(reply.BatchItemFailures) != 2 {
			t.Fatalf("%v, %v", reply, err)
		}
	}
	if !maps.Equal(measured, map[string]int{topology.MetricFailedPacks: 4}) {
		t.Errorf("measured %v", measured)
	}
	if a := testkit.ReadAlarm(t, "FailedPacks"); !a.Fires([]testkit.Measured{{At: time.Now(), Value: measured[a.Metric]}}) || a.Fires(nil) {
		t.Error("packs that fail, and nothing else, should raise the alarm")
	}
	if reply, err := handle(t.Context(), events.SQSEvent{}); err != nil || reply.BatchItemFailures == nil || measured[topology.MetricFailedPacks] != 4 {
		t.Errorf("%v, %v, measured %v", reply, err, measured)
	}
}

// The queue of a pool is found by its name: one that ends in -dlq would be that of dead letters.
func TestQueueURL_RefusesDeadLetters(t *testing.T) {
	t.Setenv(topology.EnvQueueJobsPrefix, "lockstep-jobs-")
	asked := false
	p := &boot.Process{SQS: awssqs.New(awssqs.Options{Region: "eu-west-1", Retryer: aws.NopRetryer{}, Credentials: aws.AnonymousCredentials{}, HTTPClient: doFunc(func(*http.Request) (*http.Response, error) {
		asked = true
		return nil, errors.New("connection refused")
	})})}
	if url, err := queueURL(t.Context(), p, "print-dlq"); err == nil || !strings.Contains(err.Error(), "dead letters of another pool") || asked {
		t.Errorf("%q, %v, asked SQS: %v", url, err, asked)
	}
	if _, err := queueURL(t.Context(), p, "print"); err == nil || !asked {
		t.Errorf("print: %v, asked SQS: %v", err, asked)
	}
}

// A worker process with a region receives from the queue of its pool in that.
func TestQueueURL_IsThatOfTheRegion(t *testing.T) {
	t.Setenv(topology.EnvQueueJobsPrefix, "lockstep-jobs-")
	asked := ""
	p := &boot.Process{SQS: awssqs.New(awssqs.Options{Region: "eu-west-1", Retryer: aws.NopRetryer{}, Credentials: aws.AnonymousCredentials{}, HTTPClient: doFunc(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		asked = string(body)
		return nil, errors.Join(err, errors.New("connection refused"))
	})})}
	p.Config.Worker.Region = "eu"
	if _, err := queueURL(t.Context(), p, "print"); err == nil || asked != `{"QueueName":"lockstep-jobs-print--eu"}` {
		t.Errorf("%v, asked for %s", err, asked)
	}
	p.PoolURLs = map[string]string{"print": "https://here", "print@eu": "https://there"}
	if url, err := queueURL(t.Context(), p, "print"); err != nil || url != "https://there" {
		t.Errorf("%s, %v", url, err)
	}
}

type doFunc func(*http.Request) (*http.Response, error)

func (f doFunc) Do(r *http.Request) (*http.Response, error) { return f(r) }
