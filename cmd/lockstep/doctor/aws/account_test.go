package aws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/encoding/cbor"
	"github.com/google/go-cmp/cmp"
)

// testAccount returns an account whose services are all answered by serve.
// A retry does not wait.
func testAccount(t *testing.T, serve http.HandlerFunc) *Account {
	t.Helper()
	server := httptest.NewServer(serve)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
	} {
		t.Setenv(name, value)
	}
	withoutDelay := config.WithRetryer(func() aws.Retryer {
		return retry.AddWithMaxBackoffDelay(retry.NewStandard(), time.Nanosecond)
	})
	a, err := Open(t.Context(), withoutDelay)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The stack is read with all pages of its resources, and every request is signed
// for its own service.
func TestAccount_ReadsStackInPages(t *testing.T) {
	a := testAccount(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Authorization"), "/eu-west-1/cloudformation/aws4_request") {
			t.Errorf("Authorization is %q", r.Header.Get("Authorization"))
		}
		switch r.FormValue("Action") + r.FormValue("NextToken") {
		case "DescribeStacks":
			fmt.Fprint(w, `<DescribeStacksResponse xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/"><DescribeStacksResult><Stacks><member>
				<StackName>S</StackName><StackStatus>UPDATE_COMPLETE</StackStatus><CreationTime>2026-01-02T03:04:05.678Z</CreationTime><LastUpdatedTime>2026-02-03T04:05:06Z</LastUpdatedTime><EnableTerminationProtection>true</EnableTerminationProtection>
				<Outputs><member><OutputKey>EngineApiUrl12AB</OutputKey><OutputValue>https://x.test/</OutputValue></member></Outputs>
				</member></Stacks></DescribeStacksResult></DescribeStacksResponse>`)
		case "ListStackResources":
			fmt.Fprint(w, `<ListStackResourcesResponse><ListStackResourcesResult><StackResourceSummaries><member>
				<ResourceType>AWS::DynamoDB::Table</ResourceType><LogicalResourceId>T</LogicalResourceId><PhysicalResourceId>table-1</PhysicalResourceId>
				</member></StackResourceSummaries><NextToken>more</NextToken></ListStackResourcesResult></ListStackResourcesResponse>`)
		case "ListStackResourcesmore":
			fmt.Fprint(w, `<ListStackResourcesResponse><ListStackResourcesResult><StackResourceSummaries><member>
				<ResourceType>AWS::SQS::Queue</ResourceType><LogicalResourceId>Q</LogicalResourceId><PhysicalResourceId>https://q/1</PhysicalResourceId>
				</member></StackResourceSummaries></ListStackResourcesResult></ListStackResourcesResponse>`)
		default:
			t.Errorf("unexpected request %q", r.FormValue("Action"))
		}
	})
	s, err := a.Stack(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	if s.Status != "UPDATE_COMPLETE" || s.ChangedAt.Month() != time.February || !s.TerminationProtected || s.APIURL() != "https://x.test" {
		t.Errorf("read %+v", s)
	}
	if diff := cmp.Diff([]Resource{{TypeTable, "T", "table-1"}, {TypeQueue, "Q", "https://q/1"}}, s.Resources); diff != "" {
		t.Error(diff)
	}
	if got := s.PhysicalIDs(TypeQueue); len(got) != 1 || got[0] != "https://q/1" {
		t.Errorf("queues %v", got)
	}
}

// Each service writes its errors in a format of its own.
func TestAccount_ParsesServiceErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		header string
		body   string
		call   func(ctx context.Context, a *Account) error
		is     func(error) bool
	}{
		{"stack name not valid", 400, "", `<ErrorResponse><Error><Type>Sender</Type><Code>ValidationError</Code><Message>1 validation error detected: Value 'a b' at 'stackName' failed to satisfy constraint</Message></Error></ErrorResponse>`,
			func(ctx context.Context, a *Account) error { _, err := a.Stack(ctx, "a b"); return err }, func(err error) bool { return err != nil && !errors.Is(err, ErrStackNotFound) }},
		{"stack not found", 400, "", `<ErrorResponse><Error><Type>Sender</Type><Code>ValidationError</Code><Message>Stack with id S does not exist</Message></Error></ErrorResponse>`,
			func(ctx context.Context, a *Account) error { _, err := a.Stack(ctx, "S"); return err }, func(err error) bool { return errors.Is(err, ErrStackNotFound) }},
		{"access denied in XML", 403, "", `<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>`,
			func(ctx context.Context, a *Account) error { _, err := a.Stack(ctx, "S"); return err }, IsAccessDenied},
		{"function not found", 404, "ResourceNotFoundException:http://internal.amazon.com/", `{"Message":"Function not found"}`,
			func(ctx context.Context, a *Account) error { _, err := a.Function(ctx, "f"); return err }, IsNotFound},
		{"rule not found", 400, "", `{"__type":"com.amazonaws.events#ResourceNotFoundException","message":"Rule r does not exist"}`,
			func(ctx context.Context, a *Account) error { _, err := a.Rule(ctx, "r"); return err }, IsNotFound},
		{"access denied in JSON", 400, "", `{"__type":"AccessDeniedException","Message":"no"}`,
			func(ctx context.Context, a *Account) error { _, err := a.Rule(ctx, "r"); return err }, IsAccessDenied},
		{"queue not found", 400, "", `{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"gone"}`,
			func(ctx context.Context, a *Account) error { _, err := a.Queue(ctx, "https://sqs/1/q"); return err }, IsNotFound},
		{"no AWS service", 418, "", `I am`,
			func(ctx context.Context, a *Account) error { _, err := a.Mapping(ctx, "m"); return err }, func(err error) bool { return err != nil && !IsNotFound(err) && !IsAccessDenied(err) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			requests := 0
			a := testAccount(t, func(w http.ResponseWriter, _ *http.Request) {
				requests++
				if c.header != "" {
					w.Header().Set("X-Amzn-ErrorType", c.header)
				}
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			})
			if err := c.call(t.Context(), a); !c.is(err) || requests != 1 {
				t.Errorf("%v after %d requests", err, requests)
			}
		})
	}
}

