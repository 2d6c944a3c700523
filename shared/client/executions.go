package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Started is the response to a start.
type Started struct {
	ID     string                       `json:"id"`
	State  statemachines.ExecutionState `json:"state"`
	Status statemachines.Status         `json:"status"`

	// Signalled means that a start with a signal has started nothing: the execution existed and got
	// the signal.
	Signalled bool `json:"signalled,omitempty"`
}

// Start starts an execution. existed is true if the request's idempotency key has started it
// before. Without a key the request is not retried.
func (c *Client) Start(ctx context.Context, req views.StartRequest) (s Started, existed bool, err error) {
	q := request{method: http.MethodPost, path: "/workflow-execution", body: req, key: req.IdempotencyKey}
	if req.IdempotencyLife > 0 {
		q.life = fmt.Sprintf("%ds", int64(req.IdempotencyLife.Seconds()))
	}
	s, status, err := decodeWithStatus[Started](c.send(ctx, q))
	return s, status == http.StatusOK, err
}

// Plan returns what a start with the request would do. It stores nothing.
func (c *Client) Plan(ctx context.Context, req views.StartRequest) (views.PlanView, error) {
	return post[views.PlanView](ctx, c, req, "workflow-execution", "plan")
}

// Next returns a page of the jobs that a completed probe would do next.
func (c *Client) Next(ctx context.Context, id, pageToken string) (views.NextView, error) {
	query := url.Values{}
	set(query, "pageToken", pageToken)
	return do[views.NextView](ctx, c, request{method: http.MethodGet, path: route("workflow-execution", "id", id, "next"), query: query})
}

// Execution reads an execution.
func (c *Client) Execution(ctx context.Context, id string) (views.ExecutionView, error) {
	return get[views.ExecutionView](ctx, c, "workflow-execution", "id", id)
}

// PinnedDefinition returns the definition that an execution uses.
func (c *Client) PinnedDefinition(ctx context.Context, id string) (views.PinnedDefinition, error) {
	return get[views.PinnedDefinition](ctx, c, "workflow-execution", "id", id, "definition")
}

// executionIfChanged reads an execution unless it is unchanged since the service returned x with a
// tag; then it returns x.
func (c *Client) executionIfChanged(ctx context.Context, id string, x views.ExecutionView, tag string) (views.ExecutionView, string, error) {
	res, err := c.send(ctx, request{method: http.MethodGet, path: route("workflow-execution", "id", id), ifNoneMatch: tag})
	if err == nil && res.StatusCode == http.StatusNotModified && tag != "" {
		_ = res.Body.Close() // it is empty
		return x, tag, nil
	}
	now, err := decodeResponse[views.ExecutionView](res, err)
	if err != nil {
		return x, tag, err
	}
	return now, res.Header.Get("ETag"), nil
}

// Executions lists executions, newest first. Active cannot be combined with other
// filters.
func (c *Client) Executions(ctx context.Context, f views.ExecutionFilter) iter.Seq2[views.ExecutionView, error] {
	if f.Active {
		return paginate[views.ExecutionView](ctx, c, nil, "workflow-execution", "active")
	}
	return paginate[views.ExecutionView](ctx, c, filterQuery(f), "workflow-execution")
}

func filterQuery(f views.ExecutionFilter) url.Values {
	query := url.Values{}
	set(query, "state", string(f.State))
	set(query, "status", string(f.Status))
	set(query, "outcome", string(f.Outcome))
	set(query, "waiting", string(f.Waiting))
	set(query, "parent", f.Parent)
	set(query, "key", f.Key)
	set(query, "region", f.Region)
	set(query, "idempotencyKey", f.IdempotencyKey)
	if f.Order == workflow.OrderOldest {
		query.Set("sort", "createdAt:asc")
	}
	if !f.CreatedAfter.IsZero() {
		query.Set("createdAfter", f.CreatedAfter.Format(time.RFC3339Nano))
	}
	if !f.CreatedBefore.IsZero() {
		query.Set("createdBefore", f.CreatedBefore.Format(time.RFC3339Nano))
	}
	if f.Workflow.Name != "" {
		query.Set("workflow", f.Workflow.String())
	}
	addLabels(query, f.Labels)
	return query
}

