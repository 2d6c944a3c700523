package oracle

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
)

// The laws about steps that wait for people and signals.
const (
	lawAnswers = "an answer of somebody who may give it counts once, and in time"
	lawSignals = "a signal is taken once, by a step that it fits, and in time"
	lawLapse   = "a step that nobody has answered in time ends as its definition says"
)

// Answer is what somebody sends to a step that waits for people.
type Answer struct {
	Execution, Step string
	By              string // for whom it counts: with a token, its bearer
	Roles           []string
	Rejects         bool
	N               int
	Since           time.Time // when it was sent
	Visit           int       // run of the step; 0 for the one that waits

	Next bool // with the request to enter the step that follows
	All  bool // or all steps

	Token     bool // it comes with a token
	Maker     string
	Made      int64     // version of the execution when the token was made
	ExpiresAt time.Time // of the token; zero for never
}

// Signal is what somebody sends to an execution.
type Signal struct {
	Name string
	N    int
}

// counted is where an answer has counted, and when.
type counted struct {
	seq int // of the step run
	at  time.Time
}

// waits follows the steps of one execution that wait for people and signals, in all its tries.
type waits struct {
	*execution
	definition *defgen.Flow
	over       bool // it is not judged any more

	sent    map[string]*Answer // by key
	copies  map[string]int     // how often it was sent, by key
	counted map[string]counted // by key
	entered map[int]time.Time  // when a waiting step run was committed, by Seq
	revoked map[int]int64      // version in which the tokens of a step run were last revoked

	signals map[string]Signal // sent signals, by id
	told    map[string]bool   // signals whose sender was told that they are accepted
	fresh   map[string]int    // how often the sender was told that it is new
	arrived map[string]bool   // signals that have been in the mailbox
	gone    map[string]bool   // signals that have left it
	taken   map[int]int       // the number that a step run has taken from a signal, by Seq

	reminded  map[int]int         // number of reminders, by Seq
	escalated map[int][]time.Time // when each level of a step run was committed, by Seq
	paged     map[int][]int       // the levels for which an execution was started, by Seq
}

func newWaits(x *execution, definition *defgen.Flow) *waits {
	return &waits{
		execution: x, definition: definition, sent: map[string]*Answer{}, copies: map[string]int{}, counted: map[string]counted{}, entered: map[int]time.Time{}, revoked: map[int]int64{},
		signals: map[string]Signal{}, told: map[string]bool{}, fresh: map[string]int{}, arrived: map[string]bool{}, gone: map[string]bool{}, taken: map[int]int{},
		reminded: map[int]int{}, escalated: map[int][]time.Time{}, paged: map[int][]int{},
	}
}

// written judges a write of the state item.
func (w *waits) written(before, after *workflow.Execution) {
	w.over = w.over || after.Cause == workflow.CauseRestored || after.Cause == workflow.CauseInternal || after.MinFencingToken != before.MinFencingToken && before.Version > 0
	if w.over {
		return
	}
	for _, e := range after.Events {
		if r := after.LastStepRun(); e.Sequence > before.Sequence && e.Type == "token.revoked" {
			for i := range before.StepRuns { // the write may have ended it, and entered its step again
				if o := &after.StepRuns[i]; o.Label == e.Step && o.Forward() {
					r = o
				}
			}
			w.revoked[r.Seq] = after.Version
		}
	}
	w.followSignals(before, after)
	for i := range after.StepRuns {
		r := &after.StepRuns[i]
		var old *workflow.StepRun
		if i < len(before.StepRuns) {
			old = &before.StepRuns[i]
		}
		s := w.definition.Find(r.Label)
		if r.Wait == nil || s == nil || s.Ask == nil {
			continue
		}
		if old == nil {
			w.entered[r.Seq] = w.Now
		}
		if long := r.Wait.Until.Sub(r.Wait.Since); long != s.Ask.Deadline {
			w.Failf(lawLapse, "%s waits %s at step %s, want %s", after.ID, long, r.Label, s.Ask.Deadline)
		}
		if s.Ask.Signal == "" {
			w.checkAnswers(old, r, s)
			w.checkEscalated(before, old, r, s)
		}
		if ended := !r.Open() && (old == nil || old.Open()); ended {
			w.checkEnded(r, s, after)
		}
	}
}

