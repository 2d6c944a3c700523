package main

import (
	"strings"
	"testing"
)

const output = `{"Action":"run","Test":"TestSQS_SupportsUsedFeatures/a_long_poll"}
{"Action":"output","Test":"TestSQS_SupportsUsedFeatures/a_batch","Output":"    queues_test.go:7: 11 entries: operation error SQS: StatusCode: 400, a | b\n"}
{"Action":"output","Test":"TestSQS_SupportsUsedFeatures/a_batch","Output":"    queues_test.go:9: and so on\n"}
{"Action":"fail","Test":"TestSQS_SupportsUsedFeatures/a_batch"}
{"Action":"pass","Test":"TestSQS_SupportsUsedFeatures/a_long_poll"}
{"Action":"fail","Test":"TestSQS_SupportsUsedFeatures"}
not JSON
`

func TestTable_HasWhatDiffers(t *testing.T) {
	ours := strings.ReplaceAll(output, `"fail"`, `"pass"`)
	got := table([]results{parse([]byte(ours)), parse([]byte(output)), {}, parse([]byte(ours))})
	want := `| behaviour | ours: 2 of 2 | moto 5.2.5: 1 of 2 | dynalite 4.0.0: 0 of 0 | ElasticMQ 1.7.1: 2 of 2 |
| --- | --- | --- | --- | --- |
| SQS: a batch | yes | no: 11 entries: SQS: 400, a / b |  | yes |
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