func addLabels(query url.Values, labels map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		query.Add("label", name+"="+labels[name])
	}
}

// Failures lists the entities that did not succeed in an execution, those of the newest execution
// first.
func (c *Client) Failures(ctx context.Context, f views.FailureFilter) iter.Seq2[views.FailedEntityView, error] {
	query := url.Values{}
	if !f.Since.IsZero() {
		query.Set("since", f.Since.Format(time.RFC3339Nano))
	}
	if f.Workflow.Name != "" {
		query.Set("workflow", f.Workflow.String())
	}
	for _, group := range f.Groups {
		query.Add("group", group)
	}
	return paginate[views.FailedEntityView](ctx, c, query, "failures")
}

// Status returns an execution's normalised status.
func (c *Client) Status(ctx context.Context, id string) (views.StatusView, error) {
	return get[views.StatusView](ctx, c, "executions", id, "status")
}

// History lists an execution's events, oldest first.
func (c *Client) History(ctx context.Context, id string) iter.Seq2[workflow.Event, error] {
	return c.HistoryAfter(ctx, id, 0)
}

// HistoryAfter is History without the events up to number after.
func (c *Client) HistoryAfter(ctx context.Context, id string, after int64) iter.Seq2[workflow.Event, error] {
	return c.awaitHistory(ctx, id, after, "")
}

// followWait is how long the service may wait for an event of a followed execution.
const followWait = "20s"

// awaitHistory is HistoryAfter, but if there is no event, the service waits up to wait for one.
func (c *Client) awaitHistory(ctx context.Context, id string, after int64, wait string) iter.Seq2[workflow.Event, error] {
	query := url.Values{}
	set(query, "wait", wait)
	if after > 0 {
		query.Set("after", strconv.FormatInt(after, 10))
	}
	return paginate[workflow.Event](ctx, c, query, "workflow-execution", "id", id, "history")
}

// FollowHistory lists an execution's events behind number after, oldest first, and then new events
// as they come, until the execution is [Idle] and all of its events are listed. The service waits
// up to 20 s for new events. Between two requests there is a pause of shortest, and of up to
// longest while the service is unavailable. FollowHistory survives a service that becomes
// unavailable for a while, as Follow does. onRetry may be nil.
func (c *Client) FollowHistory(ctx context.Context, id string, after int64, shortest, longest time.Duration, onRetry func(error)) iter.Seq2[workflow.Event, error] {
	return func(yield func(workflow.Event, error) bool) {
		pause, failures, idle, ask := shortest, maxUnavailable, false, true
		for {
			err := func() error {
				if ask { // the first time, and when the execution may have ended
					x, err := c.Execution(ctx, id)
					if err != nil {
						return err
					}
					ask, idle = false, Idle(x)
				}
				wait := followWait
				if idle {
					wait = ""
				}
				for e, err := range c.awaitHistory(ctx, id, after, wait) {
					if err != nil {
						return err
					}
					failures, after = 0, e.Sequence
					ask = ask || e.Layer == string(statemachines.LayerExecution)
					if !yield(e, nil) {
						return errStopped
					}
				}
				failures = 0
				return nil
			}()
			switch {
			case errors.Is(err, errStopped):
				return
			case err != nil && (!isUnavailable(err) || failures >= maxUnavailable || ctx.Err() != nil):
				yield(workflow.Event{}, err)
				return
			case err != nil:
				if failures++; onRetry != nil {
					onRetry(err)
				}
			case idle:
				return // the events were read after it was found idle
			case ask:
				continue
			}
			if pause = min(pause+pause/4, longest); err == nil {
				pause = shortest
			}
			if err := c.sleep(ctx, pause); err != nil {
				yield(workflow.Event{}, err)
				return
			}
		}
	}
}

// errStopped means that the caller has stopped iterating.
var errStopped = errors.New("stopped")

// Compensations lists what has been done to undo the steps of an execution, with every attempt.
func (c *Client) Compensations(ctx context.Context, id string) iter.Seq2[workflow.Job, error] {
	return paginate[workflow.Job](ctx, c, nil, "workflow-execution", "id", id, "compensations")
}

