// Package boot turns the environment into the parts of a process: the configuration,
// the log, tracing, the tables and the queues. Package enginehost adds the engine,
// httpserver the HTTP API, and workerhost a pool's worker, so that a function links
// only what it uses.
//
// Clocks, ids and randomness enter the system here and nowhere else. On a local stack
// a process limits itself to the rights that its role has on AWS.
//
//   - boot.go: opening the parts; the ports for one unit of work, with their meter.
//   - rights.go: the rights of a process on a local stack.
//   - tokenkeys.go: the keys of resume tokens. secrets.go: the secrets that jobs are called with.
//   - awsjson.go: the two services that both are in.
//   - memory.go: how much memory a function has. deadline.go: how much of its time is left for its work.
//   - emf.go: metrics in the embedded metric format.
package boot

import (
	"context"
	"encoding/json"
	"fmt"
	stdlog "log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lockstep-run/lockstep/shared/boot/sdkhttp"
	"github.com/lockstep-run/lockstep/shared/boot/tracing"
	"github.com/lockstep-run/lockstep/shared/config"
	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/dynamo"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/sealed"
	"github.com/lockstep-run/lockstep/shared/sqs"
	"github.com/lockstep-run/lockstep/shared/token"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Version is the engine's version, written to every execution that it commits. The
// linker sets it for a release.
var Version = "dev"

// Process is what every process has.
type Process struct {
	Config config.Config
	Log    *slog.Logger
	Tracer *tracing.Tracer
	DB     *dynamo.DB
	Queues *sqs.Client

	AWS      aws.Config        // for clients of other services
	SQS      *awssqs.Client    // for receiving
	PoolURLs map[string]string // queue URLs from the environment, by pool

	TokenKeys func(ctx context.Context) (token.Keys, error) // of resume tokens
	Secrets   *Secrets                                      // for jobs
	Opener    *sealed.Opener                                // of sealed parameters; nil if there are none
	Endpoints workflow.Endpoints                            // of this stage

	RecordMetric func(ctx context.Context, name string, n int) // into the log
}

// Open reads the environment and makes the clients, without calling AWS yet.
// component names the process in its log.
func Open(ctx context.Context, component string) (*Process, error) {
	limitMemory()
	cfg, err := loadConfig()
	if err != nil {
		return nil, err
	}
	level := slog.LevelInfo
	if err := level.UnmarshalText([]byte(cfg.Log.Level)); err != nil {
		return nil, fmt.Errorf("log.level: %w", err)
	}
	log := newLogger(component, level, cfg.Log.Redact)
	tracer, err := tracing.Open(ctx, tracing.Options{Component: component, Version: Version, Getenv: os.Getenv, Log: log})
	if err != nil {
		log.WarnContext(ctx, "tracing disabled", observe.Err(err)) // the process works without it
	}
	slog.SetDefault(log) // so that libraries and a worker's blocks log in the same way
	stdlog.SetOutput(observe.LibraryLog(func(line string) { log.InfoContext(ctx, line) }))
	awsCfg, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithHTTPClient(httpClient()))
	if err != nil {
		return nil, err
	}
	awsCfg.HTTPClient = sdkhttp.Wrap(awsCfg.HTTPClient)
	pools, err := poolURLs()
	if err != nil {
		return nil, err
	}
	endpoints, err := workflow.ParseEndpoints(cfg.Endpoints)
	if err != nil {
		return nil, err
	}
	tables := map[string]string{}
	for role, key := range topology.TableEnv {
		tables[role] = os.Getenv(key)
	}
	queues := awssqs.NewFromConfig(awsCfg)
	return &Process{
		Config: cfg,
		Log:    log,
		Tracer: tracer,
		DB:     dynamo.Open(awsdynamodb.NewFromConfig(awsCfg, enforceRights), dynamo.TablesByRole(tables)),
		Queues: sqs.Open(queues, sqs.Queues{
			Lifecycle: os.Getenv(topology.EnvQueueLifecycle), Events: os.Getenv(topology.EnvQueueEvents), HooksOut: os.Getenv(topology.EnvQueueHooksOut), HooksIn: os.Getenv(topology.EnvQueueHooksIn),
			Prefix: os.Getenv(topology.EnvQueueJobsPrefix), Pools: pools,
		}),
		AWS:          awsCfg,
		SQS:          queues,
		PoolURLs:     pools,
		TokenKeys:    TokenKeys(cfg.Token.Keys, readTokenKeys(awsCfg), time.Now),
		Secrets:      NewSecrets(cfg.Secrets.From, awsCfg, time.Now),
		Opener:       NewOpener(cfg.Sealed.Key, awsCfg),
		RecordMetric: recordMetric(log),
		Endpoints:    endpoints,
	}, nil
}