// checkAnswers judges the answers that a write adds to a step run.
func (w *waits) checkAnswers(old, r *workflow.StepRun, s *defgen.FlowStep) {
	before := 0
	if old != nil {
		before = len(old.Answers)
	}
	if before > len(r.Answers) {
		w.Failf(lawAnswers, "step run %d of %s had %d answers, and has %d", r.Seq, w.x.ID, before, len(r.Answers))
		return
	}
	for n, a := range r.Answers[before:] {
		n += before
		sent := w.sent[a.Key]
		if sent == nil || sent.Execution != w.x.ID || sent.Step != r.Label || sent.By != a.By || sent.Rejects != a.Rejects && s.Ask.Need > 0 || sent.Visit > 0 && sent.Visit != r.Ordinal {
			w.Failf(lawAnswers, "step run %d of %s, of step %s, has the answer %+v, and what was sent is %+v", r.Seq, w.x.ID, r.Label, a, sent)
			return
		}
		if first, again := w.counted[a.Key]; again {
			w.Failf(lawAnswers, "the answer %+v of %s has counted in step run %d, and counts in %d", *sent, w.x.ID, first.seq, r.Seq)
		}
		w.counted[a.Key] = counted{r.Seq, w.Now}
		if old != nil && !old.Open() {
			w.Failf(lawAnswers, "step run %d of %s has ended, and gets the answer %+v", r.Seq, w.x.ID, *sent)
		}
		if !w.mayAnswer(sent, s.Ask) && !w.mayAnswerLate(sent, s.Ask, a.At.Sub(r.Wait.Since)) {
			w.Failf(lawAnswers, "step run %d of %s has the answer %+v, which does not fit or is of somebody who may not give it: %+v", r.Seq, w.x.ID, *sent, *s.Ask)
		}
		switch {
		case !a.At.Before(r.Wait.Until):
			w.Failf(lawAnswers, "step run %d of %s waited until %s, and has an answer of %s", r.Seq, w.x.ID, r.Wait.Until, a.At)
		case sent.Token && !sent.ExpiresAt.IsZero() && !a.At.Before(sent.ExpiresAt):
			w.Failf(lawAnswers, "step run %d of %s has an answer of %s with a token that expired at %s", r.Seq, w.x.ID, a.At, sent.ExpiresAt)
		case sent.Token && w.revoked[r.Seq] > sent.Made:
			w.Failf(lawAnswers, "step run %d of %s has an answer with a token of version %d, and all were revoked in version %d", r.Seq, w.x.ID, sent.Made, w.revoked[r.Seq])
		}
		for _, other := range r.Answers[:n] {
			if other.By == a.By || cmp.Or(other.TokenBy, other.By) == w.rightOf(sent) {
				w.Failf(lawAnswers, "step run %d of %s has two answers of one person: %+v and %+v", r.Seq, w.x.ID, other, a)
			}
		}
		if decided, _ := decision(s.Ask, r.Answers[:n]); decided {
			w.Failf(lawAnswers, "step run %d of %s was decided, and gets the answer %+v", r.Seq, w.x.ID, *sent)
		}
	}
	// A step with a callback may end later, when its job is checked, because other branches may
	// continue before.
	if decided, _ := decision(s.Ask, r.Answers); decided && r.Open() && !s.Callback {
		w.Failf(lawAnswers, "step run %d of %s has all answers that it needs, and goes on waiting: %+v", r.Seq, w.x.ID, r.Answers)
	}
}

// rightOf returns whose right an answer uses up.
func (w *waits) rightOf(a *Answer) string {
	if a.Token {
		return a.Maker
	}
	return a.By
}

