package workflow

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/statemachines"
)

// StepWait is what a step run waits for. It is over when the step run has ended, or when it is
// decided or has lapsed: a step run that also has a job then waits only for that.
type StepWait struct {
	Kind    WaitKind  `json:"kind"`
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until"`            // when it ends by itself, or its deadline
	Next    time.Time `json:"next,omitzero"`    // when the next reminder or escalation is due
	Title   string    `json:"title,omitempty"`  // beginning of the question to people; name of a signal
	Reason  string    `json:"reason,omitempty"` // of a signal that a block has asked for: why, for people
	Decided bool      `json:"decided,omitempty"`
	Lapsed  bool      `json:"lapsed,omitempty"` // its deadline has passed: a default replaces the answer, or its job is being stopped
	Asked   bool      `json:"asked,omitempty"`  // requested by the block of the step, which is called again afterwards
	Unfit   int       `json:"unfit,omitempty"`  // signals that it has taken and that did not match; the history has the first

	// Need is how many people must answer; 0 if nobody must. In an approval (Approval), the first
	// rejection decides.
	Need     int  `json:"need,omitempty"`
	Approval bool `json:"approval,omitempty"`

	// Level is how often it has been escalated. The executions of levels up to Paged have been
	// started. Reminded is how many reminders have been recorded.
	Level    int `json:"level,omitempty"`
	Paged    int `json:"paged,omitempty"`
	Reminded int `json:"reminded,omitempty"`

	// Generation is the generation of its tokens; tokens of earlier generations are revoked. Issued
	// lists the tokens, without their text.
	Generation int64         `json:"generation,omitempty"`
	Issued     []IssuedToken `json:"issued,omitempty"`

	Question *Value `json:"question,omitempty"` // JSON of a Question
	Default  *Value `json:"default,omitempty"`  // the answer to use at the deadline

	DefaultRejects bool `json:"defaultRejects,omitempty"` // of an approval: Default rejects it
}

// Shown returns what people are told about the wait: the question, or why a block waits, or the
// name of the signal.
func (w *StepWait) Shown() string { return cmp.Or(w.Reason, w.Title) }

// Signal returns the name of the signal that the step run waits for; "" if it waits for another
// thing.
func (w *StepWait) Signal() string {
	if w.Kind != WaitSignal {
		return ""
	}
	return w.Title
}

// Answer is an answer to a waiting step run.
type Answer struct {
	By      string    `json:"by"`
	At      time.Time `json:"at"`
	Via     string    `json:"via,omitempty"`     // how it came, if not by a command: AnswerByToken
	TokenBy string    `json:"tokenBy,omitempty"` // issuer of the token, whose right it has used up
	Key     string    `json:"key"`               // see AnswerKey
	Digest  string    `json:"digest"`            // digest of the value as sent, so that the same key cannot carry a different one
	Rejects bool      `json:"rejects,omitempty"`
	Value   *Value    `json:"value,omitempty"`
}

// CallbackBearer is the name under which somebody answers with the callback token from a step's
// job.
const CallbackBearer = "callback"

// AnswerPage is the path of the page where the bearer of a token answers. The token follows a #,
// which browsers do not send.
const AnswerPage = "/answer"

// MaxCallbackParameterBytes bounds the parameters of a step with a callback: its message is sent
// with them, because they are never stored with the token.
const MaxCallbackParameterBytes = 256 << 10

// AnswerByToken means that an answer came with a token.
const AnswerByToken = "token"

// IssuedToken records that somebody has issued a token with which another person answers by his
// right. It does not contain the token.
type IssuedToken struct {
	By         string    `json:"by"`
	For        string    `json:"for"`
	At         time.Time `json:"at"`
	ExpiresAt  time.Time `json:"expiresAt,omitzero"`
	Generation int64     `json:"generation,omitempty"`
}

// BearerOf returns who can currently answer with somebody's right; "" for nobody. It also returns
// "" if a single answer decides, because then it makes no difference.
func (r *StepRun) BearerOf(by string, now time.Time) string {
	for _, l := range r.Wait.Issued {
		if l.By == by && r.Wait.Need > 1 && r.StateOf(l, now) == TokenActive {
			return l.For
		}
	}
	return ""
}

// TokenState is the state of a token.
type TokenState string

// The states of tokens.
const (
	TokenActive  TokenState = "active"
	TokenUsed    TokenState = "used"
	TokenExpired TokenState = "expired"
	TokenRevoked TokenState = "revoked"
)

