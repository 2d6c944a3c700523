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
	embeddedDB          bool // the endpoint is our pinned program, whose gaps are known
	credentialsProvider = credentials.NewStaticCredentialsProvider("test", "test", "")
	namePrefix          string // begins every name, apart from those of earlier runs
)

// retryClosedConnections repeats nothing that the service has answered. It repeats a call
// whose kept-alive connection was closed on our side while the answer came in,
// which the Go transport does now and then, and the SDK by default hides.
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
			fmt.Fprintln(os.Stderr, "conformance cannot run:", err)
			return 1
		}
		defer func() { _ = program.Stop() }()
		dynamoEndpoint, embeddedDB = program.Endpoint(), true
	}
	endpointSQS := os.Getenv("AWS_ENDPOINT_URL_SQS")
	if endpointSQS == "" {
		server, err := localsqs.New(localsqs.Options{})
		if err != nil {
			fmt.Fprintln(os.Stderr, "conformance cannot run:", err)
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

// feature is one row of the two tables of tests.
type feature struct {
	name string
	test func(t *testing.T)
}

// setNamePrefix gives a run names of its own.
func setNamePrefix() { namePrefix = "c" + strconv.FormatInt(time.Now().UnixMicro(), 36) }

func runAll(t *testing.T, features []feature) {
	for _, f := range features {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.test(t)
		})
	}
}

// must ends the test on an error and passes the value on.
func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// wantEqual compares what came with what has to come.
func wantEqual[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}
