package stack

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lockstep-run/lockstep/localstack/embedded/dynamodb"
	"github.com/lockstep-run/lockstep/localstack/embedded/sqs"
	"github.com/lockstep-run/lockstep/localstack/process"
	"github.com/lockstep-run/lockstep/shared/boot/sdkhttp"
	"github.com/lockstep-run/lockstep/shared/topology"
)

var errCleanExit = errors.New("exit status 0")

// namePrefix is the prefix of all local tables and queues.
const namePrefix = "lockstep-"

// stores are DynamoDB and SQS, embedded or named by the environment.
type stores struct {
	dynamodbURL, sqsURL string

	process *dynamodb.Process
	queues  *sqs.Server
	server  *http.Server

	sqs          *awssqs.Client
	lifecycleURL string
	eventsURL    string
	hooksOutURL  string
	hooksInURL   string
	jobsURLs     []string // queues of the default pool: the one without a region, and that of each region
}

// awsConfig returns the configuration of the SDK; local services ignore the credentials.
func awsConfig() aws.Config {
	return aws.Config{
		Region:      "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
		HTTPClient:  sdkhttp.Wrap(awshttp.NewBuildableClient()),
	}
}

func openStores(ctx context.Context, s *Stack) (*stores, error) {
	st := &stores{dynamodbURL: os.Getenv("AWS_ENDPOINT_URL_DYNAMODB"), sqsURL: os.Getenv("AWS_ENDPOINT_URL_SQS")}
	s.stores = st // Close closes what is open after a failure below
	before := s.readAddresses()
	used, err := before, error(nil)
	if st.dynamodbURL == "" {
		dir := ""
		if s.options.DataDir != "" {
			dir = filepath.Join(s.options.DataDir, "dynamodb")
		}
		child, err := dynamodb.Start(context.Background(), dynamodb.Options{Dir: dir, Before: before.DynamoDB, Log: s.log})
		if err != nil {
			return nil, err
		}
		st.process, st.dynamodbURL, used.DynamoDB = child, child.Endpoint(), child.Address()
		go func() {
			<-child.Done()
			s.fail(fmt.Errorf("the local DynamoDB has ended: %w", cmp.Or(child.Err(), errCleanExit)))
		}()
	}
	if st.sqsURL == "" {
		used.QueuesPath = cmp.Or(used.QueuesPath, "/"+rand.Text())
		if used.SQS, err = st.serveQueues(s, before.SQS, used.QueuesPath); err != nil {
			return nil, err
		}
	}
	if err := s.writeAddresses(used); err != nil {
		return nil, err
	}
	client := awsdynamodb.NewFromConfig(awsConfig(), func(o *awsdynamodb.Options) { o.BaseEndpoint = &st.dynamodbURL })
	if err := dynamodb.CreateTables(ctx, client, namePrefix); err != nil {
		return nil, fmt.Errorf("create the local tables: %w", err)
	}
	st.sqs = awssqs.NewFromConfig(awsConfig(), func(o *awssqs.Options) { o.BaseEndpoint = &st.sqsURL })
	if st.lifecycleURL, err = st.createQueue(ctx, topology.QueueLifecycle); err != nil {
		return nil, err
	}
	if st.eventsURL, err = st.createQueue(ctx, topology.QueueEvents); err != nil {
		return nil, err
	}
	if st.hooksOutURL, err = st.createQueue(ctx, topology.QueueHooksOut); err != nil {
		return nil, err
	}
	if st.hooksInURL, err = st.createQueue(ctx, topology.QueueHooksIn); err != nil {
		return nil, err
	}
	for _, region := range append([]string{""}, s.config.Regions...) {
		url, err := st.createQueue(ctx, topology.JobsQueue(topology.PoolInRegion(topology.PoolDefault, region)))
		if err != nil {
			return nil, err
		}
		st.jobsURLs = append(st.jobsURLs, url)
	}
	return st, nil
}

// addresses are the addresses of the embedded tables and queues, as host:port, and the secret path of
// the queues. With a data directory they stay the same, so that worker programs started by hand
// survive a restart of the stack.
type addresses struct {
	DynamoDB   string `json:"dynamodb"`
	SQS        string `json:"sqs"`
	QueuesPath string `json:"queuesPath"`
}