// Children lists the executions that an execution has started, or that one of its steps has; ""
// means all.
func (c *Client) Children(ctx context.Context, id, step string) iter.Seq2[views.ChildExecutionView, error] {
	query := url.Values{}
	set(query, "step", step)
	return paginate[views.ChildExecutionView](ctx, c, query, "workflow-execution", "id", id, "children")
}

// Jobs lists an execution's jobs, with every attempt unless the filter leaves some out.
func (c *Client) Jobs(ctx context.Context, id string, f views.JobFilter) iter.Seq2[workflow.Job, error] {
	query := url.Values{}
	set(query, "step", f.Step)
	set(query, "state", string(f.State))
	set(query, "kind", string(f.Kind))
	if f.LastAttempts {
		query.Set("attempts", "last")
	}
	if f.FinallyFailed {
		query.Set("failed", "true")
	}
	switch {
	case f.Entity.Type != "":
		query.Set("entity", f.Entity.String())
	case f.Entity.ID != "":
		query.Set("entity", f.Entity.ID)
	}
	return paginate[workflow.Job](ctx, c, query, "workflow-execution", "id", id, "jobs")
}

// Steps lists an execution's step runs and rollback waves, in order of entry.
func (c *Client) Steps(ctx context.Context, id string) iter.Seq2[views.StepView, error] {
	return paginate[views.StepView](ctx, c, nil, "workflow-execution", "id", id, "steps")
}

// Result returns the results of an execution's steps.
func (c *Client) Result(ctx context.Context, id string) (views.ResultView, error) {
	return get[views.ResultView](ctx, c, "workflow-execution", "id", id, "result")
}

// Cost returns what an execution has consumed.
func (c *Client) Cost(ctx context.Context, id string) (views.CostView, error) {
	return get[views.CostView](ctx, c, "workflow-execution", "id", id, "cost")
}

// Cancel cancels an execution and returns it as it is then.
func (c *Client) Cancel(ctx context.Context, id string, req views.CancelRequest) (views.ExecutionView, error) {
	return post[views.ExecutionView](ctx, c, req, "workflow-execution", id, "cancel")
}

// release is the body of a request that releases locks.
type release struct {
	Reason   string   `json:"reason,omitempty"`
	Entities []string `json:"entities,omitempty"`
}

// Acknowledge acknowledges an execution that ended unsafe, which releases its locks, or
// some of its entities, each as "type/id".
func (c *Client) Acknowledge(ctx context.Context, id, why string, entities ...string) (views.ExecutionView, error) {
	return post[views.ExecutionView](ctx, c, release{why, entities}, "workflow-execution", id, "acknowledge")
}

// Retry starts another try of a failed execution.
func (c *Client) Retry(ctx context.Context, id string, req views.RetryRequest) (views.ExecutionView, error) {
	return post[views.ExecutionView](ctx, c, req, "workflow-execution", id, "retry")
}

// Rerun starts an execution that repeats some entities of an ended one. existed is as in
// [Client.Start].
func (c *Client) Rerun(ctx context.Context, id string, req views.RerunRequest) (s Started, existed bool, err error) {
	s, status, err := decodeWithStatus[Started](c.send(ctx, request{method: http.MethodPost, path: route("workflow-execution", id, "rerun"), body: req, key: req.IdempotencyKey}))
	return s, status == http.StatusOK, err
}

// Resume continues an execution that waits.
func (c *Client) Resume(ctx context.Context, id, why string) (views.ExecutionView, error) {
	return post[views.ExecutionView](ctx, c, reason{why}, "workflow-execution", id, "resume")
}

// ResumeStep continues an execution at one of the steps that wait for a time.
func (c *Client) ResumeStep(ctx context.Context, id, step, why string) (views.ExecutionView, error) {
	return post[views.ExecutionView](ctx, c, views.AnswerRequest{Step: step, Reason: why}, "workflow-execution", id, "resume")
}

// NextStep lets an execution that waits in front of each step enter the next one, or all. With an
// input it answers the step that waits first.
func (c *Client) NextStep(ctx context.Context, id string, req views.NextRequest) (views.ExecutionView, error) {
	return do[views.ExecutionView](ctx, c, request{method: http.MethodPost, path: route("workflow-execution", id, "next"), body: req, key: req.IdempotencyKey})
}