// mayAnswer reports whether the sender of an answer may give it, and whether it fits.
func (w *waits) mayAnswer(a *Answer, ask *defgen.FlowAsk) bool {
	if a.Maker == workflow.CallbackBearer {
		return ask.Fits(a.N) // the token that the block was called with
	}
	starter := w.x.CreatedBy
	if ask.NotStarter && (a.By == starter || w.rightOf(a) == starter) || !ask.Fits(a.N) {
		return false
	}
	return ask.Role == "" || slices.Contains(a.Roles, ask.Role)
}

// decision returns whether answers decide, and how.
func decision(ask *defgen.FlowAsk, answers []workflow.Answer) (decided, rejected bool) {
	approved := 0
	for _, a := range answers {
		if a.Rejects {
			return true, true
		}
		approved++
	}
	return approved >= max(1, ask.Need), false
}

// checkEnded judges a step run whose wait has ended.
func (w *waits) checkEnded(r *workflow.StepRun, s *defgen.FlowStep, after *workflow.Execution) {
	o, lapsed := w.outcome(r)
	if r.Status == sm.StepCancelled || after.Cancellation != nil || after.Error != nil && after.Error.Step != r.Label {
		return // it has ended for another reason
	}
	if s.Callback && r.Counts.OK == 0 {
		return // its job has ended it
	}
	if lapsed && r.EndedAt.Before(r.Wait.Until) {
		w.Failf(lawLapse, "step run %d of %s has ended %s at %s with %d answers, and may wait until %s", r.Seq, after.ID, r.Status, r.EndedAt, len(r.Answers), r.Wait.Until)
	}
	if good := o.Code == ""; good != (r.Status == sm.StepCompleted) {
		w.Failf(lawLapse, "step run %d of %s, of step %s, has ended %s, want %+v", r.Seq, after.ID, r.Label, r.Status, o)
	}
	if why := r.Failure; o.Code != "" && (why == nil || why.Code != o.Code) {
		w.Failf(lawLapse, "step run %d of %s, of step %s, has failed with %+v, want %s", r.Seq, after.ID, r.Label, why, o.Code)
	}
	if o.Code == "" && s.Ask.Need == 0 && numberOf(r.Value) != o.N {
		w.Failf(lawLapse, "step run %d of %s, of step %s, gives %+v, want %d", r.Seq, after.ID, r.Label, r.Value, o.N)
	}
}

// outcome returns how the wait of a step run has ended, given what was sent to it. lapsed means
// that nobody has sent what it waits for.
func (w *waits) outcome(r *workflow.StepRun) (o FlowOutcome, lapsed bool) {
	ask := w.definition.Find(r.Label).Ask
	if n, ok := w.taken[r.Seq]; ok {
		return FlowOutcome{N: n}, false
	}
	if decided, rejected := decision(ask, r.Answers); ask.Signal == "" && decided {
		if rejected {
			return FlowOutcome{Code: workflow.FailureRejected}, false
		}
		if sent := w.sent[r.Answers[len(r.Answers)-1].Key]; sent != nil {
			o.N = sent.N
		}
		return o, false
	}
	if ask.Default != nil {
		return FlowOutcome{N: *ask.Default}, true
	}
	return FlowOutcome{Code: workflow.FailureTimeout}, true
}

// numberOf returns the number of an answer or of a signal, -1 if it has none.
func numberOf(v *workflow.Value) int {
	var value struct {
		N *int `json:"n"`
	}
	if v == nil || json.Unmarshal(v.Inline, &value) != nil || value.N == nil {
		return -1
	}
	return *value.N
}

