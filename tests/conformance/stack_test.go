// Package conformance checks that an emulator can stand for AWS: one test per feature
// of DynamoDB and SQS that the product uses, through the official SDK, without
// retries.
//
// The endpoints are those of the embedded stack, or AWS_ENDPOINT_URL_DYNAMODB and
// AWS_ENDPOINT_URL_SQS if they are set. A feature that is missing is a failure,
// never a skipped test.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	local "github.com/lockstep-run/lockstep/localstack/embedded/dynamodb"
	localsqs "github.com/lockstep-run/lockstep/localstack/embedded/sqs"
)

// The clients under test, set by TestMain.
var (
	dynamoClient *dynamodb.Client
	sqsClient    *sqs.Client

	dynamoEndpoint      string
	embeddedDB          bool // the endpoint is the embedded dynoxide, which never expires items
	credentialsProvider = credentials.NewStaticCredentialsProvider("test", "test", "")
	namePrefix          string // of every table and queue; another in each test run
)

// retryClosedConnections retries only a call whose keep-alive connection the Go
// transport has closed, which it sometimes does while a reply arrives. It never
// retries a call that the service has answered.
func retryClosedConnections() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.Retryables = []retry.IsErrorRetryable{retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
			return aws.BoolTernary(errors.Is(err, net.ErrClosed))
		})}
	})
}

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	config := aws.Config{
		Region:      "us-east-1",
		Credentials: credentialsProvider,
		Retryer:     retryClosedConnections,
		HTTPClient: awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConns, t.MaxIdleConnsPerHost = 256, 256
		}),
	}
	dynamoEndpoint = os.Getenv("AWS_ENDPOINT_URL_DYNAMODB")
	if dynamoEndpoint == "" {
		program, err := local.Start(ctx, local.Options{})
		if err != nil {
			fmt.Fprintln(os.Stderr, "conformance:", err)
			return 1
		}
		defer func() { _ = program.Stop() }()
		dynamoEndpoint, embeddedDB = program.Endpoint(), true
	}
	endpointSQS := os.Getenv("AWS_ENDPOINT_URL_SQS")
	if endpointSQS == "" {
		server, err := localsqs.New(localsqs.Options{})
		if err != nil {
			fmt.Fprintln(os.Stderr, "conformance:", err)
			return 1
		}
		web := httptest.NewServer(server)
		defer web.Close()
		defer func() { _ = server.Close() }()
		endpointSQS = web.URL
	}
	dynamoClient = dynamodb.NewFromConfig(config, func(o *dynamodb.Options) { o.BaseEndpoint = &dynamoEndpoint })
	sqsClient = sqs.NewFromConfig(config, func(o *sqs.Options) { o.BaseEndpoint = &endpointSQS })
	return m.Run()
}

// feature is one row of the tables of tests.
type feature struct {
	name string
	test func(t *testing.T)
}

// setNamePrefix sets a prefix that no earlier test run has used.
func setNamePrefix() { namePrefix = "c" + strconv.FormatInt(time.Now().UnixMicro(), 36) }

func runAll(t *testing.T, features []feature) {
	for _, f := range features {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.test(t)
		})
	}
}

// must ends the test on an error and returns the value.
func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func wantEqual[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}
