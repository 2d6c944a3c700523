package metric_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/boot/metric"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// The line is what CloudWatch documents as the embedded metric format.
func TestCount(t *testing.T) {
	var b bytes.Buffer
	at := time.UnixMilli(1767225600123)
	if err := metric.Count(&b, "Lockstep-prod", topology.MetricStuckExecutions, 0, at); err != nil {
		t.Fatal(err)
	}
	want := `{"StuckExecutions":0,"_aws":{"CloudWatchMetrics":[{"Namespace":"Lockstep","Dimensions":[["deployment"]],` +
		`"Metrics":[{"Name":"StuckExecutions","Unit":"Count"}]}],"Timestamp":1767225600123},"deployment":"Lockstep-prod"}` + "\n"
	if b.String() != want {
		t.Errorf("wrote %s", b.String())
	}
	b.Reset()
	if err := metric.Count(&b, "", topology.MetricStuckExecutions, 3, at); err != nil || b.Len() > 0 {
		t.Errorf("nobody reads %q, %v", b.String(), err)
	}
}
