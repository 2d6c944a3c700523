package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"

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

// Worker reads one.
func (c *Client) Worker(ctx context.Context, id string) (views.WorkerView, error) {
	return get[views.WorkerView](ctx, c, "workers", id)
}

// RegisterWorker makes a worker known that polls over HTTP.
func (c *Client) RegisterWorker(ctx context.Context, r views.WorkerRegistration) (views.WorkerView, error) {
	return post[views.WorkerView](ctx, c, r, "workers", "register")
}

// HeartbeatWorker says that it lives, UnregisterWorker that it goes.
func (c *Client) HeartbeatWorker(ctx context.Context, id string) (views.WorkerView, error) {
	return post[views.WorkerView](ctx, c, nil, "workers", id, "heartbeat")
}

// UnregisterWorker says that a worker goes.
func (c *Client) UnregisterWorker(ctx context.Context, id string) (views.WorkerView, error) {
	return post[views.WorkerView](ctx, c, nil, "workers", id, "unregister")
}

// Poll waits for a pack, up to 20 s; nil if none has come.
func (c *Client) Poll(ctx context.Context, r views.JobPoll) (*views.PackOffer, error) {
	work, status, err := decodeWithStatus[views.PackOffer](c.send(ctx, request{method: http.MethodPost, path: "/blackboard/job", body: r}))
	if err != nil || status == http.StatusNoContent {
		return nil, err
	}
	return &work, nil
}

// ExtendPack renews a pack's lease; FinishPack pushes results. CodeClaimLost says
// that the pack is somebody else's, or over.
func (c *Client) ExtendPack(ctx context.Context, pack string, token int) (views.PackLease, error) {
	claim := struct {
		Pack  string `json:"pack"`
		Token int    `json:"token"`
	}{pack, token}
	return post[views.PackLease](ctx, c, claim, "blackboard", "job", "heartbeat")
}

// FinishPack pushes results.
func (c *Client) FinishPack(ctx context.Context, r views.PackResults) (views.PackLease, error) {
	if r.Results == nil {
		r.Results = []json.RawMessage{}
	}
	return post[views.PackLease](ctx, c, r, "blackboard", "job", "result")
}

// Pools shows what waits for workers.
func (c *Client) Pools(ctx context.Context) iter.Seq2[views.PoolView, error] {
	return paginate[views.PoolView](ctx, c, nil, "blackboard", "jobs")
}
