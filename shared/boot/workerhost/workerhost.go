// Package workerhost serves a pool's worker: as a Lambda function behind the pool's queue if the
// process runs on Lambda, otherwise as a process that polls the queue until it is stopped. Either
// way it takes the tables and queues from the environment and its limits from the configuration. A
// polling process also registers its blocks if the environment has the URL of the service.
package workerhost

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/signal"
	"path"
	"strconv"
	"syscall"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/client/auth"
	"github.com/lockstep-run/lockstep/shared/engine/workers"
	"github.com/lockstep-run/lockstep/shared/sqs"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/worker/httpblock"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Serve serves a pool's worker until the process is stopped. add adds the blocks to
// the worker.
func Serve(poolName string, add func(*worker.Worker)) {
	if err := serve(poolName, add); err != nil {
		boot.Fatal("worker "+poolName, err)
	}
}

func serve(poolName string, add func(*worker.Worker)) error {
	ctx := context.Background()
	p, err := boot.Open(ctx, "worker-"+poolName)
	if err != nil {
		return err
	}
	if err := boot.RequireEnv(topology.EnvTableJobs, topology.EnvQueueLifecycle); err != nil {
		return err
	}
	w := newWorker(p, poolName)
	add(w)
	if os.Getenv("AWS_LAMBDA_RUNTIME_API") != "" {
		lambda.Start(boot.FlushTraces(p, lambdaHandler(p, w)))
		return nil
	}
	// Only a polling process handles signals, because it has to finish its jobs. A function that
	// caught them would survive its host's SIGTERM.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := registerBlocks(ctx, w); err != nil {
		return err
	}
	defer p.Tracer.Flush(ctx)
	return pollQueue(ctx, p, w, poolName)
}

func newWorker(p *boot.Process, poolName string) *worker.Worker {
	c := p.Config
	allow := c.Worker.AllowHosts
	if len(allow) == 0 && os.Getenv(topology.EnvTrustHeaders) == "true" {
		allow = []string{httpblock.Loopback} // on a local stack, blocks call this machine
	}
	calls := httpblock.NewWithEndpoints(httpblock.WithoutOwn(allow, boot.OwnAddresses()), p.Endpoints)
	var opener worker.SealedSource
	if p.Opener != nil {
		opener = p.Opener
	}
	w := worker.New(worker.Options{
		Pool: poolName, Region: c.Worker.Region, Version: boot.Version, Concurrency: c.Worker.Concurrency, LeaseDuration: c.Job.Lease, HeartbeatInterval: c.Job.Heartbeat,
		MaxClockSkew: c.Clock.Skew, LeaseMargin: c.Clock.Margin, MaxClaims: c.Job.MaxTakeovers, UnclaimedTimeout: c.Job.Unclaimed,
		MaxReceives: topology.MaxReceiveJobs, HTTPBlocks: calls, Secrets: p.Secrets, Sealed: opener, Logger: p.Log, Tracer: p.Tracer,
		MinFencingToken: func() int64 { return int64(c.Lock.MinFencingToken) },
	})
	if poolName == topology.PoolDefault {
		calls.RegisterStep(w)
	}
	return w
}

// openPorts opens ports for one pack. overhead is the cost of receiving it.
func openPorts(p *boot.Process, overhead workflow.Cost) worker.Ports {
	v := p.Metered(overhead)
	return worker.Ports{Packs: v.Packs, Sender: v.Sender, Meter: v.Meter}
}

// lambdaHandler handles batches of a queue's messages. Each pack is charged its share
// of the invocation and of the two requests that the event source mapping makes for a
// batch: to receive and to delete it.
func lambdaHandler(p *boot.Process, w *worker.Worker) func(context.Context, events.SQSEvent) (events.SQSEventResponse, error) {
	return func(ctx context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
		batch := make([]worker.Delivery, len(event.Records))
		for i, r := range event.Records {
			receives, _ := strconv.Atoi(r.Attributes["ApproximateReceiveCount"]) // Lambda always sets it
			batch[i] = worker.Delivery{ID: r.MessageId, Body: r.Body, ReceiveCount: receives}
		}
		share := 1 / float64(max(1, len(batch)))
		unfinished, failed := worker.HandleBatch(ctx, w, batch, sqs.DecodePack, func() worker.Ports {
			return openPorts(p, workflow.Cost{Invocations: share, QueueRequests: 2 * share})
		})
		reply := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
		for _, id := range unfinished {
			reply.BatchItemFailures = append(reply.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: id})
		}
		if failed > 0 { // Lambda counts the invocation as a success
			p.RecordMetric(ctx, topology.MetricFailedPacks, failed)
		}
		return reply, nil
	}
}

