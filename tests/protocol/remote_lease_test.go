package protocol_test

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// remoteLease is a pack leased to a program that uses only the HTTP API. Each request is
// served by another worker.
type remoteLease struct {
	message         *workflow.PackMessage
	nonce           string
	pack            *workflow.Pack // as last answered
	jobs            []*worker.Job
	nextJob         int // the first that the program has not begun
	results         map[string]worker.JobResult
	pendingRequests int  // requests under way
	reportUnknown   bool // a report had no answer: it may have ended the pack, so the program begins no job
}

// remoteLeaseActions are what programs can do next.
func (f *packFixture) remoteLeaseActions(message func(*rapid.T) *workflow.PackMessage) []action {
	leased := len(f.leases) > 0
	one := func(r *rapid.T) *remoteLease { return draw(r, "lease", f.leases) }
	return []action{
		{"program polls", len(f.messages) > 0, func(r *rapid.T) {
			m := message(r)
			f.startTask(m, nil, func() { f.leaseRemote(m) })
		}},
		{"program runs job", leased, func(r *rapid.T) { f.runRemoteJob(one(r)) }},
		{"program reports", leased, func(r *rapid.T) {
			l := one(r)
			report := f.remoteReport(l)
			f.startTask(nil, func() { l.pendingRequests--; l.reportUnknown = true }, func() { f.resumeRemote(l, report) })
		}},
		{"program heartbeats", leased, func(r *rapid.T) {
			l := one(r)
			l.pendingRequests++
			f.startTask(nil, func() { l.pendingRequests-- }, func() { f.resumeRemote(l, nil) })
		}},
	}
}

func (f *packFixture) leaseRemote(m *workflow.PackMessage) {
	nonce := f.nonce()
	w := f.worker(0, func() string { return nonce })
	l, d, err := w.LeaseRemote(f.ctx, m, f.ports())
	if err != nil || l != nil || !d.Done {
		f.messages = append(f.messages, m) // also if it is leased: delivered again when the lease is over
	}
	if l != nil {
		f.leases = append(f.leases, &remoteLease{message: m, nonce: nonce, pack: l.Pack, jobs: l.Jobs, results: map[string]worker.JobResult{}})
	}
}

// runRemoteJob lets a program run its next job, if its lease allows.
func (f *packFixture) runRemoteJob(l *remoteLease) {
	if l.nextJob == len(l.jobs) || l.pendingRequests > 0 || l.reportUnknown || l.pack.CancelRequested || !f.now.Add(margin).Before(l.pack.Lease) || !f.now.Before(l.jobs[l.nextJob].Deadline) {
		return
	}
	job := l.jobs[l.nextJob]
	l.nextJob++
	f.blockCalled(job)
	result := worker.JobResult{Outcome: "OK"}
	if outcome := f.outcome(job); outcome != "ok" {
		result = worker.JobResult{Outcome: "ERROR", Failure: &workflow.Failure{Code: "FAILED", Message: "failed", Retryable: outcome == "retry"}}
	}
	l.results[job.ID] = result
}

// remoteReport is what a program reports: its results so far and, if it is asked to
// stop, the jobs that it will not begin.
func (f *packFixture) remoteReport(l *remoteLease) *worker.RemoteResult {
	l.pendingRequests++
	l.reportUnknown = true
	r := &worker.RemoteResult{Results: maps.Clone(l.results)}
	if l.pack.CancelRequested {
		for _, job := range l.jobs[l.nextJob:] {
			r.NotBegun = append(r.NotBegun, job.ID)
		}
		l.nextJob = len(l.jobs)
	}
	return r
}

// resumeRemote serves one request of a program. After a failure the program may send it
// again.
func (f *packFixture) resumeRemote(l *remoteLease, r *worker.RemoteResult) {
	answered := f.tryResume(l, r)
	if r != nil {
		l.reportUnknown = !answered
	}
	l.pendingRequests--
}

func (f *packFixture) tryResume(l *remoteLease, r *worker.RemoteResult) (answered bool) {
	p, err := f.interceptedPacks().Pack(f.ctx, l.message.Key)
	if err != nil {
		return false
	}
	lost := p == nil || p.State != workflow.PackClaimed || p.Nonce != l.nonce
	if !lost {
		w := f.worker(0, func() string { return l.nonce })
		var resumed *worker.RemoteLease
		resumed, _, err = w.ResumeRemote(f.ctx, l.message, p, r, f.ports())
		if err == nil && resumed != nil {
			l.pack = resumed.Pack
			return true
		}
		lost = err == nil || workflow.Is(err, workflow.CodeClaimLost)
	}
	if lost {
		f.leases = slices.DeleteFunc(slices.Clone(f.leases), func(o *remoteLease) bool { return o == l })
	}
	return lost
}