// StateOf is the state at a time of a token that was made for a step run that waits, or has
// waited. One that was not used while it could be is used too if nobody can answer with it any
// more because somebody has used the right. What else ends the wait revokes it, and its deadline
// makes it expire.
func (r *StepRun) StateOf(l IssuedToken, now time.Time) TokenState {
	lapsed := r.Wait.Lapsed
	if !r.Open() && !r.EndedAt.IsZero() && r.EndedAt.Before(now) {
		now = r.EndedAt
		lapsed = lapsed || !r.Wait.Decided && !now.Before(r.Wait.Until)
	}
	switch {
	case slices.ContainsFunc(r.Answers, func(a Answer) bool { return a.TokenBy == l.By && a.By == l.For }):
		return TokenUsed
	case l.Generation != r.Wait.Generation:
		return TokenRevoked
	case !l.ExpiresAt.IsZero() && !now.Before(l.ExpiresAt):
		return TokenExpired
	case r.HasAnswered(l.For) || r.HasUsedRight(l.By):
		return TokenUsed
	case lapsed:
		return TokenExpired
	case !r.Waiting():
		return TokenRevoked
	}
	return TokenActive
}

// MaxAnswers is how many people an approval may need.
const MaxAnswers = 20

// AnswerKey identifies a request to answer: by its Idempotency-Key, and by who makes it.
func AnswerKey(idempotencyKey, by string) string { return shortDigest(idempotencyKey, by) }

// AnswerDigest identifies the content of an answer.
func AnswerDigest(value json.RawMessage) string { return shortDigest(string(value)) }

func shortDigest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:15])
}

// Question is what people are asked, as it was when the step was entered.
type Question struct {
	Title    string          `json:"title,omitempty"`
	Schema   json.RawMessage `json:"schema,omitempty"` // JSON Schema of an answer; absent accepts any value
	Show     json.RawMessage `json:"show,omitempty"`   // what is shown to the person who answers
	Who      Who             `json:"who,omitzero"`
	Escalate []Escalation    `json:"escalate,omitempty"`
}

// Who says who may answer: these actors, and everybody with one of these roles. If both are empty,
// everybody may.
type Who struct {
	Actors     []string `json:"actors,omitempty"`
	Roles      []string `json:"roles,omitempty"`
	NotStarter bool     `json:"notStarter,omitempty"` // but not whoever started the execution
}

// Escalation says who else may answer from a level on, and which execution is started then.
type Escalation struct {
	Actors     []string        `json:"actors,omitempty"`
	Roles      []string        `json:"roles,omitempty"`
	Workflow   string          `json:"workflow,omitempty"` // reference
	Parameters json.RawMessage `json:"parameters,omitempty"`
}

// At returns who may answer at a level of escalation.
func (q *Question) At(level int) Who {
	who := Who{Actors: slices.Clone(q.Who.Actors), Roles: slices.Clone(q.Who.Roles), NotStarter: q.Who.NotStarter}
	if len(who.Actors)+len(who.Roles) == 0 {
		return who // everybody may already
	}
	for _, e := range q.Escalate[:min(level, len(q.Escalate))] {
		who.Actors, who.Roles = append(who.Actors, e.Actors...), append(who.Roles, e.Roles...)
	}
	return who
}

// Allows reports whether somebody with these roles may answer for an execution that starter has
// started.
func (w Who) Allows(actor string, roles []string, starter string) bool {
	if w.NotStarter && actor == starter {
		return false
	}
	return len(w.Actors)+len(w.Roles) == 0 || slices.Contains(w.Actors, actor) ||
		slices.ContainsFunc(roles, func(role string) bool { return slices.Contains(w.Roles, role) })
}

// String says who may answer.
func (w Who) String() string {
	var parts []string
	if len(w.Roles) > 0 {
		parts = append(parts, "who has the role "+strings.Join(w.Roles, " or "))
	}
	if len(w.Actors) > 0 {
		parts = append(parts, strings.Join(w.Actors, ", "))
	}
	s := cmp.Or(strings.Join(parts, "; "), "everybody")
	if w.NotStarter {
		s += "; not who has started the execution"
	}
	return s
}

// TakesAnswers reports whether an execution takes answers to its waiting step runs.
func (x *Execution) TakesAnswers() bool {
	return x.State == statemachines.ExecutionWaiting || x.State == statemachines.ExecutionRunning
}

// HasAnswered reports whether somebody has answered.
func (r *StepRun) HasAnswered(by string) bool {
	return slices.ContainsFunc(r.Answers, func(a Answer) bool { return a.By == by })
}

// HasUsedRight reports whether somebody's right to answer has been used up: by him, or by somebody
// with a token of his. Each answer uses up a different right.
func (r *StepRun) HasUsedRight(whose string) bool {
	return slices.ContainsFunc(r.Answers, func(a Answer) bool { return cmp.Or(a.TokenBy, a.By) == whose })
}
