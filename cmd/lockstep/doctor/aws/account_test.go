package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// testAccount is an account whose every service is a function here.
func testAccount(t *testing.T, serve http.HandlerFunc) *Account {
	t.Helper()
	at := httptest.NewServer(serve)
	t.Cleanup(at.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": at.URL, "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
	} {
		t.Setenv(name, value)
	}
	a, err := Open(t.Context(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	a.retryDelay = 0
	return a
}

// The stack is read with all pages of its parts, and every request is signed for
// its own service.
func TestAccount_ReadsStackInPages(t *testing.T) {
	a := testAccount(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Authorization"), "/eu-west-1/cloudformation/aws4_request") {
			t.Errorf("authorised by %q", r.Header.Get("Authorization"))
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
			t.Errorf("asked for %q", r.FormValue("Action"))
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

// Each service tells its errors in a way of its own.
func TestAccount_ParsesServiceErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		header string
		body   string
		ask    func(ctx context.Context, a *Account) error
		is     func(error) bool
	}{
		{"no stack", 400, "", `<ErrorResponse><Error><Type>Sender</Type><Code>ValidationError</Code><Message>Stack with id S does not exist</Message></Error></ErrorResponse>`,
			func(ctx context.Context, a *Account) error { _, err := a.Stack(ctx, "S"); return err }, func(err error) bool { return errors.Is(err, ErrStackNotFound) }},
		{"denied", 403, "", `<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>`,
			func(ctx context.Context, a *Account) error { _, err := a.Alarms(ctx, []string{"x"}); return err }, IsAccessDenied},
		{"a function that is gone", 404, "ResourceNotFoundException:http://internal.amazon.com/", `{"Message":"Function not found"}`,
			func(ctx context.Context, a *Account) error { _, err := a.Function(ctx, "f"); return err }, IsNotFound},
		{"a rule that is gone", 400, "", `{"__type":"com.amazonaws.events#ResourceNotFoundException","message":"Rule r does not exist"}`,
			func(ctx context.Context, a *Account) error { _, err := a.Rule(ctx, "r"); return err }, IsNotFound},
		{"denied in JSON", 400, "", `{"__type":"AccessDeniedException","Message":"no"}`,
			func(ctx context.Context, a *Account) error { _, err := a.Rule(ctx, "r"); return err }, IsAccessDenied},
		{"nonsense", 418, "", `I am`,
			func(ctx context.Context, a *Account) error { _, err := a.Mapping(ctx, "m"); return err }, func(err error) bool { return hasCode(err, "418") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			a := testAccount(t, func(w http.ResponseWriter, _ *http.Request) {
				asked++
				if c.header != "" {
					w.Header().Set("X-Amzn-ErrorType", c.header)
				}
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			})
			if err := c.ask(t.Context(), a); !c.is(err) || asked != 1 {
				t.Errorf("%v after %d requests", err, asked)
			}
		})
	}
}

// What passes by itself is asked again, a bounded number of times.
func TestAccount_RetriesTransientErrors(t *testing.T) {
	asked, broken := 0, 2
	a := testAccount(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked <= broken {
			w.WriteHeader([]int{http.StatusInternalServerError, http.StatusBadRequest}[asked%2])
			fmt.Fprint(w, `{"__type":"ThrottlingException","message":"slow down"}`)
			return
		}
		fmt.Fprint(w, `{"UUID":"m","State":"Enabled","EventSourceArn":"q","FunctionArn":"f","FunctionResponseTypes":["ReportBatchItemFailures"]}`)
	})
	m, err := a.Mapping(t.Context(), "m")
	if want := (Mapping{"m", "Enabled", "q", "f", true}); err != nil || m != want || asked != 3 {
		t.Errorf("%+v, %v after %d requests", m, err, asked)
	}
	asked, broken = 0, 100
	if _, err := a.Mapping(t.Context(), "m"); err == nil || asked != maxAttempts {
		t.Errorf("%v after %d requests", err, asked)
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
		case r.URL.Path == mappingsPath && r.FormValue("EventSourceArn") == "arn:q" && r.FormValue("Marker") == "":
			fmt.Fprint(w, `{"EventSourceMappings":[{"UUID":"1","State":"Enabled","EventSourceArn":"arn:q","FunctionArn":"arn:f","FunctionResponseTypes":["ReportBatchItemFailures"]}],"NextMarker":"a/b="}`)
		case r.URL.Path == mappingsPath && r.FormValue("Marker") == "a/b=":
			fmt.Fprint(w, `{"EventSourceMappings":[{"UUID":"2","State":"Disabled","EventSourceArn":"arn:q","FunctionArn":"arn:g"}]}`)
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
		case r.FormValue("Action") == "DescribeAlarms":
			fmt.Fprintf(w, `<DescribeAlarmsResponse><DescribeAlarmsResult><MetricAlarms><member><AlarmName>%s</AlarmName><AlarmDescription>Says.</AlarmDescription><StateValue>ALARM</StateValue>
				<StateUpdatedTimestamp>2026-01-02T03:04:05.6Z</StateUpdatedTimestamp><ActionsEnabled>true</ActionsEnabled><AlarmActions><member>arn:t</member></AlarmActions></member></MetricAlarms></DescribeAlarmsResult></DescribeAlarmsResponse>`, r.FormValue("AlarmNames.member.1"))
		case r.FormValue("Action") == "GetMetricStatistics":
			fmt.Fprint(w, `<GetMetricStatisticsResponse><GetMetricStatisticsResult><Datapoints><member><Sum>1.0</Sum></member><member><Sum>2.0</Sum></member></Datapoints></GetMetricStatisticsResult></GetMetricStatisticsResponse>`)
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
	check(mappings, err, []Mapping{{"1", "Enabled", "arn:q", "arn:f", true}, {"2", "Disabled", "arn:q", "arn:g", false}})
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

func TestAccount_ResolvesEndpoints(t *testing.T) {
	for _, c := range []struct{ region, base, own, want string }{
		{"eu-west-1", "", "", "https://monitoring.eu-west-1.amazonaws.com"},
		{"cn-north-1", "", "", "https://monitoring.cn-north-1.amazonaws.com.cn"},
		{"eu-west-1", "http://localhost:4566/", "", "http://localhost:4566"},
		{"eu-west-1", "http://localhost:4566", "http://other:1", "http://other:1"},
	} {
		t.Setenv("AWS_ENDPOINT_URL_CLOUDWATCH", c.own)
		if got := (&Account{Region: c.region, baseEndpoint: c.base}).endpoint(cloudWatch); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
