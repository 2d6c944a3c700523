package blackboard

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
	"github.com/lockstep-run/lockstep/shared/worker/told"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Extend renews the lease of a pack. It is also a heartbeat of its worker.
func (s *Service) Extend(ctx context.Context, c workflow.Caller, r views.PackResults) (views.PackLease, error) {
	paper, m, err := s.given(c, r)
	if err != nil {
		return views.PackLease{}, err
	}
	return s.resume(ctx, c, r, paper, m, nil)
}

// Finish takes results. A pack is over when all of its jobs have ended, or when
// its worker, asked to stop, has given back what there was; until then the lease
// is renewed. Results that come twice, or too late, change nothing; one that is no
// answer of a block, or about no job of the pack, is refused with all the others.
func (s *Service) Finish(ctx context.Context, c workflow.Caller, r views.PackResults) (views.PackLease, error) {
	paper, m, err := s.given(c, r)
	if err != nil {
		return views.PackLease{}, err
	}
	returned, issues := answers(m, r)
	if err := workflow.Invalid("the request is not valid", issues); err != nil {
		return views.PackLease{}, err
	}
	return s.resume(ctx, c, r, paper, m, returned)
}

// result is what a worker says of one job, besides what a block says.
type result struct {
	Job      string `json:"job"`
	Outcome  any    `json:"outcome"`
	Result   any    `json:"result"`
	Entities any    `json:"entities"`
	Updates  any    `json:"updates"`
	Error    any    `json:"error"`
}

func answers(m *workflow.PackMessage, r views.PackResults) (*worker.Returned, []workflow.Issue) {
	jobs := map[string]bool{}
	for _, in := range m.Jobs {
		jobs[workflow.JobID(m.Key.Execution, m.Key.RunSeq, in.Index, m.Key.Attempt)] = true
	}
	returned := &worker.Returned{Answers: map[string]worker.Answer{}, NotBegun: r.NotBegun}
	var issues []workflow.Issue
	bad := func(path, code, message string) {
		issues = append(issues, workflow.Issue{Path: path, Code: code, Message: message})
	}
	const noJob = "the pack has no such job"
	for i, raw := range r.Results {
		at := fmt.Sprintf("results[%d]", i)
		var one result
		exact := json.NewDecoder(bytes.NewReader(raw))
		exact.DisallowUnknownFields()
		switch err := exact.Decode(&one); {
		case err != nil:
			bad(at, "value", strings.TrimPrefix(err.Error(), "json: "))
			continue
		case one.Job == "":
			bad(at+".job", "required", "want the id of a job of the pack")
			continue
		case len(m.Jobs) > 0 && !jobs[one.Job]:
			bad(at+".job", "value", noJob)
			continue
		}
		a, err := httpblock.Read(raw, m.Work.Kind)
		if err != nil {
			bad(at, "value", err.Error())
			continue
		}
		returned.Answers[one.Job] = a
	}
	for i, id := range r.NotBegun {
		if len(m.Jobs) > 0 && !jobs[id] {
			bad(fmt.Sprintf("notBegun[%d]", i), "value", noJob)
		}
	}
	return returned, issues
}

// given is the receipt that a worker shows, and the message that it was given for.
func (s *Service) given(c workflow.Caller, r views.PackResults) (*receipt, *workflow.PackMessage, error) {
	paper, err := readReceipt(r.Pack)
	if err != nil {
		return nil, nil, err
	}
	m, err := s.Decode(paper.Body)
	if err != nil {
		return nil, nil, noReceipt() // whatever is wrong with it, nobody was given it
	}
	if m.Key.Tenant != c.Tenant {
		return nil, nil, lost()
	}
	return paper, m, nil
}

// resume goes on with a loan, as its receipt and its message have it.
func (s *Service) resume(ctx context.Context, c workflow.Caller, r views.PackResults, paper *receipt, m *workflow.PackMessage, returned *worker.Returned) (views.PackLease, error) {
	none := views.PackLease{}
	ports, p := s.ports()
	seen, err := ports.Packs.Pack(ctx, m.Key)
	if err != nil {
		return none, err
	}
	if seen == nil || seen.State != workflow.PackClaimed || seen.Token != r.Token || seen.Nonce != paper.claim() {
		return none, lost()
	}
	if returned != nil && !news(m, seen, returned) {
		return none, lost()
	}
	s.heard(ctx, c, seen.Worker)
	q, err := s.Pool(ctx, paper.Pool)
	if err != nil {
		return none, err
	}
	d := worker.Delivery{Handle: paper.Handle, Body: paper.Body, Receives: 1}
	w := s.worker(seen.Worker, paper.claim())
	loan, what, err := w.Resume(ctx, m, seen, returned, p)
	if err != nil {
		return none, err
	}
	if loan != nil {
		// A message that is not kept away comes to somebody who finds the lease running.
		if err := q.Defer(ctx, d, w.Lease); err != nil {
			s.warn(ctx, "message not held; it may come twice", m, err)
		}
		lease := loan.Pack.Lease.UTC()
		return views.PackLease{Lease: &lease, Cancel: loan.Pack.Cancel}, nil
	}
	// The pack is over, whatever becomes of its message and of what is shown.
	if err := w.Dispose(ctx, q, d, m, what, p); err != nil {
		s.warn(ctx, "message not deleted; it comes again and changes nothing", m, err)
	}
	if err := s.Roster.Workers.Drop(ctx, c.Tenant, seen.Worker, m.Key.Held()); err != nil {
		s.warn(ctx, "a worker's pack is still shown", m, err, slog.String(observe.Worker, seen.Worker))
	}
	return views.PackLease{Cancel: seen.Cancel}, nil
}

// warn tells of something about a pack that is not as it should be.
func (s *Service) warn(ctx context.Context, what string, m *workflow.PackMessage, err error, more ...slog.Attr) {
	s.Log.LogAttrs(ctx, slog.LevelWarn, what, append(append(told.Pack(m), more...), observe.Err(err))...)
}

// news reports whether what is returned says something that is not known: of a
// job that has not ended, or that no more is to come of a pack that is cancelled.
func news(m *workflow.PackMessage, seen *workflow.Pack, r *worker.Returned) bool {
	if seen.Cancel {
		return true
	}
	for _, rec := range seen.Jobs {
		id := workflow.JobID(m.Key.Execution, m.Key.RunSeq, rec.Index, m.Key.Attempt)
		if _, told := r.Answers[id]; told && rec.Code == workflow.CodeStarted {
			return true
		}
	}
	return false
}

// heard counts what a worker says of a pack as its heartbeat.
func (s *Service) heard(ctx context.Context, c workflow.Caller, id string) {
	if err := s.Roster.Beat(ctx, c.Tenant, id, nil); err != nil && !workflow.Is(err, workflow.CodeNotFound) {
		s.Log.WarnContext(ctx, "heartbeat not written", observe.Worker, id, observe.Err(err))
	}
}
