// Package sqs sends and receives messages over SQS: packs go to the queue of their pool, wake-ups
// to the lifecycle queue. All queues are standard queues. A message may arrive twice, late, or in
// any order; its receivers allow for that.
//
//   - client.go: the queues, and where a pool's queue is.
//   - sender.go: sending, in batches.
//   - receiver.go: receiving a pool's packs, for a polling worker.
//   - dlq.go: dead-letter queues.
//   - body.go: the encoding of messages, and their strict decoding.
//   - meter.go: middleware that counts requests in units of 64 KB.
package sqs

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Queues says where the queues are.
type Queues struct {
	Lifecycle string            // URL
	Events    string            // URL; announcements of events
	HooksOut  string            // URL; events for their receivers
	HooksIn   string            // URL; events of EventBridge
	Pools     map[string]string // URLs by pool; they take precedence over Prefix
	Prefix    string            // the queue of any other pool has this name followed by the pool's

	// Fair sends every message in the message group of its tenant, so that one
	// tenant's backlog does not delay another's. SQS charges more for such requests.
	Fair bool
}

// Client gives access to the queues.
type Client struct {
	client *awssqs.Client
	queues Queues
	urls   *urlCache
}

// Open makes a Client without calling SQS.
func Open(client *awssqs.Client, queues Queues) *Client {
	return &Client{client: client, queues: queues, urls: newURLCache(queues.Pools)}
}

// WithMeter returns a sender for one unit of work, whose requests are counted into
// m; a nil m counts nothing. It is cheap.
func (c *Client) WithMeter(m *cost.Meter) *Sender {
	return &Sender{parent: c, options: countRequests(m)}
}

// PoolQueueURL returns the URL of a pool's queue; CodeUnavailable if the pool has
// none.
func (c *Client) PoolQueueURL(ctx context.Context, now time.Time, pool string) (string, error) {
	url, err := c.LookupPoolQueue(ctx, now, pool)
	if err == nil && url == "" {
		err = workflow.Errorf(workflow.CodeUnavailable, "the pool %s has no queue", pool)
	}
	return url, err
}

// LookupPoolQueue returns the URL of a pool's queue, "" if the pool has none.
func (c *Client) LookupPoolQueue(ctx context.Context, now time.Time, pool string) (string, error) {
	url, err := c.queueURL(ctx, now, pool)
	return url, wrapError(err)
}

// Defer makes a received message of a queue visible again after a time.
func (c *Client) Defer(ctx context.Context, queueURL, receiptHandle string, after time.Duration) error {
	_, err := c.client.ChangeMessageVisibility(ctx, &awssqs.ChangeMessageVisibilityInput{
		QueueUrl: &queueURL, ReceiptHandle: &receiptHandle, VisibilityTimeout: wholeSeconds(after, maxVisibility),
	})
	return wrapError(err)
}

// EngineQueueURL returns the URL of one of the engine's own queues by its role, "" if there is
// none.
func (c *Client) EngineQueueURL(role string) string {
	return map[string]string{topology.QueueLifecycle: c.queues.Lifecycle, topology.QueueEvents: c.queues.Events, topology.QueueHooksOut: c.queues.HooksOut, topology.QueueHooksIn: c.queues.HooksIn}[role]
}

const (
	missingTTL   = 5 * time.Second // how long SQS is not asked again about a queue that did not exist
	maxQueueName = 80              // the longest name of a queue
)

// urlCache holds the URLs of pools' queues, for all senders of a client.
type urlCache struct {
	mu      sync.Mutex
	urls    map[string]string
	missing map[string]time.Time
}

func newURLCache(pools map[string]string) *urlCache {
	cache := &urlCache{urls: maps.Clone(pools), missing: map[string]time.Time{}}
	if cache.urls == nil {
		cache.urls = map[string]string{}
	}
	return cache
}

// markMissing drops a URL at which no queue was found.
func (cache *urlCache) markMissing(pool string, now time.Time) {
	cache.mu.Lock()
	defer cache.mu.Unlock()
	delete(cache.urls, pool)
	cache.missing[pool] = now
}

// queueURL returns the URL of a pool's queue, "" if it has none at the moment. No meter counts the
// request: a process makes it once, for all executions.
func (c *Client) queueURL(ctx context.Context, now time.Time, pool string) (string, error) {
	cache := c.urls
	cache.mu.Lock()
	url, known := cache.urls[pool]
	since, missing := cache.missing[pool]
	cache.mu.Unlock()
	if known {
		return url, nil
	}
	if missing && now.Sub(since) < missingTTL && !now.Before(since) {
		return "", nil
	}
	name := c.queues.Prefix + topology.PoolInQueueName(pool)
	if len(name) > maxQueueName {
		return "", nil // SQS would refuse the name, which would count as a bug in this program
	}
	if topology.NamesDeadLetters(pool) {
		return "", nil // a block registered by an earlier release: that queue holds the dead letters of others
	}
	out, err := c.client.GetQueueUrl(ctx, &awssqs.GetQueueUrlInput{QueueName: &name})
	if err != nil && !isQueueNotFound(err) {
		return "", err
	}
	cache.mu.Lock()
	defer cache.mu.Unlock()
	if err != nil {
		cache.missing[pool] = now
		return "", nil
	}
	delete(cache.missing, pool)
	cache.urls[pool] = *out.QueueUrl
	return *out.QueueUrl, nil
}

// isQueueNotFound recognises both names that SQS has used for the error.
func isQueueNotFound(err error) bool {
	var typed *types.QueueDoesNotExist
	if errors.As(err, &typed) {
		return true
	}
	var api smithy.APIError
	return errors.As(err, &api) && (api.ErrorCode() == "AWS.SimpleQueueService.NonExistentQueue" || api.ErrorCode() == "QueueDoesNotExist")
}

// wrapError gives an error of the SDK a code; our own errors have one.
func wrapError(err error) error {
	var ours *workflow.Error
	if err == nil || errors.As(err, &ours) {
		return err
	}
	return &workflow.Error{Code: workflow.CodeUnavailable, Message: "the queue is unavailable", Cause: err}
}