// registerBlocks registers the worker's blocks with the service. It retries, because the service
// may start after the worker.
func registerBlocks(ctx context.Context, w *worker.Worker) error {
	url := os.Getenv(topology.EnvURL)
	if url == "" {
		return nil
	}
	api, err := client.New(client.Options{
		URL: url, Tenant: workerTenant(), Actor: w.Options().Name, Retries: 10, HTTP: auth.NewClient(auth.DefaultCredentials(), time.Now),
	})
	if err != nil {
		return err
	}
	for _, b := range w.Blocks() {
		if _, builtin := workflow.BuiltinBlock(b.Ref()); builtin {
			continue // the service has it
		}
		if _, err := api.RegisterBlock(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// errNoQueue means that a pool has no queue.
var errNoQueue = errors.New("the pool has no queue: set " + topology.EnvQueueJobsURLs + " or " + topology.EnvQueueJobsPrefix)

// queueURL returns the URL of the queue of the pool in the worker's region, from the environment or
// by the queue's name.
func queueURL(ctx context.Context, p *boot.Process, poolName string) (string, error) {
	poolName = topology.PoolInRegion(poolName, p.Config.Worker.Region)
	if url := p.PoolURLs[poolName]; url != "" {
		return url, nil
	}
	prefix := os.Getenv(topology.EnvQueueJobsPrefix)
	if prefix == "" {
		return "", errNoQueue
	}
	if topology.NamesDeadLetters(poolName) {
		return "", errors.New("the pool " + poolName + " cannot be served: name it with " + topology.PoolNames)
	}
	name := prefix + topology.PoolInQueueName(poolName)
	queue, err := p.SQS.GetQueueUrl(ctx, &awssqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		return "", err
	}
	return *queue.QueueUrl, nil
}

func pollQueue(ctx context.Context, p *boot.Process, w *worker.Worker, poolName string) error {
	url, err := queueURL(ctx, p, poolName)
	if err != nil {
		return err
	}
	visibility := max(w.Options().LeaseDuration, time.Second)
	p.Log.InfoContext(ctx, "polling", "queue", path.Base(url), "worker", w.Options().Name)
	return worker.Poll(ctx, w, worker.PollOptions{
		Source: sqs.NewReceiver(p.SQS, url, visibility),
		Decode: sqs.DecodePack,

		Registry: newRegistry(p), HeartbeatInterval: p.Config.Worker.Heartbeat, UnreachableAfter: p.Config.Worker.Unreachable,
		NewPorts: func() worker.Ports {
			return openPorts(p, workflow.Cost{QueueRequests: 2}) // in the worst case the pack is received and deleted alone
		},
	})
}

// registry is the registry of workers, for the workers of one tenant.
type registry struct {
	workers *workers.Registry
	tenant  string
}

func newRegistry(p *boot.Process) registry {
	w := p.Config.Worker
	return registry{&workers.Registry{
		Workers: p.Unmetered().Workers, Now: time.Now,
		Timeouts: workers.LivenessTimeouts{Unreachable: w.Unreachable, Offline: w.Offline, Forget: w.Forget},
	}, workerTenant()}
}

// workerTenant returns the tenant whose list shows the worker. Its pool may serve every tenant.
func workerTenant() string { return cmp.Or(os.Getenv(topology.EnvTenant), topology.TenantDefault) }

// Register adds the worker.
func (r registry) Register(ctx context.Context, w workflow.Worker) error {
	w.Tenant = r.tenant
	_, err := r.workers.Register(ctx, w)
	return err
}

// Heartbeat records that the worker is alive, and the packs that it holds.
func (r registry) Heartbeat(ctx context.Context, id string, held []workflow.ClaimedPack) (draining bool, err error) {
	return r.workers.Heartbeat(ctx, r.tenant, id, held)
}

// Unregister removes the worker.
func (r registry) Unregister(ctx context.Context, id string) error {
	_, err := r.workers.Unregister(ctx, r.tenant, id)
	return err
}
