package simulator

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
	"github.com/lockstep-run/lockstep/tests/sim/oracle"
)

// people are the people who answer, with their roles. The first one starts all executions.
var people = []struct{ name, roles string }{{harness.Caller.Actor, defgen.Role}, {"bea", defgen.Role}, {"cyd", "staff," + defgen.Role}, {"dan", "staff"}, {"eve", ""}}

// question is a run of a step that asks people.
type question struct {
	execution string
	step      *defgen.FlowStep
	ordinal   int
	until     time.Time
}

// involvePeople lets people and senders of signals react to a write of a state item: to a new
// execution, and to each step that begins to wait for them. What they do depends on the seed and on
// what they react to.
func (w *simulation) involvePeople(before, after *workflow.Execution) {
	asks := w.plans.AsksIn(after.ID)
	if len(asks) == 0 {
		return
	}
	if before == nil {
		for _, s := range asks {
			if r := w.drawFor(after.ID, "early", s.Label, 0); s.Ask.Signal != "" && r.IntN(3) == 0 {
				w.sendSignals(r, question{execution: after.ID, step: s}, time.Minute)
			}
		}
		return
	}
	for i := range after.StepRuns {
		if r := &after.StepRuns[i]; r.Waiting() && (i >= len(before.StepRuns) || !before.StepRuns[i].Open()) {
			at := slices.IndexFunc(asks, func(s *defgen.FlowStep) bool { return s.Label == r.Label })
			if at < 0 {
				continue
			}
			q := question{after.ID, asks[at], r.Ordinal, r.Wait.Until}
			draw := w.drawFor(after.ID, "wait", r.Label, r.Ordinal)
			if within := q.step.Ask.Deadline * 5 / 4; q.step.Ask.Signal != "" {
				w.sendSignals(draw, q, within)
			} else {
				w.askPeople(draw, q, within)
			}
		}
	}
}

// drawFor returns the random numbers for what somebody does about a step of an execution.
func (w *simulation) drawFor(execution, what, label string, ordinal int) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %s %s %d", execution[len(execution)-4:], what, label, ordinal)
	return rand.New(rand.NewPCG(w.scenario.Seed, h.Sum64()))
}

// after lets something happen after a while.
func (w *simulation) after(d time.Duration, do func()) {
	at := w.plans.Now.Add(d) // the world may be in the middle of a write
	n := len(w.deferred)
	for n > 0 && w.deferred[n-1].at.After(at) {
		n--
	}
	w.deferred = slices.Insert(w.deferred, n, deferred{at, do})
}

func within(r *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(r.Int64N(d.Milliseconds())) * time.Millisecond
}

// sendSignals sends signals to an execution, some of them twice.
func (w *simulation) sendSignals(r *rand.Rand, q question, d time.Duration) {
	for i := range r.IntN(4) {
		id := fmt.Sprintf("%s-%d-%d-%d", q.step.Label, q.ordinal, i, r.IntN(1000))
		name, n := q.step.Ask.Signal, r.IntN(6)
		if r.IntN(6) == 0 {
			name = defgen.FlowSignals[r.IntN(len(defgen.FlowSignals))]
		}
		for range 1 + r.IntN(4)/3 {
			w.after(within(r, d), func() { w.sendSignal(q.execution, id, name, n, 1) })
		}
	}
}

// sendSignal sends a signal until its sender learns what has become of it.
func (w *simulation) sendSignal(execution, id, name string, n, try int) {
	if len(w.plans.AsksIn(execution)) == 0 {
		return // the tables were restored
	}
	var receipt views.SignalReceipt
	began := w.checker.ExecutionByID(execution)
	w.plans.SignalSent(execution, id, oracle.Signal{Name: name, N: n})
	w.spawn("signaller", -1, func() (err error) {
		receipt, err = w.Engine.Signal(ctx, harness.Caller, execution, name, fmt.Appendf(nil, `{"n":%d}`, n), id, "")
		return err
	}, func(p *process) {
		switch {
		case (p.task.Crashed() || p.err != nil && isTransient(p.err)) && try < maxStarts:
			w.tryLater(func() { w.sendSignal(execution, id, name, n, try+1) })
		case p.err == nil && !p.task.Crashed():
			x := w.checker.ExecutionByID(execution)
			ended := began != nil && x != nil && oracle.Terminal(began.State) && oracle.Terminal(x.State) && began.Try == x.Try
			w.plans.SignalTold(execution, id, receipt.Duplicate || try > 1, ended)
		case p.err != nil && !workflow.Is(p.err, workflow.CodeIllegalTransition) && !workflow.Is(p.err, workflow.CodeNotFound) && !isTransient(p.err):
			w.checker.Failf("an operation is accepted or refused", "signal: %v", p.err)
		}
	})
}

