package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Workers lists the polling workers.
func (c *Client) Workers(ctx context.Context) iter.Seq2[views.WorkerView, error] {
	return paginate[views.WorkerView](ctx, c, nil, "workers")
}

// BlockWorkers lists the polling workers that serve an exact block.
func (c *Client) BlockWorkers(ctx context.Context, block workflow.Ref) iter.Seq2[views.WorkerView, error] {
	return paginate[views.WorkerView](ctx, c, nil, append(refSegments("function-blocks", block), "workers")...)
}

// Worker reads a polling worker.
func (c *Client) Worker(ctx context.Context, id string) (views.WorkerView, error) {
	return get[views.WorkerView](ctx, c, "workers", id)
}

// RegisterWorker registers a worker that polls over HTTP.
func (c *Client) RegisterWorker(ctx context.Context, r views.WorkerRegistration) (views.WorkerView, error) {
	return post[views.WorkerView](ctx, c, r, "workers", "register")
}

// HeartbeatWorker reports that a worker is alive.
func (c *Client) HeartbeatWorker(ctx context.Context, id string) (views.WorkerView, error) {
	return post[views.WorkerView](ctx, c, nil, "workers", id, "heartbeat")
}

// DrainWorker makes a worker get no new packs until it is started again.
func (c *Client) DrainWorker(ctx context.Context, id, why string) (views.WorkerView, error) {
	return post[views.WorkerView](ctx, c, map[string]string{"reason": why}, "workers", id, "drain")
}

// UnregisterWorker removes a worker.
func (c *Client) UnregisterWorker(ctx context.Context, id string) (views.WorkerView, error) {
	return post[views.WorkerView](ctx, c, nil, "workers", id, "unregister")
}

// Poll waits up to 20 s for a pack; nil means that there is none. If it fails, it may be called
// again with the same Attempt, and then returns the pack that was claimed for it. Without an
// Attempt it chooses one.
func (c *Client) Poll(ctx context.Context, r views.JobPoll) (*views.PackOffer, error) {
	if r.Attempt == "" {
		r.Attempt = rand.Text()
	}
	work, status, err := decodeWithStatus[views.PackOffer](c.send(ctx, request{method: http.MethodPost, path: "/blackboard/job", body: r}))
	if err != nil || status == http.StatusNoContent {
		return nil, err
	}
	return &work, nil
}

// ExtendPack renews a pack's lease and reports the progress of its jobs. CodeClaimLost means that
// another worker has the pack, or that it is finished.
func (c *Client) ExtendPack(ctx context.Context, pack string, token int, jobs ...views.JobReport) (views.PackLease, error) {
	claim := struct {
		Pack  string            `json:"pack"`
		Token int               `json:"token"`
		Jobs  []views.JobReport `json:"jobs,omitempty"`
	}{pack, token, jobs}
	return post[views.PackLease](ctx, c, claim, "blackboard", "job", "heartbeat")
}

// FinishPack stores results of a pack, with errors as [Client.ExtendPack].
func (c *Client) FinishPack(ctx context.Context, r views.PackResults) (views.PackLease, error) {
	if r.Results == nil {
		r.Results = []json.RawMessage{}
	}
	return post[views.PackLease](ctx, c, r, "blackboard", "job", "result")
}

// Pools lists the pools with what waits for their workers.
func (c *Client) Pools(ctx context.Context) iter.Seq2[views.PoolView, error] {
	return paginate[views.PoolView](ctx, c, nil, "blackboard", "jobs")
}

// DeadLetters lists the dead letters of all queues, or of one; limit 0 means the
// service's default.
func (c *Client) DeadLetters(ctx context.Context, queue string, limit int) iter.Seq2[views.DeadLetterQueue, error] {
	query := url.Values{}
	set(query, "queue", queue)
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return paginate[views.DeadLetterQueue](ctx, c, query, "dead-letters")
}

// Redrive moves dead letters back to their queues, a bounded number per call.
func (c *Client) Redrive(ctx context.Context, r views.RedriveRequest) (views.RedriveView, error) {
	return post[views.RedriveView](ctx, c, r, "dead-letters", "redrive")
}

// NextSweep reads what the next sweep would do.
func (c *Client) NextSweep(ctx context.Context) (views.SweepView, error) {
	return get[views.SweepView](ctx, c, "sweep")
}
