package workerhost

import (
	"context"
	"log/slog"
	"maps"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/worker"
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
	if reply, err := handle(t.Context(), events.SQSEvent{}); err != nil || reply.BatchItemFailures == nil || measured[topology.MetricFailedPacks] != 4 {
		t.Errorf("%v, %v, measured %v", reply, err, measured)
	}
}