// A transient error is retried, a bounded number of times.
func TestAccount_RetriesTransientErrors(t *testing.T) {
	requests, failures := 0, 2
	a := testAccount(t, func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests <= failures {
			w.WriteHeader([]int{http.StatusInternalServerError, http.StatusBadRequest}[requests%2])
			fmt.Fprint(w, `{"__type":"ThrottlingException","message":"slow down"}`)
			return
		}
		fmt.Fprint(w, `{"UUID":"m","State":"Enabled","EventSourceArn":"q","FunctionArn":"f","FunctionResponseTypes":["ReportBatchItemFailures"]}`)
	})
	m, err := a.Mapping(t.Context(), "m")
	if want := (Mapping{"m", "Enabled", "q", "f", true, 0}); err != nil || m != want || requests != 3 {
		t.Errorf("%+v, %v after %d requests", m, err, requests)
	}
	requests, failures = 0, 100
	if _, err := a.Mapping(t.Context(), "m"); err == nil || requests != retry.DefaultMaxAttempts {
		t.Errorf("%v after %d requests", err, requests)
	}
}

func TestAccount_ReadsResources(t *testing.T) {
	a := testAccount(t, func(w http.ResponseWriter, r *http.Request) {
		switch target := r.Header.Get("X-Amz-Target"); {
		case strings.HasSuffix(r.URL.Path, "/functions/f/configuration"):
			fmt.Fprint(w, `{"FunctionName":"f","FunctionArn":"arn:f","State":"Failed","StateReason":"no image","LastUpdateStatus":"Successful","Timeout":55,"Environment":{"Variables":{"A":"b"}}}`)
		case strings.HasSuffix(r.URL.Path, "/functions/f/recursion-config"):
			fmt.Fprint(w, `{"RecursiveLoop":"Allow"}`)
		case r.URL.Path == "/2019-09-30/functions/stopped/concurrency":
			fmt.Fprint(w, `{"ReservedConcurrentExecutions":0}`)
		case r.URL.Path == "/2019-09-30/functions/f/concurrency":
			fmt.Fprint(w, `{}`)
		case strings.TrimSuffix(r.URL.Path, "/") == "/2015-03-31/event-source-mappings" && r.FormValue("EventSourceArn") == "arn:q" && r.FormValue("Marker") == "":
			fmt.Fprint(w, `{"EventSourceMappings":[{"UUID":"1","State":"Enabled","EventSourceArn":"arn:q","FunctionArn":"arn:f","FunctionResponseTypes":["ReportBatchItemFailures"],"ScalingConfig":{"MaximumConcurrency":50}}],"NextMarker":"a/b="}`)
		case strings.TrimSuffix(r.URL.Path, "/") == "/2015-03-31/event-source-mappings" && r.FormValue("Marker") == "a/b=":
			fmt.Fprint(w, `{"EventSourceMappings":[{"UUID":"2","State":"Disabled","EventSourceArn":"arn:q","FunctionArn":"arn:g"}]}`)
		case strings.TrimSuffix(r.URL.Path, "/") == "/2016-08-19/account-settings":
			fmt.Fprint(w, `{"AccountLimit":{"ConcurrentExecutions":1000,"UnreservedConcurrentExecutions":900}}`)
		case target == "AWSEvents.DescribeRule":
			fmt.Fprint(w, `{"State":"ENABLED","ScheduleExpression":"rate(1 minute)"}`)
		case target == "AWSEvents.ListTargetsByRule":
			fmt.Fprint(w, `{"Targets":[{"Id":"x","Arn":"arn:f"}]}`)
		case strings.HasSuffix(target, ".DescribeTable"):
			fmt.Fprint(w, `{"Table":{"TableStatus":"ACTIVE","DeletionProtectionEnabled":true,"GlobalSecondaryIndexes":[{"IndexName":"due","IndexStatus":"CREATING"}]}}`)
		case strings.HasSuffix(target, ".DescribeContinuousBackups"):
			fmt.Fprint(w, `{"ContinuousBackupsDescription":{"ContinuousBackupsStatus":"ENABLED","PointInTimeRecoveryDescription":{"PointInTimeRecoveryStatus":"ENABLED"}}}`)
		case strings.HasSuffix(target, ".DescribeTimeToLive"):
			fmt.Fprint(w, `{"TimeToLiveDescription":{"TimeToLiveStatus":"ENABLED","AttributeName":"ttl"}}`)
		case strings.HasSuffix(target, ".GetQueueAttributes"):
			fmt.Fprint(w, `{"Attributes":{"QueueArn":"arn:q","VisibilityTimeout":"720","ApproximateNumberOfMessages":"3","MessageRetentionPeriod":"60","RedrivePolicy":"{\"deadLetterTargetArn\":\"arn:d\",\"maxReceiveCount\":\"10\"}"}}`)
		case strings.HasSuffix(r.URL.Path, "/operation/DescribeAlarms"):
			writeCBOR(w, cbor.Map{"MetricAlarms": cbor.List{cbor.Map{
				"AlarmName": alarmNames(t, r)[0], "AlarmDescription": cbor.String("Too many."), "StateValue": cbor.String("ALARM"),
				"StateUpdatedTimestamp": &cbor.Tag{ID: 1, Value: cbor.Float64(1767323045.6)}, // 1: seconds since 1970
				"ActionsEnabled":        cbor.Bool(true), "AlarmActions": cbor.List{cbor.String("arn:t")},
			}}})
		case strings.HasSuffix(r.URL.Path, "/operation/GetMetricStatistics"):
			writeCBOR(w, cbor.Map{"Datapoints": cbor.List{cbor.Map{"Sum": cbor.Float64(1)}, cbor.Map{"Sum": cbor.Float64(2)}}})
		default:
			t.Errorf("%s %s %s", r.Method, r.URL, target)
		}
	})
	ctx := t.Context()
	check := func(got any, err error, want any) {
		t.Helper()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	}
	f, err := a.Function(ctx, "arn:aws:lambda:eu-west-1:1:function:f")
	check(f, err, Function{Name: "f", ARN: "arn:f", State: "Failed", LastUpdateStatus: "Successful", StatusReason: "no image", Timeout: 55, Environment: map[string]string{"A": "b"}})
	loops, err := a.AllowsRecursion(ctx, "f")
	check(loops, err, true)
	for name, stopped := range map[string]bool{"f": false, "stopped": true} {
		n, reserved, err := a.ReservedConcurrency(ctx, name)
		check(n, err, 0)
		check(reserved, err, stopped)
	}
	mappings, err := a.Mappings(ctx, "arn:q")
	check(mappings, err, []Mapping{{"1", "Enabled", "arn:q", "arn:f", true, 50}, {"2", "Disabled", "arn:q", "arn:g", false, 0}})
	concurrency, err := a.Concurrency(ctx)
	check(concurrency, err, 900)
	rule, err := a.Rule(ctx, "r")
	check(rule, err, Rule{true, "rate(1 minute)", []string{"arn:f"}})
	table, err := a.Table(ctx, "t")
	check(table, err, Table{"ACTIVE", map[string]string{"due": "CREATING"}, true, true, "ttl"})
	queue, err := a.Queue(ctx, "https://sqs/1/name")
	check(queue, err, Queue{URL: "https://sqs/1/name", ARN: "arn:q", Name: "name", VisibleMessages: 3, VisibilityTimeout: 720, RetentionPeriod: 60, DeadLetterARN: "arn:d", MaxReceiveCount: 10})
	names := make([]string, alarmsPerCall+1)
	for i := range names {
		names[i] = fmt.Sprint("a", i)
	}
	alarms, err := a.Alarms(ctx, names)
	if err != nil || len(alarms) != 2 || alarms[1].Name != "a100" || !alarms[0].HasActions || alarms[0].State != "ALARM" || alarms[0].StateUpdatedAt.IsZero() {
		t.Errorf("%+v, %v", alarms, err)
	}
	n, err := a.Invocations(ctx, "f", time.Unix(0, 0), time.Unix(600, 0))
	check(n, err, 3)
}

// alarmNames returns the names in a DescribeAlarms request.
func alarmNames(t *testing.T, r *http.Request) cbor.List {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	request, err := cbor.Decode(body)
	if err != nil {
		t.Error(err)
	}
	return request.(cbor.Map)["AlarmNames"].(cbor.List)
}

// writeCBOR writes a response of CloudWatch.
func writeCBOR(w http.ResponseWriter, v cbor.Value) {
	w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
	w.Header().Set("Content-Type", "application/cbor")
	_, _ = w.Write(cbor.Encode(v))
}
