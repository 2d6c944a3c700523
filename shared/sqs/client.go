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

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Queues says where the queues are.
type Queues struct {
	Lifecycle string            // URL
	Pools     map[string]string // URL by pool; looked at first
	Prefix    string            // a pool that is not in Pools has the queue of this name plus the pool's

	// Fair sends every message in the group of its tenant, so that one tenant's
	// backlog does not delay another's. SQS charges such requests more.
	Fair bool
}

// missingTTL is how long a queue that did not exist is not asked for again.
const missingTTL = 5 * time.Second

// maxQueueName is the longest name that a queue can have.
const maxQueueName = 80

// urlCache remembers where pools' queues were found, for all boards.
type urlCache struct {
	mu      sync.Mutex
	urls    map[string]string
	missing map[string]time.Time
}

// queueURL is the URL of a pool's queue, empty if it has none at the moment.
func (b *Sender) queueURL(ctx context.Context, now time.Time, pool string) (string, error) {
	a := b.parent.urls
	a.mu.Lock()
	url, known := a.urls[pool]
	since, missing := a.missing[pool]
	a.mu.Unlock()
	if known {
		return url, nil
	}
	if missing && now.Sub(since) < missingTTL && !now.Before(since) {
		return "", nil
	}
	name := b.parent.queues.Prefix + pool
	if len(name) > maxQueueName {
		return "", nil // SQS would answer that the name is wrong, and call that our mistake
	}
	out, err := b.parent.client.GetQueueUrl(ctx, &awssqs.GetQueueUrlInput{QueueName: &name}, b.options)
	if err != nil && !isQueueNotFound(err) {
		return "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.missing[pool] = now
		return "", nil
	}
	delete(a.missing, pool)
	a.urls[pool] = *out.QueueUrl
	return *out.QueueUrl, nil
}

// PoolQueueURL is the URL of a pool's queue; CodeUnavailable if it has none.
func (b *Client) PoolQueueURL(ctx context.Context, now time.Time, pool string) (string, error) {
	url, err := b.LookupPoolQueue(ctx, now, pool)
	if err == nil && url == "" {
		err = workflow.Errorf(workflow.CodeUnavailable, "the pool %s has no queue", pool)
	}
	return url, err
}

// LookupPoolQueue is the URL of a pool's queue, empty if it has none.
func (b *Client) LookupPoolQueue(ctx context.Context, now time.Time, pool string) (string, error) {
	url, err := b.WithMeter(nil).queueURL(ctx, now, pool)
	return url, wrapError(err)
}

// LifecycleURL is the URL of the queue of looks.
func (b *Client) LifecycleURL() string { return b.queues.Lifecycle }

// markMissing drops an address at which no queue was found.
func (a *urlCache) markMissing(pool string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.urls, pool)
	a.missing[pool] = now
}

func newURLCache(pools map[string]string) *urlCache {
	a := &urlCache{urls: maps.Clone(pools), missing: map[string]time.Time{}}
	if a.urls == nil {
		a.urls = map[string]string{}
	}
	return a
}

// isQueueNotFound understands both names that the error has had.
func isQueueNotFound(err error) bool {
	var typed *types.QueueDoesNotExist
	if errors.As(err, &typed) {
		return true
	}
	var api smithy.APIError
	return errors.As(err, &api) && (api.ErrorCode() == "AWS.SimpleQueueService.NonExistentQueue" || api.ErrorCode() == "QueueDoesNotExist")
}