// askPeople lets some people answer a question, some of them twice or late, and lets others answer
// for them.
func (w *simulation) askPeople(r *rand.Rand, q question, d time.Duration) {
	for range r.IntN(5) {
		who := people[r.IntN(len(people))]
		a := oracle.Answer{Execution: q.execution, Step: q.step.Label, By: who.name, Roles: workflow.Caller{Roles: who.roles}.RoleNames(), Rejects: r.IntN(4) == 0, N: r.IntN(7)}
		if r.IntN(3) == 0 {
			a.Visit = q.ordinal
		}
		key := fmt.Sprintf("%s-%d-%d", q.step.Label, q.ordinal, r.IntN(1_000_000))
		at := within(r, d)
		if r.IntN(3) == 0 {
			a.By, a.Maker, a.Token = fmt.Sprintf("bearer%d", r.IntN(2)), who.name, true
			if r.IntN(3) == 0 {
				a.ExpiresAt = w.plans.Now.Add(at + within(r, d)).UTC().Truncate(time.Millisecond)
			}
			w.after(at, func() { w.lend(r, a, key, within(r, d)) })
			continue
		}
		if w.plans.IsStepping(q.execution) {
			draw := w.drawFor(q.execution, "answers and goes on", key, q.ordinal)
			a.Next, a.All = draw.IntN(3) > 0, draw.IntN(12) == 0
		}
		for range 1 + r.IntN(4)/3 {
			w.after(at+within(r, 3*time.Second), func() { w.answer(a, key, 1) })
		}
	}
	if r.IntN(5) == 0 {
		at := within(r, d)
		w.after(at, func() {
			w.runOperation("revoke", func() error {
				_, err := w.Engine.RevokeTokens(ctx, workflow.Caller{Tenant: harness.Caller.Tenant, Actor: "boss"}, q.execution, views.RevokeRequest{Step: q.step.Label})
				return err
			})
		})
	}
}

func input(a oracle.Answer, asked *defgen.FlowAsk) []byte {
	if asked.Need > 0 {
		return fmt.Appendf(nil, `{"approved":%v}`, !a.Rejects)
	}
	return fmt.Appendf(nil, `{"n":%d}`, a.N)
}

// askedAt returns what a step of an execution asks, nil if nothing is known about it any more.
func (w *simulation) askedAt(a oracle.Answer) *defgen.FlowAsk {
	for _, s := range w.plans.AsksIn(a.Execution) {
		if s.Label == a.Step {
			return s.Ask
		}
	}
	return nil
}

// answer sends an answer until its sender learns what has become of it.
func (w *simulation) answer(a oracle.Answer, key string, try int) {
	asked := w.askedAt(a)
	if asked == nil {
		return
	}
	a.Since = w.Now()
	known := workflow.AnswerKey(key, a.By)
	w.plans.AnswerSent(known, a)
	caller := workflow.Caller{Tenant: harness.Caller.Tenant, Actor: a.By}
	for _, who := range people {
		if who.name == a.By {
			caller.Roles = who.roles
		}
	}
	w.spawn("person", -1, func() error {
		if a.Next {
			_, err := w.Engine.NextStep(ctx, caller, a.Execution, views.NextRequest{Input: input(a, asked), Step: a.Step, Visit: a.Visit, All: a.All, IdempotencyKey: key})
			return err
		}
		_, err := w.Engine.Answer(ctx, caller, a.Execution, views.AnswerRequest{Input: input(a, asked), Step: a.Step, Visit: a.Visit, IdempotencyKey: key})
		return err
	}, func(p *process) {
		w.answered(p, a, known, func() { w.answer(a, key, try+1) }, try)
	})
}

