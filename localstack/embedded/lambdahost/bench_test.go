package lambdahost_test

import (
	"io"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/localstack/embedded/lambdahost"
)

func BenchmarkDeployedFunction_InvokeWarm(b *testing.B) {
	h := lambdahost.New(lambdahost.Options{Log: io.Discard})
	fn, err := h.Deploy(lambdahost.Function{Name: "fn", Binary: bootstrap, Timeout: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close(b.Context())
	for b.Loop() {
		if _, err := fn.Invoke(b.Context(), event("", "")); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(fn.Counts().Starts), "starts")
}
