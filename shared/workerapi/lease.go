package workerapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/worker/httpblock"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Extend renews the lease of a pack. It is also a heartbeat of its worker.
func (s *Service) Extend(ctx context.Context, c workflow.Caller, r views.PackResults) (views.PackLease, error) {
	rcpt, m, err := s.decodeReceipt(c, r)
	if err != nil {
		return views.PackLease{}, err
	}
	return s.resumeLease(ctx, c, r, rcpt, m, nil)
}

// Finish takes results. A pack is over when all of its jobs have ended, or when
// its worker, asked to stop, has given back what there was; until then the lease
// is renewed. Results that come twice, or too late, change nothing; one that is no
// answer of a block, or about no job of the pack, is refused with all the others.
func (s *Service) Finish(ctx context.Context, c workflow.Caller, r views.PackResults) (views.PackLease, error) {
	rcpt, m, err := s.decodeReceipt(c, r)
	if err != nil {
		return views.PackLease{}, err
	}
	results, issues := parseResults(m, r)
	if err := workflow.Invalid("the request is not valid", issues); err != nil {
		return views.PackLease{}, err
	}
	return s.resumeLease(ctx, c, r, rcpt, m, results)
}

// resultFields is what a worker says of one job, besides what a block says.
type resultFields struct {
	Job      string `json:"job"`
	Outcome  any    `json:"outcome"`
	Result   any    `json:"result"`
	Entities any    `json:"entities"`
	Updates  any    `json:"updates"`
	Error    any    `json:"error"`
}

func parseResults(m *workflow.PackMessage, r views.PackResults) (*worker.RemoteResult, []workflow.Issue) {
	jobs := map[string]bool{}
	for _, in := range m.Jobs {
		jobs[workflow.JobID(m.Key.Execution, m.Key.StepRunSeq, in.Index, m.Key.Attempt)] = true
	}
	parsed := &worker.RemoteResult{Results: map[string]worker.JobResult{}, NotBegun: r.NotStarted}
	var issues []workflow.Issue
	addIssue := func(path, code, message string) {
		issues = append(issues, workflow.Issue{Path: path, Code: code, Message: message})
	}
	const noJob = "the pack has no such job"
	for i, raw := range r.Results {
		at := fmt.Sprintf("results[%d]", i)
		var fields resultFields
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.DisallowUnknownFields()
		switch err := decoder.Decode(&fields); {
		case err != nil:
			addIssue(at, "value", strings.TrimPrefix(err.Error(), "json: "))
			continue
		case fields.Job == "":
			addIssue(at+".job", "required", "want the id of a job of the pack")
			continue
		case len(m.Jobs) > 0 && !jobs[fields.Job]:
			addIssue(at+".job", "value", noJob)
			continue
		}
		a, err := httpblock.ParseResponse(raw, m.Work.Kind)
		if err != nil {
			addIssue(at, "value", err.Error())
			continue
		}
		parsed.Results[fields.Job] = a
	}
	for i, id := range r.NotStarted {
		if len(m.Jobs) > 0 && !jobs[id] {
			addIssue(fmt.Sprintf("notBegun[%d]", i), "value", noJob)
		}
	}
	return parsed, issues
}

// decodeReceipt is the receipt that a worker shows, and the message that it was given for.
func (s *Service) decodeReceipt(c workflow.Caller, r views.PackResults) (*receipt, *workflow.PackMessage, error) {
	rcpt, err := parseReceipt(r.Pack)
	if err != nil {
		return nil, nil, err
	}
	m, err := s.Decode(rcpt.Body)
	if err != nil {
		return nil, nil, invalidReceipt() // whatever is wrong with it, nobody was given it
	}
	if m.Key.Tenant != c.Tenant {
		return nil, nil, claimLost()
	}
	return rcpt, m, nil
}

// resumeLease goes on with a loan, as its receipt and its message have it.
func (s *Service) resumeLease(ctx context.Context, c workflow.Caller, r views.PackResults, rcpt *receipt, m *workflow.PackMessage, results *worker.RemoteResult) (views.PackLease, error) {
	none := views.PackLease{}
	ports, p := s.ports()
	seen, err := ports.Packs.Pack(ctx, m.Key)
	if err != nil {
		return none, err
	}
	if seen == nil || seen.State != workflow.PackClaimed || seen.Token != r.Token || seen.Nonce != rcpt.claimNonce() {
		return none, claimLost()
	}
	if results != nil && !addsResults(m, seen, results) {
		return none, claimLost()
	}
	s.recordHeartbeat(ctx, c, seen.Worker)
	q, err := s.PoolQueue(ctx, rcpt.Pool)
	if err != nil {
		return none, err
	}
	d := worker.Delivery{ReceiptHandle: rcpt.Handle, Body: rcpt.Body, ReceiveCount: 1}
	w := s.sdkWorker(seen.Worker, rcpt.claimNonce())
	remote, disposition, err := w.ResumeRemote(ctx, m, seen, results, p)
	if err != nil {
		return none, err
	}
	if remote != nil {
		// A message that is not kept away comes to somebody who finds the lease running.
		if err := q.Defer(ctx, d, w.LeaseDuration); err != nil {
			s.logWarning(ctx, "message not held; it may come twice", m, err)
		}
		leaseEnd := remote.Pack.Lease.UTC()
		return views.PackLease{Lease: &leaseEnd, Cancel: remote.Pack.CancelRequested}, nil
	}
	// The pack is over, whatever becomes of its message and of what is shown.
	if err := w.Settle(ctx, q, d, m, disposition, p); err != nil {
		s.logWarning(ctx, "message not deleted; it comes again and changes nothing", m, err)
	}
	if err := s.WorkerRegistry.Workers.RemoveClaimedPack(ctx, c.Tenant, seen.Worker, m.Key.ClaimedPack()); err != nil {
		s.logWarning(ctx, "a worker's pack is still shown", m, err, slog.String(observe.Worker, seen.Worker))
	}
	return views.PackLease{Cancel: seen.CancelRequested}, nil
}

// logWarning tells of something about a pack that is not as it should be.
func (s *Service) logWarning(ctx context.Context, msg string, m *workflow.PackMessage, err error, more ...slog.Attr) {
	s.Log.LogAttrs(ctx, slog.LevelWarn, msg, append(append(worker.PackAttrs(m), more...), observe.Err(err))...)
}

// addsResults reports whether what is returned says something that is not known: of a
// job that has not ended, or that no more is to come of a pack that is cancelled.
func addsResults(m *workflow.PackMessage, seen *workflow.Pack, r *worker.RemoteResult) bool {
	if seen.CancelRequested {
		return true
	}
	for _, rec := range seen.Jobs {
		id := workflow.JobID(m.Key.Execution, m.Key.StepRunSeq, rec.Index, m.Key.Attempt)
		if _, reported := r.Results[id]; reported && rec.Code == workflow.JobCodeStarted {
			return true
		}
	}
	return false
}

// recordHeartbeat counts what a worker says of a pack as its heartbeat.
func (s *Service) recordHeartbeat(ctx context.Context, c workflow.Caller, id string) {
	if err := s.WorkerRegistry.Heartbeat(ctx, c.Tenant, id, nil); err != nil && !workflow.Is(err, workflow.CodeNotFound) {
		s.Log.WarnContext(ctx, "heartbeat not written", observe.Worker, id, observe.Err(err))
	}
}