// answered ends a request to answer, or repeats it.
func (w *simulation) answered(p *process, a oracle.Answer, known string, again func(), try int) {
	switch {
	case p.task.Crashed() || isTransient(p.err):
		if try < maxStarts {
			w.tryLater(again)
		}
	case p.err != nil && !workflow.Is(p.err, workflow.CodeForbidden) && !workflow.Is(p.err, workflow.CodeInvalid) && !workflow.Is(p.err, workflow.CodeIllegalTransition) && !workflow.Is(p.err, workflow.CodeNotFound):
		w.checker.Failf("an operation is accepted or refused", "answer: %v", p.err)
	default:
		w.plans.AnswerTold(known, a, p.err)
		w.plans.AnswerRefused(a, p.err)
	}
}

// lend makes a token. Somebody else answers with it later, perhaps twice.
func (w *simulation) lend(r *rand.Rand, a oracle.Answer, key string, later time.Duration) {
	asked := w.askedAt(a)
	if asked == nil {
		return
	}
	req := views.TokenRequest{For: a.By, Step: a.Step}
	if !a.ExpiresAt.IsZero() {
		req.ExpiresAt = &a.ExpiresAt
	}
	caller := workflow.Caller{Tenant: harness.Caller.Tenant, Actor: a.Maker}
	for _, who := range people {
		if who.name == a.Maker {
			caller.Roles = who.roles
		}
	}
	var made views.TokenView
	w.spawn("lender", -1, func() (err error) {
		made, err = w.Engine.IssueToken(ctx, caller, a.Execution, req)
		return err
	}, func(p *process) {
		switch {
		case p.task.Crashed() || isTransient(p.err):
		case p.err != nil && !workflow.Is(p.err, workflow.CodeForbidden) && !workflow.Is(p.err, workflow.CodeInvalid) && !workflow.Is(p.err, workflow.CodeIllegalTransition) && !workflow.Is(p.err, workflow.CodeNotFound):
			w.checker.Failf("an operation is accepted or refused", "token: %v", p.err)
		case p.err == nil:
			a.Visit = made.Visit
			a.Made = p.versionOf[a.Execution]
			for i := range 1 + r.IntN(4)/3 {
				w.after(later, func() { w.answerByToken(a, fmt.Sprintf("%s-%d", key, i), made.Token, 1) })
			}
		}
	})
}

// callBack lets the receiver of what a block has sent answer with its token, perhaps twice, or
// late, or never.
func (w *simulation) callBack(c harness.BlockCall) {
	x := w.checker.ExecutionByID(c.Execution)
	var sent struct{ Token string }
	if json.Unmarshal(c.Parameters, &sent) != nil || sent.Token == "" || x == nil || c.Kind != workflow.JobExecute {
		return
	}
	seq := 0
	_, job, _ := strings.Cut(c.Job, ".")
	_, _ = fmt.Sscanf(job, "%d.", &seq)
	run := x.StepRunBySeq(seq)
	a := oracle.Answer{Execution: c.Execution, Step: c.Step, By: workflow.CallbackBearer, Maker: workflow.CallbackBearer, Token: true}
	asked := w.askedAt(a)
	if run == nil || asked == nil {
		return
	}
	r := w.drawFor(c.Execution, "callback", c.Step, seq*100+c.Attempt)
	a.N, a.Visit = r.IntN(7), run.Ordinal
	for i := range r.IntN(3) {
		key := fmt.Sprintf("%s-%d-%d", c.Step, seq, i*r.IntN(2))
		w.after(within(r, asked.Deadline*5/4), func() { w.answerByToken(a, key, sent.Token, 1) })
	}
}

// answerByToken answers with a token.
func (w *simulation) answerByToken(a oracle.Answer, key, token string, try int) {
	asked := w.askedAt(a)
	if asked == nil {
		return
	}
	a.Since = w.Now()
	known := workflow.AnswerKey(key, a.By)
	w.plans.AnswerSent(known, a)
	w.spawn("bearer", -1, func() error {
		_, err := w.Engine.AnswerByToken(ctx, token, views.TokenAnswer{Input: input(a, asked), IdempotencyKey: key})
		return err
	}, func(p *process) {
		w.answered(p, a, known, func() { w.answerByToken(a, key, token, try+1) }, try)
	})
}
