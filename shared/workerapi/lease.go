package workerapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/worker/httpblock"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Extend renews the lease of a pack. It also counts as a heartbeat of its worker.
func (s *Service) Extend(ctx context.Context, c workflow.Caller, r views.PackResults) (views.PackLease, error) {
	rcpt, m, err := s.decodeReceipt(c, r)
	if err != nil {
		return views.PackLease{}, err
	}
	reports, issues := parseReports(m, r)
	if err := workflow.Invalid("the request is not valid", issues); err != nil {
		return views.PackLease{}, err
	}
	return s.resumeLease(ctx, c, r, rcpt, m, &worker.RemoteResult{Reports: reports, Heartbeat: true})
}

// parseReports returns what a worker reports about the jobs that it is running, and what is wrong
// with that.
func parseReports(m *workflow.PackMessage, r views.PackResults) (map[string]worker.JobReport, []workflow.Issue) {
	reports := map[string]worker.JobReport{}
	var issues []workflow.Issue
	jobs := jobIDs(m)
	for i, report := range r.Jobs {
		at := fmt.Sprintf("jobs[%d]", i)
		if len(m.Jobs) > 0 && !jobs[report.Job] {
			issues = append(issues, workflow.Issue{Path: at + ".job", Code: "value", Message: noSuchJob})
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(report.Checkpoints)) {
			if issue := schema.CheckJSON(report.Checkpoints[key], yamldoc.JoinPath(at+".checkpoints", key), yamldoc.JoinPath); issue != nil {
				issues = append(issues, *issue)
			}
		}
		one := worker.JobReport{Checkpoints: report.Checkpoints, Logs: report.Logs.Lines()}
		if report.Progress != nil {
			one.Progress = &workflow.JobProgress{Percent: report.Progress.Percent, Message: report.Progress.Message}
		}
		reports[report.Job] = one
	}
	return reports, issues
}

const noSuchJob = "the pack has no such job"

// jobIDs returns the ids of the jobs of a message; none if they are stored separately.
func jobIDs(m *workflow.PackMessage) map[string]bool {
	jobs := map[string]bool{}
	for _, in := range m.Jobs {
		jobs[workflow.JobID(m.Key.Execution, m.Key.StepRunSeq, in.Index, m.Key.Attempt)] = true
	}
	return jobs
}

// Finish records results and renews the lease. The pack is finished when all of its jobs have
// ended, or with the first results after the engine asked to cancel it. Duplicate or late results
// change nothing. If one result is malformed or names no job of the pack, all are refused.
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

// resultFields are the fields of one result. Only Job is read here: the rest is
// parsed by httpblock, and listed to detect unknown fields.
type resultFields struct {
	Job      string `json:"job"`
	Outcome  any    `json:"outcome"`
	Result   any    `json:"result"`
	Entities any    `json:"entities"`
	Updates  any    `json:"updates"`
	Next     any    `json:"next"`
	Wait     any    `json:"wait"`

	Checkpoints any `json:"checkpoints"`
	Logs        any `json:"logs"`
	Error       any `json:"error"`
}

// parseResults returns the results that a worker pushed, and what is wrong with them.
func parseResults(m *workflow.PackMessage, r views.PackResults) (*worker.RemoteResult, []workflow.Issue) {
	jobs := jobIDs(m)
	parsed := &worker.RemoteResult{Results: map[string]worker.JobResult{}, NotBegun: r.NotStarted}
	var issues []workflow.Issue
	addIssue := func(path, code, message string) {
		issues = append(issues, workflow.Issue{Path: path, Code: code, Message: message})
	}
	for i, raw := range r.Results {
		at := fmt.Sprintf("results[%d]", i)
		var fields resultFields
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.DisallowUnknownFields()
		switch err := decoder.Decode(&fields); {
		case err != nil:
			addIssue(at, "value", workflow.JSONError(err).Error())
			continue
		case !hasField(raw, "job"): // encoding/json also reads "Job"
			addIssue(at+".job", "required", "want the id of a job of the pack")
			continue
		case len(m.Jobs) > 0 && !jobs[fields.Job]:
			addIssue(at+".job", "value", noSuchJob)
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
			addIssue(fmt.Sprintf("notBegun[%d]", i), "value", noSuchJob)
		}
	}
	return parsed, issues
}

// hasField reports whether an object has a field of exactly this name that is not empty
// text.
func hasField(raw json.RawMessage, name string) bool {
	var object map[string]any
	return json.Unmarshal(raw, &object) == nil && object[name] != nil && object[name] != ""
}

// decodeReceipt returns the receipt that a worker sent, and the message it was
// issued for.
func (s *Service) decodeReceipt(c workflow.Caller, r views.PackResults) (*receipt, *workflow.PackMessage, error) {
	rcpt, err := parseReceipt(r.Pack)
	if err != nil {
		return nil, nil, err
	}
	m, err := s.Decode(rcpt.Body)
	if err != nil {
		return nil, nil, invalidReceipt() // the service issued no such receipt
	}
	if m.Key.Tenant != c.Tenant {
		return nil, nil, claimLost()
	}
	return rcpt, m, nil
}

// resumeLease continues the lease of the pack that a receipt names. A heartbeat only renews it.
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
	if !results.Heartbeat && !addsResults(m, seen, results) {
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
		// If this fails, another worker may receive the message. It finds the lease and
		// leaves the pack alone.
		if err := q.Defer(ctx, d, w.Options().LeaseDuration); err != nil {
			s.logWarning(ctx, "message visibility not extended; it may be delivered twice", m, err)
		}
		leaseEnd := remote.Pack.Lease.UTC()
		return views.PackLease{Lease: &leaseEnd, Cancel: remote.Pack.CancelRequested}, nil
	}
	// The pack is final. What fails from here on is only logged.
	if err := w.Settle(ctx, q, d, m, disposition, p); err != nil {
		s.logWarning(ctx, "message not deleted; it will be delivered again and change nothing", m, err)
	}
	if err := s.WorkerRegistry.Workers.RemoveClaimedPack(ctx, c.Tenant, seen.Worker, m.Key.ClaimedPack()); err != nil {
		s.logWarning(ctx, "finished pack not removed from the worker registry", m, err, slog.String(observe.Worker, seen.Worker))
	}
	return views.PackLease{Cancel: seen.CancelRequested}, nil
}

// addsResults reports whether results change the pack: they end a job that has not ended, or
// release a pack that is to be cancelled.
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

// recordHeartbeat counts a request about a pack as a heartbeat of its worker.
func (s *Service) recordHeartbeat(ctx context.Context, c workflow.Caller, id string) {
	if _, err := s.WorkerRegistry.Heartbeat(ctx, c.Tenant, id, nil); err != nil && !workflow.Is(err, workflow.CodeNotFound) {
		s.Log.WarnContext(ctx, "heartbeat failed", observe.Worker, id, observe.Err(err))
	}
}
