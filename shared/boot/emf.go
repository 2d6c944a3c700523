package boot

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// recordMetric returns a function that writes metrics of this deployment to the log.
func recordMetric(log *slog.Logger) func(ctx context.Context, name string, n int) {
	return func(ctx context.Context, name string, n int) {
		if err := WriteMetric(os.Stdout, os.Getenv(topology.EnvDeployment), name, n, time.Now()); err != nil {
			log.WarnContext(ctx, "metric not written", "metric", name, observe.Err(err))
		}
	}
}

// WriteMetric writes a metric's value as one line in CloudWatch's embedded metric format. Without a
// deployment, as on a local stack, nothing reads metrics, so it writes nothing. A metric that is
// not in [topology.Metrics] is an error.
//
// The line has a level and a timestamp like log lines, because Lambda drops lines below a
// function's log level, and treats a line that lacks one of them as INFO.
func WriteMetric(w io.Writer, deployment, name string, n int, at time.Time) error {
	m, known := topology.LookupMetric(name)
	switch {
	case !known:
		return fmt.Errorf("there is no metric %q", name)
	case deployment == "":
		return nil
	}
	type measured struct {
		Name string
		Unit string
	}
	type directive struct {
		Namespace  string
		Dimensions [][]string
		Metrics    []measured
	}
	line, err := workflow.EncodeJSON(map[string]any{
		"_aws": map[string]any{
			"Timestamp": at.UnixMilli(),
			"CloudWatchMetrics": []directive{{
				topology.MetricNamespace, [][]string{{topology.MetricDimension}}, []measured{{m.Name, m.Unit}},
			}},
		},
		"level":                  "INFO",
		"timestamp":              at.UTC().Format(time.RFC3339Nano),
		topology.MetricDimension: deployment,
		m.Name:                   n,
	})
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}