const addressesFile = "addresses.json"

// readAddresses reads the addresses of an earlier run. It returns none if it cannot read them.
func (s *Stack) readAddresses() (a addresses) {
	if s.options.DataDir == "" {
		return a
	}
	text, err := os.ReadFile(filepath.Join(s.options.DataDir, addressesFile))
	if err != nil || json.Unmarshal(text, &a) != nil {
		return addresses{} // then free ones are picked
	}
	return a
}

// writeAddresses stores the addresses for the next run.
func (s *Stack) writeAddresses(a addresses) error {
	if s.options.DataDir == "" {
		return nil
	}
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.options.DataDir, addressesFile), text, 0o600)
}

// serveQueues serves SQS on a separate port, for functions and worker programs: they find the secret
// path in their environment. It returns the address, which is that of before if it is free.
func (st *stores) serveQueues(s *Stack, before, path string) (address string, err error) {
	dir := ""
	if s.options.DataDir != "" {
		dir = filepath.Join(s.options.DataDir, "sqs")
	}
	if st.queues, err = sqs.New(sqs.Options{Dir: dir, AutoCreate: autoCreateAttributes, Path: path}); err != nil {
		return "", fmt.Errorf("local SQS: %w", err)
	}
	listener, err := process.ListenLoopback(before)
	if err != nil {
		return "", err
	}
	address = listener.Addr().String()
	st.sqsURL = "http://" + address + path
	st.server = &http.Server{Handler: process.ProgramsOnly(address, st.queues), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := st.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.fail(fmt.Errorf("local SQS: %w", err))
		}
	}()
	return address, nil
}

// autoCreateAttributes returns the attributes of a Lockstep queue. The first request that names the
// queue of a pool creates it.
func autoCreateAttributes(name string) (map[string]string, bool) {
	role, owned := strings.CutPrefix(name, namePrefix)
	switch {
	case !owned:
		return nil, false
	case strings.HasSuffix(role, topology.DLQSuffix):
		return map[string]string{"MessageRetentionPeriod": "1209600"}, true
	case role == topology.QueueLifecycle:
		return queueAttributes(role, topology.FunctionLifecycle, topology.MaxReceiveLifecycle), true
	case role == topology.QueueEvents:
		return queueAttributes(role, topology.FunctionObserver, topology.MaxReceiveEvents), true
	case role == topology.QueueHooksOut:
		return queueAttributes(role, topology.FunctionObserver, topology.MaxReceiveHooksOut), true
	case role == topology.QueueHooksIn:
		return queueAttributes(role, topology.FunctionObserver, topology.MaxReceiveHooksIn), true
	case strings.HasPrefix(role, topology.QueueJobsPrefix):
		return queueAttributes(role, topology.FunctionWorker, topology.MaxReceiveJobs), true
	}
	return nil, false
}

func queueAttributes(role, function string, maxReceive int) map[string]string {
	return map[string]string{
		"VisibilityTimeout": strconv.Itoa(topology.VisibilityFactor * topology.FunctionTimeoutSeconds[function]),
		"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:%s","maxReceiveCount":"%d"}`,
			namePrefix+role+topology.DLQSuffix, maxReceive),
	}
}

// createQueue creates a queue and its dead-letter queue if they are missing.
func (st *stores) createQueue(ctx context.Context, role string) (string, error) {
	for _, name := range []string{role + topology.DLQSuffix, role} {
		attrs, _ := autoCreateAttributes(namePrefix + name)
		full := namePrefix + name
		out, err := st.sqs.CreateQueue(ctx, &awssqs.CreateQueueInput{QueueName: &full, Attributes: attrs})
		if err != nil {
			return "", fmt.Errorf("create the local queue %s: %w", full, err)
		}
		if name == role {
			return *out.QueueUrl, nil
		}
	}
	return "", nil
}

func (st *stores) close() {
	if st.queues != nil {
		_ = st.queues.Close() // ends the long polls
	}
	if st.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = st.server.Shutdown(ctx) // aborts requests that take longer
	}
	if st.process != nil {
		_ = st.process.Stop() // its exit status does not matter
	}
}