// followSignals judges which signals a write takes out of the mailbox.
func (w *waits) followSignals(before, after *workflow.Execution) {
	for _, s := range before.Signals {
		_, known := w.signals[s.ID]
		if !known {
			w.signals[s.ID], known = w.handedOn(s.ID)
		}
		if !known || w.gone[s.ID] {
			w.Failf(lawSignals, "signal %s of %s is in the mailbox; it was sent: %v, and taken before: %v", s.ID, after.ID, known, w.gone[s.ID])
		}
		w.arrived[s.ID] = true
	}
	for id := range w.told {
		if !w.arrived[id] {
			w.Failf(lawSignals, "signal %s of %s was accepted, and is not in the mailbox", id, after.ID)
		}
	}
	left := slices.DeleteFunc(slices.Clone(before.Signals), func(s workflow.Signal) bool {
		return slices.ContainsFunc(after.Signals, func(o workflow.Signal) bool { return o.ID == s.ID })
	})
	for _, s := range left {
		w.gone[s.ID] = true
	}
	unfit := map[string]bool{} // signals that some step has looked at in vain
	wanted := map[string]int{} // signals that fit a step that still waits
	for i := range after.StepRuns {
		r := &after.StepRuns[i]
		s := w.definition.Find(r.Label)
		if r.Wait == nil || s == nil || s.Ask == nil || s.Ask.Signal == "" || i < len(before.StepRuns) && !before.StepRuns[i].Open() {
			continue
		}
		fits := func(o workflow.Signal) bool {
			return o.Name == s.Ask.Signal && o.At.Before(r.Wait.Until) && s.Ask.Fits(w.signals[o.ID].N)
		}
		for _, o := range left {
			if unfit[o.ID] = unfit[o.ID] || o.Name == s.Ask.Signal && !fits(o); r.Open() && i < len(before.StepRuns) && fits(o) {
				wanted[o.ID] = r.Seq
			}
		}
		first := slices.IndexFunc(after.Signals, fits)
		switch {
		case r.Open() || r.Status == sm.StepCancelled:
		case r.Wait.Decided:
			at := slices.IndexFunc(left, func(o workflow.Signal) bool { return fits(o) && w.signals[o.ID].N == numberOf(r.Value) })
			if at < 0 {
				w.Failf(lawSignals, "step run %d of %s has taken a signal %s with %+v, and none was sent in time", r.Seq, after.ID, s.Ask.Signal, r.Value)
				continue
			}
			if first >= 0 && after.Signals[first].Order < left[at].Order {
				w.Failf(lawSignals, "step run %d of %s has taken signal %s, and %s came before it", r.Seq, after.ID, left[at].ID, after.Signals[first].ID)
			}
			w.taken[r.Seq] = w.signals[left[at].ID].N
			left = slices.Delete(left, at, at+1)
		case first >= 0 && after.Cancellation == nil && !Terminal(after.State) && (after.Error == nil || after.Error.Step == r.Label): // else it has ended for another reason
			w.Failf(lawSignals, "step run %d of %s has ended %s, although signal %s came in time", r.Seq, after.ID, r.Status, after.Signals[first].ID)
		}
	}
	for _, s := range left {
		if seq := wanted[s.ID]; seq > 0 {
			w.Failf(lawSignals, "signal %s (%s %+v) of %s is gone, and step run %d waits for it", s.ID, s.Name, w.signals[s.ID], after.ID, seq)
		}
		if !unfit[s.ID] {
			w.Failf(lawSignals, "signal %s (%s %+v) of %s is gone, and no step has taken it", s.ID, s.Name, w.signals[s.ID], after.ID)
		}
	}
}

// waitsOf returns what the oracle knows about the waits of an execution, nil if it does not judge
// them.
func (o *Oracle) waitsOf(id string) *waits {
	if x := o.executions[id]; x != nil && x.waits != nil && !x.waits.over {
		return x.waits
	}
	return nil
}

// AnswerSent is called before somebody sends an answer. key identifies it.
func (o *Oracle) AnswerSent(key string, a Answer) {
	if w := o.waitsOf(a.Execution); w != nil {
		w.sent[key] = &a
		w.copies[key]++
	}
}