// Rewind takes an execution that waits back to an earlier step.
func (c *Client) Rewind(ctx context.Context, id string, req views.RewindRequest) (views.ExecutionView, error) {
	return post[views.ExecutionView](ctx, c, req, "workflow-execution", id, "rewind")
}

// Answer answers a step that waits for people, and returns the execution as it is then.
func (c *Client) Answer(ctx context.Context, id string, req views.AnswerRequest) (views.ExecutionView, error) {
	x, _, err := decodeWithStatus[views.ExecutionView](c.send(ctx, request{method: http.MethodPost, path: route("workflow-execution", id, "resume"), body: req, key: req.IdempotencyKey}))
	return x, err
}

// CreateToken makes a token with which somebody answers a step that waits for people.
func (c *Client) CreateToken(ctx context.Context, id string, req views.TokenRequest) (views.TokenView, error) {
	return post[views.TokenView](ctx, c, req, "workflow-execution", id, "tokens")
}

// RevokeTokens revokes all tokens of a step that waits.
func (c *Client) RevokeTokens(ctx context.Context, id string, req views.RevokeRequest) (views.ExecutionView, error) {
	return post[views.ExecutionView](ctx, c, req, "workflow-execution", id, "tokens", "revoke")
}

// Tokens lists what is known of the tokens of an execution.
func (c *Client) Tokens(ctx context.Context, id string) iter.Seq2[views.TokenStateView, error] {
	return paginate[views.TokenStateView](ctx, c, nil, "workflow-execution", "id", id, "tokens")
}

// AnswerByToken answers the step that a token names. The client's own credentials are not sent.
func (c *Client) AnswerByToken(ctx context.Context, token string, req views.TokenAnswer) (views.TokenReceipt, error) {
	return do[views.TokenReceipt](ctx, c, request{method: http.MethodPost, path: route("answers"), body: req, key: req.IdempotencyKey, token: token})
}

// QuestionOfToken returns the question to the bearer of a token.
func (c *Client) QuestionOfToken(ctx context.Context, token string) (views.QuestionView, error) {
	return do[views.QuestionView](ctx, c, request{method: http.MethodGet, path: route("answers"), token: token})
}

// Signal sends a signal to an execution, and returns the execution as it is then.
func (c *Client) Signal(ctx context.Context, id, name string, req views.SignalRequest) (views.ExecutionView, error) {
	x, _, err := decodeWithStatus[views.ExecutionView](c.send(ctx, request{method: http.MethodPost, path: route("workflow-execution", id, "signal", name), body: req, key: req.IdempotencyKey}))
	return x, err
}

// SignalKey sends a signal to the execution that has a business key of the workflow "package/name",
// and returns that execution.
func (c *Client) SignalKey(ctx context.Context, workflowName, key, name string, req views.SignalRequest) (views.ExecutionView, error) {
	pkg, plain, _ := strings.Cut(workflowName, "/")
	x, _, err := decodeWithStatus[views.ExecutionView](c.send(ctx, request{method: http.MethodPost, path: route("signals", pkg, plain, key, name), body: req, key: req.IdempotencyKey}))
	return x, err
}

// Inputs lists the open questions of an execution or, without an id, of all executions. mine limits
// them to those that the caller may answer and has not answered.
func (c *Client) Inputs(ctx context.Context, id string, mine bool) iter.Seq2[views.InputView, error] {
	query := url.Values{}
	if mine {
		query.Set("mine", "true")
	}
	if id != "" {
		return paginate[views.InputView](ctx, c, query, "workflow-execution", "id", id, "inputs")
	}
	return paginate[views.InputView](ctx, c, query, "inputs")
}

// Unlock only releases the locks of an execution that has ended and still holds them, or those of
// some entities, each as "type/id".
func (c *Client) Unlock(ctx context.Context, id, why string, entities ...string) (views.ExecutionView, error) {
	return post[views.ExecutionView](ctx, c, release{why, entities}, "workflow-execution", id, "unlock")
}
