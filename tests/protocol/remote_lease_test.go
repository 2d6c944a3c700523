package protocol_test

import (
	"maps"

	"pgregory.net/rapid"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// remoteLease is a pack in the hands of a program that speaks HTTP only. Whoever serves
// its requests is another process each time.
type remoteLease struct {
	message         *workflow.PackMessage
	nonce           string
	pack            *workflow.Pack // as it was last told
	jobs            []*worker.Job
	nextJob         int // the first that it has not begun
	answers         map[string]worker.JobResult
	pendingRequests int  // requests under way
	reportUnknown   bool // of its last report it does not know what came of it, so that it begins nothing
}

// remoteLeaseActions is what programs may do next.
func (y *packFixture) remoteLeaseActions(message func(*rapid.T) *workflow.PackMessage) []action {
	lent := len(y.leases) > 0
	one := func(r *rapid.T) *remoteLease { return draw(r, "loan", y.leases) }
	return []action{
		{"poll", len(y.messages) > 0, func(r *rapid.T) {
			m := message(r)
			y.startTask(m, nil, func() { y.leaseRemote(m) })
		}},
		{"a program works", lent, func(r *rapid.T) { y.runRemoteJob(one(r)) }},
		{"a program reports", lent, func(r *rapid.T) {
			l := one(r)
			what := y.remoteReport(l)
			y.startTask(nil, func() { l.pendingRequests-- }, func() { y.resumeRemote(l, what) })
		}},
		{"a program heartbeats", lent, func(r *rapid.T) {
			l := one(r)
			l.pendingRequests++
			y.startTask(nil, func() { l.pendingRequests-- }, func() { y.resumeRemote(l, nil) })
		}},
	}
}

func (y *packFixture) leaseRemote(m *workflow.PackMessage) {
	nonce := y.nonce()
	w := y.worker(0, func() string { return nonce })
	l, d, err := w.LeaseRemote(y.ctx, m, y.ports())
	if err != nil || l != nil || !d.Done {
		y.messages = append(y.messages, m) // of a pack that is lent too: it comes back when its lease is over
	}
	if l != nil {
		y.leases = append(y.leases, &remoteLease{message: m, nonce: nonce, pack: l.Pack, jobs: l.Jobs, answers: map[string]worker.JobResult{}})
	}
}

// runRemoteJob lets a program begin its next job, and end it, if its lease allows.
func (y *packFixture) runRemoteJob(l *remoteLease) {
	if l.nextJob == len(l.jobs) || l.pendingRequests > 0 || l.reportUnknown || l.pack.CancelRequested || !y.now.Add(margin).Before(l.pack.Lease) || !y.now.Before(l.jobs[l.nextJob].Deadline) {
		return
	}
	job := l.jobs[l.nextJob]
	l.nextJob++
	y.blockCalled(job)
	a := worker.JobResult{Outcome: "OK"}
	if what := y.outcome(job); what != "ok" {
		a = worker.JobResult{Outcome: "ERROR", Failure: &workflow.Failure{Code: "NO", Message: "no", Retryable: what == "again"}}
	}
	l.answers[job.ID] = a
}

// remoteReport is what a program says of its loan: its answers so far and, if it is asked
// to stop, what it will not begin.
func (y *packFixture) remoteReport(l *remoteLease) *worker.RemoteResult {
	l.pendingRequests++
	l.reportUnknown = true
	r := &worker.RemoteResult{Results: maps.Clone(l.answers)}
	if l.pack.CancelRequested {
		for _, job := range l.jobs[l.nextJob:] {
			r.NotBegun = append(r.NotBegun, job.ID)
		}
		l.nextJob = len(l.jobs)
	}
	return r
}

// resumeRemote serves one request of a program. One that comes to nothing is made again
// by the program, or never.
func (y *packFixture) resumeRemote(l *remoteLease, r *worker.RemoteResult) {
	if y.tryResume(l, r) {
		l.reportUnknown = l.reportUnknown && r == nil
	}
	l.pendingRequests--
}

func (y *packFixture) tryResume(l *remoteLease, r *worker.RemoteResult) (answered bool) {
	p, err := interceptedPacks{y.packs, y.interceptor, y.packEnded}.Pack(y.ctx, l.message.Key)
	if err != nil {
		return false
	}
	lost := p == nil || p.State != workflow.PackClaimed || p.Nonce != l.nonce
	if !lost {
		w := y.worker(0, func() string { return l.nonce })
		var left *worker.RemoteLease
		left, _, err = w.ResumeRemote(y.ctx, l.message, p, r, y.ports())
		if err == nil && left != nil {
			l.pack = left.Pack
			return true
		}
		lost = err == nil || workflow.Is(err, workflow.CodeClaimLost)
	}
	if lost {
		for i, o := range y.leases {
			if o == l {
				y.leases = append(y.leases[:i:i], y.leases[i+1:]...)
				break
			}
		}
	}
	return lost
}