// Ports are the tables and the queues for one unit of work. Meter counts what is
// consumed through them.
type Ports struct {
	dynamo.View
	Sender *sqs.Sender
	Meter  *cost.Meter
}

// Metered opens ports for one unit of work. overhead is what the work cost before it started, such
// as its share of an invocation; the meter starts with it.
func (p *Process) Metered(overhead workflow.Cost) Ports {
	m := &cost.Meter{}
	m.Add(overhead)
	return p.ports(m)
}

// Unmetered opens ports for work that is not charged to an execution.
func (p *Process) Unmetered() Ports { return p.ports(nil) }

func (p *Process) ports(m *cost.Meter) Ports {
	return Ports{View: p.DB.WithMeter(m), Sender: p.Queues.WithMeter(m), Meter: m}
}

// newLogger makes the log of a process. Each line names the Lambda invocation that
// wrote it.
func newLogger(component string, level slog.Level, redact []string) *slog.Logger {
	return observe.NewLog(observe.Options{Writer: os.Stderr, Level: level, Component: component, RedactKeys: redact, ContextAttrs: invocationAttrs})
}

// invocationAttrs returns the ids of the span and of the Lambda invocation in a
// context.
func invocationAttrs(ctx context.Context) []slog.Attr {
	attrs := tracing.SpanAttrs(ctx)
	if lambda, ok := lambdacontext.FromContext(ctx); ok {
		attrs = append(attrs, slog.String(observe.RequestID, lambda.AwsRequestID))
	}
	return attrs
}

// FlushTraces makes a Lambda handler send its spans before it returns, because Lambda freezes the
// process after that.
func FlushTraces[In, Out any](p *Process, handle func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	if !p.Tracer.Enabled() {
		return handle
	}
	return func(ctx context.Context, in In) (Out, error) {
		defer p.Tracer.Flush(ctx)
		return handle(ctx, in)
	}
}

// loadConfig reads the configuration: the inline document or the file, then
// environment variables.
func loadConfig() (config.Config, error) {
	if inline := os.Getenv(topology.EnvConfigInline); inline != "" {
		return config.Parse([]byte(inline), os.Environ())
	}
	return config.Load(os.Getenv(topology.EnvConfig), os.Environ())
}

// poolURLs reads the queue URLs from the environment, by pool.
func poolURLs() (map[string]string, error) {
	text := os.Getenv(topology.EnvQueueJobsURLs)
	if text == "" {
		return nil, nil
	}
	var urls map[string]string
	if err := json.Unmarshal([]byte(text), &urls); err != nil {
		return nil, fmt.Errorf("%s is not a JSON object of pool names and queue URLs: %w", topology.EnvQueueJobsURLs, err)
	}
	return urls, nil
}

// responseTimeout ends an unanswered request well before the function's own timeout, so that a
// service that hangs counts as unavailable. A long poll of a queue takes 20 s.
const responseTimeout = 25 * time.Second

// httpClient keeps enough connections open for the parallel calls of one unit of
// work.
func httpClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = 128, 64
		t.IdleConnTimeout = 60 * time.Second
		t.ResponseHeaderTimeout = responseTimeout
	})
}

// RequireEnv checks that environment variables are set. Its error lists those that are not.
func RequireEnv(names ...string) error {
	var missing []string
	for _, name := range names {
		if os.Getenv(name) == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("not set in the environment: %v", missing)
	}
	return nil
}

// Fatal logs why a process cannot start and ends it with exit code 1.
func Fatal(component string, err error) {
	newLogger(component, slog.LevelInfo, nil).Error("cannot start", observe.Err(err))
	os.Exit(1)
}

var _ aws.HTTPClient = (*awshttp.BuildableClient)(nil)
