package protocol_test

import (
	"maps"

	"pgregory.net/rapid"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// loan is a pack in the hands of a program that speaks HTTP only. Whoever serves
// its requests is another process each time.
type loan struct {
	message *workflow.PackMessage
	nonce   string
	pack    *workflow.Pack // as it was last told
	jobs    []*worker.Job
	next    int // the first that it has not begun
	answers map[string]worker.Answer
	asking  int  // requests under way
	unsure  bool // of its last report it does not know what came of it, so that it begins nothing
}

// lending is what programs may do next.
func (y *yard) lending(message func(*rapid.T) *workflow.PackMessage) []move {
	lent := len(y.loans) > 0
	one := func(r *rapid.T) *loan { return pick(r, "loan", y.loans) }
	return []move{
		{"poll", len(y.bag) > 0, func(r *rapid.T) {
			m := message(r)
			y.begin(m, nil, func() { y.lend(m) })
		}},
		{"a program works", lent, func(r *rapid.T) { y.work(one(r)) }},
		{"a program reports", lent, func(r *rapid.T) {
			l := one(r)
			what := y.report(l)
			y.begin(nil, func() { l.asking-- }, func() { y.resume(l, what) })
		}},
		{"a program heartbeats", lent, func(r *rapid.T) {
			l := one(r)
			l.asking++
			y.begin(nil, func() { l.asking-- }, func() { y.resume(l, nil) })
		}},
	}
}

func (y *yard) lend(m *workflow.PackMessage) {
	nonce := y.nonce()
	w := y.worker(0, func() string { return nonce })
	l, d, err := w.Lend(y.ctx, m, y.ports())
	if err != nil || l != nil || !d.Done {
		y.bag = append(y.bag, m) // of a pack that is lent too: it comes back when its lease is over
	}
	if l != nil {
		y.loans = append(y.loans, &loan{message: m, nonce: nonce, pack: l.Pack, jobs: l.Jobs, answers: map[string]worker.Answer{}})
	}
}

// work lets a program begin its next job, and end it, if its lease allows.
func (y *yard) work(l *loan) {
	if l.next == len(l.jobs) || l.asking > 0 || l.unsure || l.pack.Cancel || !y.now.Add(margin).Before(l.pack.Lease) || !y.now.Before(l.jobs[l.next].Deadline) {
		return
	}
	job := l.jobs[l.next]
	l.next++
	y.begins(job)
	a := worker.Answer{Outcome: "OK"}
	if what := y.outcome(job); what != "ok" {
		a = worker.Answer{Outcome: "ERROR", Failure: &workflow.Failure{Code: "NO", Message: "no", Retryable: what == "again"}}
	}
	l.answers[job.ID] = a
}

// report is what a program says of its loan: its answers so far and, if it is asked
// to stop, what it will not begin.
func (y *yard) report(l *loan) *worker.Returned {
	l.asking++
	l.unsure = true
	r := &worker.Returned{Answers: maps.Clone(l.answers)}
	if l.pack.Cancel {
		for _, job := range l.jobs[l.next:] {
			r.NotBegun = append(r.NotBegun, job.ID)
		}
		l.next = len(l.jobs)
	}
	return r
}

// resume serves one request of a program. One that comes to nothing is made again
// by the program, or never.
func (y *yard) resume(l *loan, r *worker.Returned) {
	if y.asked(l, r) {
		l.unsure = l.unsure && r == nil
	}
	l.asking--
}

func (y *yard) asked(l *loan, r *worker.Returned) (answered bool) {
	p, err := packs{y.items, y.gate, y.ends}.Pack(y.ctx, l.message.Key)
	if err != nil {
		return false
	}
	lost := p == nil || p.State != workflow.PackClaimed || p.Nonce != l.nonce
	if !lost {
		w := y.worker(0, func() string { return l.nonce })
		var left *worker.Loan
		left, _, err = w.Resume(y.ctx, l.message, p, r, y.ports())
		if err == nil && left != nil {
			l.pack = left.Pack
			return true
		}
		lost = err == nil || workflow.Is(err, workflow.CodeClaimLost)
	}
	if lost {
		for i, o := range y.loans {
			if o == l {
				y.loans = append(y.loans[:i:i], y.loans[i+1:]...)
				break
			}
		}
	}
	return lost
}
