package boot_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// The line follows CloudWatch's embedded metric format, in the unit of the metric.
func TestWriteMetric_EmbeddedMetricFormat(t *testing.T) {
	var b bytes.Buffer
	at := time.UnixMilli(1767225600123)
	for name, want := range map[string]string{
		topology.MetricStuckExecutions: `{"StuckExecutions":7,"_aws":{"CloudWatchMetrics":[{"Namespace":"Lockstep","Dimensions":[["deployment"]],` +
			`"Metrics":[{"Name":"StuckExecutions","Unit":"Count"}]}],"Timestamp":1767225600123},"deployment":"Lockstep-prod",` +
			`"level":"INFO","timestamp":"2026-01-01T00:00:00.123Z"}` + "\n",
		topology.MetricLockAge: `{"LockAgeSeconds":7,"_aws":{"CloudWatchMetrics":[{"Namespace":"Lockstep","Dimensions":[["deployment"]],` +
			`"Metrics":[{"Name":"LockAgeSeconds","Unit":"Seconds"}]}],"Timestamp":1767225600123},"deployment":"Lockstep-prod",` +
			`"level":"INFO","timestamp":"2026-01-01T00:00:00.123Z"}` + "\n",
	} {
		b.Reset()
		if err := boot.WriteMetric(&b, "Lockstep-prod", name, 7, at); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Errorf("wrote %s", b.String())
		}
	}
	b.Reset()
	if err := boot.WriteMetric(&b, "", topology.MetricStuckExecutions, 3, at); err != nil || b.Len() > 0 {
		t.Errorf("without a deployment: wrote %q, %v", b.String(), err)
	}
	if err := boot.WriteMetric(&b, "d", "JobsPerEntity", 3, at); err == nil || b.Len() > 0 {
		t.Errorf("a metric that is not listed: wrote %q, %v", b.String(), err)
	}
}
