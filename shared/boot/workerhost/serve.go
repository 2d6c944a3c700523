package workerhost

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/client/auth"
	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/sqs"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/worker/httpblock"
)

// Serve serves a pool's worker until the process is told to stop. add adds its
// blocks to the worker.
func Serve(poolName string, add func(*worker.Worker)) {
	if err := serve(poolName, add); err != nil {
		boot.Fatal("worker "+poolName, err)
	}
}

func serve(poolName string, add func(*worker.Worker)) error {
	ctx := context.Background()
	parts, err := boot.Open(ctx, "worker-"+poolName)
	if err != nil {
		return err
	}
	if err := boot.RequireEnv(topology.EnvTableJobs, topology.EnvQueueLifecycle); err != nil {
		return err
	}
	w := newWorker(parts, poolName)
	add(w)
	if os.Getenv("AWS_LAMBDA_RUNTIME_API") != "" {
		lambda.Start(boot.FlushTraces(parts, lambdaHandler(parts, w)))
		return nil
	}
	// Only a polling process is told to stop by signals and has work to end then.
	// A function that caught them would outlive its host's SIGTERM.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := registerBlocks(ctx, w); err != nil {
		return err
	}
	defer parts.Tracer.Flush(ctx)
	return pollQueue(ctx, parts, w, poolName)
}

func newWorker(p *boot.Process, poolName string) *worker.Worker {
	c := p.Config
	allow := c.Worker.AllowHosts
	if len(allow) == 0 && os.Getenv(topology.EnvTrustHeaders) == "true" {
		allow = []string{httpblock.Loopback} // a local stack calls this machine's blocks
	}
	return worker.New(worker.Options{
		Pool: poolName, Version: boot.Version, Concurrency: c.Worker.Concurrency, LeaseDuration: c.Job.Lease, HeartbeatInterval: c.Job.Heartbeat,
		MaxClockSkew: c.Clock.Skew, LeaseMargin: c.Clock.Margin, MaxClaims: c.Job.MaxTakeovers, UnclaimedTimeout: c.Job.Unclaimed,
		MaxReceives: topology.MaxReceiveJobs, HTTPBlocks: httpblock.New(allow), Logger: p.Log, Tracer: p.Tracer,
		MinFencingToken: func() int64 { return int64(c.Lock.MinFencingToken) },
	})
}

// openPorts opens a view of the jobs table and the queues for one pack.
func openPorts(p *boot.Process, m *cost.Meter) worker.Ports {
	return worker.Ports{Packs: p.DB.WithMeter(m).Packs, Sender: p.Queues.WithMeter(m), Meter: m}
}

// lambdaHandler answers batches of a queue's messages. Each pack is charged its share
// of the invocation and of the two requests that the mapping makes for a batch.
func lambdaHandler(p *boot.Process, w *worker.Worker) func(context.Context, events.SQSEvent) (events.SQSEventResponse, error) {
	return func(ctx context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
		batch := make([]worker.Delivery, len(event.Records))
		for i, r := range event.Records {
			receives, _ := strconv.Atoi(r.Attributes["ApproximateReceiveCount"]) // Lambda says it with every message
			batch[i] = worker.Delivery{ID: r.MessageId, Body: r.Body, ReceiveCount: receives}
		}
		messageShare := 1 / float64(max(1, len(batch)))
		failed := worker.HandleBatch(ctx, w, batch, sqs.DecodePack, func() worker.Ports {
			m := &cost.Meter{}
			m.Add(receiveCost(messageShare))
			return openPorts(p, m)
		})
		reply := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
		for _, id := range failed {
			reply.BatchItemFailures = append(reply.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: id})
		}
		return reply, nil
	}
}

// registerBlocks tells the service which blocks this worker offers. The service may
// come up after the worker.
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
		if _, err := api.RegisterBlock(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// errNoQueue says that the pool has no queue to poll.
var errNoQueue = errors.New("the pool has no queue: set " + topology.EnvQueueJobsURLs + " or " + topology.EnvQueueJobsPrefix)

// queueURL is the pool's queue as the environment gives it, or as it is found by
// its name.
func queueURL(ctx context.Context, p *boot.Process, poolName string) (string, error) {
	if url := p.PoolURLs[poolName]; url != "" {
		return url, nil
	}
	prefix := os.Getenv(topology.EnvQueueJobsPrefix)
	if prefix == "" {
		return "", errNoQueue
	}
	name := prefix + poolName
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
	p.Log.InfoContext(ctx, "polling", "queue", url, "worker", w.Options().Name)
	return worker.Poll(ctx, w, worker.PollOptions{
		Source: sqs.NewReceiver(p.SQS, url, visibility, nil),
		Decode: sqs.DecodePack,

		Registry: newPresence(p), HeartbeatInterval: p.Config.Worker.Heartbeat, UnreachableAfter: p.Config.Worker.Unreachable,
		NewPorts: func() worker.Ports {
			m := &cost.Meter{}
			m.Add(receiveCost(0))
			return openPorts(p, m)
		},
	})
}
