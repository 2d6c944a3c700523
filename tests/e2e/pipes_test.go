package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

const chargeDefinition = `package: test
name: charge
version: 1.0.0
parameters: {type: object, required: [base, orders], properties: {base: {type: string}, orders: {type: array}}}
steps:
  - {label: charge, runOn: item, foreach: {items: "${parameters.orders}"}, http: {method: POST, url: "${parameters.base}/charge", body: {order: "${item}"}}}
pipes:
  - {step: charge, table: payments, map: {txn: result.body.txn, amount: result.body.amount, at: job.endedAt}, static: {source: shop}}
`

// R60: a row for each job that has ended well, typed, and once. While the
// storage of rows is down, executions complete as ever; the rows become dead letters, and are stored
// when these are redriven.
func TestPipes_RowsAreStoredOrReplayed(t *testing.T) {
	t.Parallel()
	server, url := serveReachable(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct{ Order int }
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &call)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"txn":"t-%d","amount":%d.5}`, call.Order, call.Order)
	}))
	defer server.Close()
	d, q := serveTables(t), serveQueues(t)
	s := startStack(t, stackOptions{env: []string{d.env(), q.env()}})
	ctx := t.Context()
	if _, _, err := s.Publish(ctx, []byte(chargeDefinition), false); err == nil || !strings.Contains(err.Error(), `there is no table "payments"`) {
		t.Errorf("without its table: %v", err)
	}
	columns := []workflow.Column{{Name: "txn", Type: workflow.ColumnString, Required: true}, {Name: "amount", Type: workflow.ColumnNumber}, {Name: "at", Type: workflow.ColumnDatetime}, {Name: "source", Type: workflow.ColumnString}}
	if _, err := s.PutTable(ctx, "payments", views.TableRequest{Columns: columns}); err != nil {
		t.Fatal(err)
	}
	s.publish(chargeDefinition)
	rows := func(where string) (txns []string) {
		t.Helper()
		for row, err := range s.Rows(ctx, "payments", where, "") {
			if err != nil {
				t.Fatal(err)
			}
			var values struct {
				Txn    string
				Amount float64
				At     time.Time
				Source string
			}
			if err := json.Unmarshal(row.Values, &values); err != nil || values.Source != "shop" || values.At.IsZero() || row.Step != "charge" {
				t.Errorf("%s: %v", row.Values, err)
			}
			txns = append(txns, values.Txn)
		}
		return txns
	}
	start := func(orders string) string {
		return s.startExecution("test/charge", fmt.Sprintf(`{"base":%q,"orders":%s}`, url, orders))
	}
	expect := func(what, where string, want ...string) {
		t.Helper()
		testkit.EventuallyWithin(t, 2*time.Minute, 50*time.Millisecond, what, func() bool { return slices.Equal(rows(where), want) })
	}

	first := start(`[1,2,3]`)
	s.waitForState(first, sm.ExecutionCompletedAck)
	expect("the rows of the first", "", "t-1", "t-2", "t-3")
	expect("some of them", `amount > 2 && row.execution == "`+first+`"`, "t-2", "t-3")

	// A delivery is given up after one try, which else would take a day.
	client := awssqs.New(awssqs.Options{Region: "us-east-1", BaseEndpoint: &q.http.URL, Credentials: credentials.NewStaticCredentialsProvider("local", "local", "")})
	queueURL := func(name string) *string {
		out, err := client.GetQueueUrl(ctx, &awssqs.GetQueueUrlInput{QueueName: aws.String("lockstep-" + name)})
		if err != nil {
			t.Fatal(err)
		}
		return out.QueueUrl
	}
	queue, dlq := queueURL(topology.QueueHooksOut), queueURL(topology.QueueHooksOut+topology.DLQSuffix)
	attributes := func(queue *string, name types.QueueAttributeName) string {
		out, err := client.GetQueueAttributes(ctx, &awssqs.GetQueueAttributesInput{QueueUrl: queue, AttributeNames: []types.QueueAttributeName{name}})
		if err != nil {
			t.Fatal(err)
		}
		return out.Attributes[string(name)]
	}
	policy := fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":"1"}`, attributes(dlq, types.QueueAttributeNameQueueArn))
	if _, err := client.SetQueueAttributes(ctx, &awssqs.SetQueueAttributesInput{QueueUrl: queue, Attributes: map[string]string{"RedrivePolicy": policy}}); err != nil {
		t.Fatal(err)
	}
	d.rejectWhen(func(operation, body string) bool { return operation == "PutItem" && strings.Contains(body, `-data"`) })
	second := start(`[4,5]`)
	if x := s.waitForState(second, sm.ExecutionCompletedAck); x.Error != nil {
		t.Errorf("%+v", x.Error)
	}
	testkit.EventuallyWithin(t, 2*time.Minute, 50*time.Millisecond, "its rows are a dead letter", func() bool {
		return attributes(dlq, types.QueueAttributeNameApproximateNumberOfMessages) == "1"
	})
	expect("no rows of the second", "", "t-1", "t-2", "t-3")
	failed, err := s.TableDeliveries(ctx, "payments")
	if i := slices.IndexFunc(failed, func(a workflow.DeliveryAttempt) bool { return a.Execution == second }); err != nil || i < 0 || failed[i].Delivered || failed[i].Error == "" {
		t.Errorf("%+v, %v", failed, err)
	}

	d.rejectWhen(nil)
	if code, out, errOut := runLockstep(t, "", "--url="+s.url, "redrive", "--queue", "hooks-out"); code != 0 {
		t.Fatalf("redrive: exit %d\n%s%s", code, out, errOut)
	}
	expect("all rows", "", "t-1", "t-2", "t-3", "t-4", "t-5")
	code, out, errOut := runLockstep(t, "", "--url="+s.url, "tables", "export", "payments", "--format", "csv", "--where", `txn == "t-4"`)
	if lines := strings.Split(strings.TrimSpace(out), "\n"); code != 0 || len(lines) != 2 || lines[0] != "_id,_at,_execution,_workflow,_step,txn,amount,at,source" || !strings.Contains(lines[1], second+",test/charge:1.0.0,charge,t-4,4.5,") {
		t.Errorf("export: exit %d\n%s%s", code, out, errOut)
	}
}
