package boot

import (
	"context"
	"encoding/json"
	"fmt"
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

	"github.com/lockstep-run/lockstep/shared/boot/tracing"
	"github.com/lockstep-run/lockstep/shared/config"
	"github.com/lockstep-run/lockstep/shared/dynamo"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/sqs"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// Version is the engine's version, written on every execution it commits. The
// linker sets it for a release.
var Version = "dev"

// Process are what every process has.
type Process struct {
	Config config.Config
	Log    *slog.Logger
	Tracer *tracing.Tracer
	DB     *dynamo.DB
	Queues *sqs.Client

	SQS      *awssqs.Client    // for a polling worker's source
	PoolURLs map[string]string // queue URLs that the environment gives, by pool
}

// Open reads the environment and connects, without calling anything yet.
// component names the process in its log.
func Open(ctx context.Context, component string) (*Process, error) {
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
		log.WarnContext(ctx, "no spans are sent", observe.Err(err)) // which is no reason to do no work
	}
	slog.SetDefault(log) // what libraries and a worker's blocks log is kept to the same rules
	awsCfg, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithHTTPClient(httpClient()))
	if err != nil {
		return nil, err
	}
	pools, err := poolURLs()
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
			Lifecycle: os.Getenv(topology.EnvQueueLifecycle), Prefix: os.Getenv(topology.EnvQueueJobsPrefix), Pools: pools,
		}),
		SQS:      queues,
		PoolURLs: pools,
	}, nil
}

// newLogger makes the log of a process, each line of which names the invocation that
// it is written in.
func newLogger(component string, level slog.Level, redact []string) *slog.Logger {
	return observe.NewLog(observe.Options{Writer: os.Stderr, Level: level, Component: component, RedactKeys: redact, ContextAttrs: invocationAttrs})
}

// invocationAttrs is what the context of a Lambda function's invocation knows of it, and of
// the span in it.
func invocationAttrs(ctx context.Context) []slog.Attr {
	attrs := tracing.SpanAttrs(ctx)
	if lambda, ok := lambdacontext.FromContext(ctx); ok {
		attrs = append(attrs, slog.String(observe.RequestID, lambda.AwsRequestID))
	}
	return attrs
}

// FlushTraces makes a Lambda handler send its spans before it answers: Lambda freezes the
// process then.
func FlushTraces[In, Out any](p *Process, handle func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	if !p.Tracer.Enabled() {
		return handle
	}
	return func(ctx context.Context, in In) (Out, error) {
		defer p.Tracer.Flush(ctx)
		return handle(ctx, in)
	}
}

// loadConfig reads the configuration: the file or the inline document, then variables.
func loadConfig() (config.Config, error) {
	if inline := os.Getenv(topology.EnvConfigInline); inline != "" {
		return config.Parse([]byte(inline), os.Environ())
	}
	return config.Load(os.Getenv(topology.EnvConfig), os.Environ())
}

// poolURLs are the queues whose URL the environment gives.
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

// httpClient keeps enough connections open for the parallel calls of one look.
func httpClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = 128, 64
		t.IdleConnTimeout = 60 * time.Second
	})
}

// RequireEnv names the variables that a process cannot do without; an error lists
// those that are missing.
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

// Fatal ends a process that cannot start, with the reason as its last word.
func Fatal(component string, err error) {
	newLogger(component, slog.LevelInfo, nil).Error("cannot start", observe.Err(err))
	os.Exit(1)
}

var _ aws.HTTPClient = (*awshttp.BuildableClient)(nil)
