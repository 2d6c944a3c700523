package metric

import (
	"encoding/json"
	"io"
	"time"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// Count writes one count of a metric at a moment, for a deployment. Without a
// deployment, as on a local stack, there is nobody to read it and nothing is
// written.
func Count(w io.Writer, deployment, name string, n int, at time.Time) error {
	if deployment == "" {
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
	line, err := json.Marshal(map[string]any{
		"_aws": map[string]any{
			"Timestamp": at.UnixMilli(),
			"CloudWatchMetrics": []directive{{
				topology.MetricNamespace, [][]string{{topology.MetricDimension}}, []measured{{name, "Count"}},
			}},
		},
		topology.MetricDimension: deployment,
		name:                     n,
	})
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}