// AnswerTold is called when somebody was told what has become of an answer: it has counted, or it
// was refused for a reason. The answer is as they sent it; others may have been sent under its key
// meanwhile.
func (o *Oracle) AnswerTold(key string, sent Answer, refused error) {
	w := o.waitsOf(sent.Execution)
	if w == nil || w.sent[key] == nil {
		return
	}
	ask := w.definition.Find(sent.Step).Ask
	first, counted := w.counted[key]
	may := w.mayAnswer(&sent, ask)
	switch {
	case refused == nil && !counted:
		w.Failf(lawAnswers, "%+v was told that it counts, and it does not", sent)
	case refused != nil && counted && (w.copies[key] == 1 || first.at.Before(sent.Since)): // else it may be refused for one run of the step before another copy counts for the next
		w.Failf(lawAnswers, "%+v has counted, and was refused: %v", sent, refused)
	case may && (workflow.Is(refused, workflow.CodeForbidden) || workflow.Is(refused, workflow.CodeInvalid)):
		w.Failf(lawAnswers, "%+v was refused, although it fits: %v", sent, refused)
	case workflow.Is(refused, workflow.CodeIllegalTransition) && w.stillWaits(&sent) && may && !sent.Token && !w.lent(&sent) && (w.x.Stepping || !sent.Next):
		w.Failf(lawAnswers, "%+v was refused, although the step has waited all the time: %v", sent, refused)
	}
}

// stillWaits reports whether the step has waited since an answer was sent and still waits, with no
// answer of the same person.
func (w *waits) stillWaits(a *Answer) bool {
	for i := range w.x.StepRuns {
		r := &w.x.StepRuns[i]
		if r.Label == a.Step && r.Waiting() && (a.Visit == 0 || a.Visit == r.Ordinal) && w.entered[r.Seq].Before(a.Since) && w.Now.Before(r.Wait.Until.Add(-w.Skew)) {
			return w.x.TakesAnswers() && !slices.ContainsFunc(r.Answers, func(o workflow.Answer) bool { return o.By == a.By || cmp.Or(o.TokenBy, o.By) == a.By })
		}
	}
	return false
}

// lent reports whether somebody has made a token for a step, so that another person answers for
// them.
func (w *waits) lent(a *Answer) bool {
	return slices.ContainsFunc(w.x.StepRuns, func(r workflow.StepRun) bool {
		return r.Label == a.Step && r.Waiting() && slices.ContainsFunc(r.Wait.Issued, func(l workflow.IssuedToken) bool { return l.By == a.By })
	})
}

// handedOn returns a signal that was sent to another execution with the same business key, which
// has not begun: it hands its signals to the one that has the key.
func (w *waits) handedOn(id string) (s Signal, sent bool) {
	for _, o := range w.executions {
		if o.waits == nil || o.x.Key == "" || o.x.Key != w.x.Key || o.x.Workflow.Name != w.x.Workflow.Name || len(o.x.StepRuns) > 0 {
			continue
		}
		if s, sent = o.waits.signals[id]; sent {
			return s, true
		}
	}
	return s, false
}

// SignalSent is called before somebody sends a signal.
func (o *Oracle) SignalSent(execution, id string, s Signal) {
	if w := o.waitsOf(execution); w != nil {
		w.signals[id] = s
	}
}

// SignalTold is called when the sender of a signal was told that it is accepted, or was before.
// ended means that the execution had ended when it was sent first.
func (o *Oracle) SignalTold(execution, id string, again, ended bool) {
	w := o.waitsOf(execution)
	if w == nil {
		return
	}
	if w.told[id] = true; !again {
		w.fresh[id]++
	}
	if w.fresh[id] > 1 || ended && !w.arrived[id] {
		w.Failf(lawSignals, "signal %s of %s was accepted %d times as a new one; when it was sent, the execution had ended: %v", id, execution, w.fresh[id], ended)
	}
}

// AsksIn lists the steps of an execution that wait for people or signals.
func (o *Oracle) AsksIn(id string) []*defgen.FlowStep {
	if w := o.waitsOf(id); w != nil {
		return w.definition.Asks()
	}
	return nil
}
