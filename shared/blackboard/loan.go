package blackboard

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/worker/httpblock"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Extend renews the lease of a pack. It is also a heartbeat of its worker.
func (s *Service) Extend(ctx context.Context, c workflow.Caller, r views.PackResults) (views.PackLease, error) {
	return s.resume(ctx, c, r, nil)
}

// Finish takes results. A pack is over when all of its jobs have ended, or when
// its worker, asked to stop, has given back what there was; until then the lease
// is renewed. Results that come twice, or too late, change nothing.
func (s *Service) Finish(ctx context.Context, c workflow.Caller, r views.PackResults) (views.PackLease, error) {
	returned := &worker.Returned{Answers: map[string]worker.Answer{}, NotBegun: r.NotBegun}
	var issues []workflow.Issue
	for i, raw := range r.Results {
		var named struct {
			Job string `json:"job"`
		}
		if err := json.Unmarshal(raw, &named); err != nil || named.Job == "" {
			issues = append(issues, workflow.Issue{Path: fmt.Sprintf("results[%d].job", i), Code: "required", Message: "want the id of a job of the pack"})
			continue
		}
		returned.Answers[named.Job] = httpblock.Answer(raw)
	}
	if err := workflow.Invalid("the request is not valid", issues); err != nil {
		return views.PackLease{}, err
	}
	return s.resume(ctx, c, r, returned)
}

func (s *Service) resume(ctx context.Context, c workflow.Caller, r views.PackResults, returned *worker.Returned) (views.PackLease, error) {
	none := views.PackLease{}
	paper, err := readReceipt(r.Pack)
	if err != nil {
		return none, err
	}
	m, err := s.Decode(paper.Body)
	if err != nil {
		return none, noReceipt() // whatever is wrong with it, nobody was given it
	}
	if m.Key.Tenant != c.Tenant {
		return none, lost()
	}
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
			s.Log.WarnContext(ctx, "message not held; it may come twice", "pack", m.Key.String(), "error", err)
		}
		lease := loan.Pack.Lease.UTC()
		return views.PackLease{Lease: &lease, Cancel: loan.Pack.Cancel}, nil
	}
	// The pack is over, whatever becomes of its message and of what is shown.
	if err := w.Dispose(ctx, q, d, m, what, p); err != nil {
		s.Log.WarnContext(ctx, "message not deleted; it comes again and changes nothing", "pack", m.Key.String(), "error", err)
	}
	if err := s.Roster.Workers.Drop(ctx, c.Tenant, seen.Worker, m.Key.Held()); err != nil {
		s.Log.WarnContext(ctx, "a worker's pack is still shown", "worker", seen.Worker, "pack", m.Key.String(), "error", err)
	}
	return views.PackLease{Cancel: seen.Cancel}, nil
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
		s.Log.WarnContext(ctx, "heartbeat not written", "worker", id, "error", err)
	}
}
