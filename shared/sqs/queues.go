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

// missingFor is how long a queue that did not exist is not asked for again.
const missingFor = 5 * time.Second

// nameLimit is the longest name that a queue can have.
const nameLimit = 80

// addresses remembers where pools' queues were found, for all boards.
type addresses struct {
	mu      sync.Mutex
	known   map[string]string
	missing map[string]time.Time
}

// address is the URL of a pool's queue, empty if it has none at the moment.
func (b *Board) address(ctx context.Context, now time.Time, pool string) (string, error) {
	a := b.open.found
	a.mu.Lock()
	url, known := a.known[pool]
	since, missing := a.missing[pool]
	a.mu.Unlock()
	if known {
		return url, nil
	}
	if missing && now.Sub(since) < missingFor && !now.Before(since) {
		return "", nil
	}
	name := b.open.queues.Prefix + pool
	if len(name) > nameLimit {
		return "", nil // SQS would answer that the name is wrong, and call that our mistake
	}
	out, err := b.open.client.GetQueueUrl(ctx, &awssqs.GetQueueUrlInput{QueueName: &name}, b.options)
	if err != nil && !doesNotExist(err) {
		return "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.missing[pool] = now
		return "", nil
	}
	delete(a.missing, pool)
	a.known[pool] = *out.QueueUrl
	return *out.QueueUrl, nil
}

// Find is the URL of a pool's queue; CodeUnavailable if it has none.
func (b *Blackboard) Find(ctx context.Context, now time.Time, pool string) (string, error) {
	url, err := b.Lookup(ctx, now, pool)
	if err == nil && url == "" {
		err = workflow.Errorf(workflow.CodeUnavailable, "the pool %s has no queue", pool)
	}
	return url, err
}

// Lookup is the URL of a pool's queue, empty if it has none.
func (b *Blackboard) Lookup(ctx context.Context, now time.Time, pool string) (string, error) {
	url, err := b.With(nil).address(ctx, now, pool)
	return url, Typed(err)
}

// Lifecycle is the URL of the queue of looks.
func (b *Blackboard) Lifecycle() string { return b.queues.Lifecycle }

// forget drops an address at which no queue was found.
func (a *addresses) forget(pool string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.known, pool)
	a.missing[pool] = now
}

func newAddresses(pools map[string]string) *addresses {
	a := &addresses{known: maps.Clone(pools), missing: map[string]time.Time{}}
	if a.known == nil {
		a.known = map[string]string{}
	}
	return a
}

// doesNotExist understands both names that the error has had.
func doesNotExist(err error) bool {
	var typed *types.QueueDoesNotExist
	if errors.As(err, &typed) {
		return true
	}
	var api smithy.APIError
	return errors.As(err, &api) && (api.ErrorCode() == "AWS.SimpleQueueService.NonExistentQueue" || api.ErrorCode() == "QueueDoesNotExist")
}
