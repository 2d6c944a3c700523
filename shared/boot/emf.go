package boot

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// WriteMetric writes a value of a metric at a moment, for a deployment. Without a
// deployment, as on a local stack, there is nobody to read it and nothing is
// written. A metric that is not in [topology.Metrics] is refused.
//
// The line has a level and a time as lines of the log have them. Lambda drops lines
// below the level that a function is set to, and takes one that does not say both for
// a line of level INFO.
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
	line, err := json.Marshal(map[string]any{
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
