package engine_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/token"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// tokenKeysOf returns keys with these ids, the first of which is the current one.
func tokenKeysOf(t testing.TB, ids ...string) token.Keys {
	t.Helper()
	var keys []string
	for _, id := range ids {
		keys = append(keys, fmt.Sprintf("%q:%q", id, base64.StdEncoding.EncodeToString([]byte(strings.Repeat(id, 32)[:32]))))
	}
	k, err := token.ParseKeys([]byte(fmt.Sprintf(`{"current":%q,"keys":{%s}}`, ids[0], strings.Join(keys, ","))))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// useKeys makes the engine use keys from now on.
func useKeys(t testing.TB, s *harness.Harness, ids ...string) {
	t.Helper()
	k := tokenKeysOf(t, ids...)
	s.Engine.TokenKeys = func(context.Context) (token.Keys, error) { return k, nil }
}

const approveBy = `steps:
  - label: ok
    wait: {approval: {%s need: %d, deadline: 24h, onReject: {next: no}}}
  - {label: after, functionBlock: p/pure:1, runOn: global}
  - {label: no, set: {a: 1}}
`

func waitingWithTokens(t testing.TB, definition string) (*harness.Harness, string) {
	t.Helper()
	s := newHarness(t, 1)
	useKeys(t, s, "k1")
	s.Publish("w", definition)
	id := s.Start("w", "d000")
	s.Drain()
	return s, id
}

// The response to making a token has the link with it, if an address is configured.
func TestToken_HasLink(t *testing.T) {
	s, id := waiting(t, askStep, `{"behind":["d000"]}`, nil)
	useKeys(t, s, "k1")
	made, err := s.Engine.IssueToken(t.Context(), person("bob"), id, views.TokenRequest{For: "ann"})
	if err != nil || made.URL == nil || *made.URL != harness.Address+"/answer#"+made.Token {
		t.Errorf("%+v, %v", made, err)
	}
	s.Engine.Address = ""
	if made, err = s.Engine.IssueToken(t.Context(), person("bob"), id, views.TokenRequest{For: "ann"}); err != nil || made.URL != nil || made.Token == "" {
		t.Errorf("without an address: %+v, %v", made, err)
	}
}

func issueAs(s *harness.Harness, by workflow.Caller, id, to string, expires *time.Time) (string, error) {
	made, err := s.Engine.IssueToken(context.Background(), by, id, views.TokenRequest{For: to, ExpiresAt: expires})
	return made.Token, err
}

func mustIssue(t testing.TB, s *harness.Harness, by, id, to string) string {
	t.Helper()
	text, err := issueAs(s, person(by), id, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func answerWith(s *harness.Harness, text, input string) error {
	_, err := s.Engine.AnswerByToken(context.Background(), text, views.TokenAnswer{Input: json.RawMessage(input)})
	return err
}

// expectIssue expects an error with the code of an issue, "" for none.
func expectIssue(t testing.TB, err error, code workflow.Code, issue string) {
	t.Helper()
	got := ""
	var coded *workflow.Error
	if errors.As(err, &coded) && len(coded.Issues) > 0 {
		got = coded.Issues[0].Code
	}
	if workflow.CodeOf(err) != code || got != issue {
		t.Errorf("%v with the issue %q, want %s %q", err, got, code, issue)
	}
}

// R40: the bearer of a token sees the question and answers, under the name that the token is for.
// Repeating the same answer is accepted without a write; another one is refused. The token is
// stored nowhere.
func TestToken_AnswersOnce(t *testing.T) {
	s, id := waiting(t, askStep, `{"behind":["d000"]}`, nil)
	useKeys(t, s, "k1")
	text := mustIssue(t, s, "bob", id, "ann@example.com")
	q, err := s.Engine.QuestionOfToken(t.Context(), text)
	if err != nil || *q.Title != "Upgrade 3 devices?" || string(q.Show) != `{"behind":["d000"]}` || q.For != "ann@example.com" || q.Step != "approve" {
		t.Errorf("%+v, %v", q, err)
	}
	expectIssue(t, answerWith(s, text, `{"approved":"yes"}`), workflow.CodeInvalid, "type")
	if err := answerWith(s, text, `{"approved":true}`); err != nil {
		t.Fatal(err)
	}
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if err := answerWith(s, text, ` {"approved": true}`); err != nil {
		t.Errorf("the same request again: %v", err)
	}
	expectIssue(t, answerWith(s, text, `{"approved":false}`), workflow.CodeIllegalTransition, "closed")
	_, err = s.Engine.QuestionOfToken(t.Context(), text)
	expectIssue(t, err, workflow.CodeIllegalTransition, "closed")
	if again := s.Load(id); again.Version != x.Version {
		t.Errorf("something was written: version %d after %d", again.Version, x.Version)
	}
	r := x.StepRunBySeq(2)
	if a := r.Answers[0]; a.By != "ann@example.com" || a.Via != workflow.AnswerByToken {
		t.Errorf("%+v", a)
	}
	stored, err := workflow.EncodeJSON(x)
	if err != nil {
		t.Fatal(err)
	}
	secret := text[strings.LastIndexByte(text, '.')+1:]
	for _, e := range s.History(id) {
		if strings.Contains(string(e.Data), secret) {
			t.Errorf("the event %s holds the token", e.Type)
		}
	}
	if strings.Contains(string(stored), secret) {
		t.Error("the token is stored")
	}
	if countEvents(s, id, "token.issued") != 1 {
		t.Error("nobody can tell who has made a token")
	}
}

// A token that no key has made is refused before anything is read, whatever is wrong with it.
func TestToken_ForgedIsRefusedUnread(t *testing.T) {
	s, id := waitingWithTokens(t, fmt.Sprintf(approveBy, "", 1))
	text := mustIssue(t, s, "bob", id, "ann")
	useKeys(t, s, "k2")
	other := mustIssue(t, s, "bob", id, "eve")
	useKeys(t, s, "k1")
	parts := strings.Split(text, ".")
	calls := len(s.Trace())
	for _, forged := range []string{
		"", "lst1..", text[:len(text)-1], text + "A", parts[0] + "." + parts[1], parts[0] + "." + parts[1] + "." + strings.Split(other, ".")[2],
		parts[0] + "." + strings.Split(other, ".")[1] + "." + parts[2], "lst2." + parts[1] + "." + parts[2], other, strings.Repeat("x", 1<<16),
	} {
		expectIssue(t, answerWith(s, forged, `{"approved":true}`), workflow.CodeUnauthorized, "")
		_, err := s.Engine.QuestionOfToken(t.Context(), forged)
		expectIssue(t, err, workflow.CodeUnauthorized, "")
	}
	if n := len(s.Trace()); n != calls {
		t.Errorf("%d calls for forged tokens", n-calls)
	}
	s.Engine.TokenKeys = nil
	expectIssue(t, answerWith(s, text, `{"approved":true}`), workflow.CodeUnauthorized, "")
	_, err := issueAs(s, person("bob"), id, "ann", nil)
	expectIssue(t, err, workflow.CodeNotImplemented, "")
	s.Engine.TokenKeys = func(context.Context) (token.Keys, error) { return token.Keys{}, errors.New("secret unreachable") }
	expectIssue(t, answerWith(s, text, `{"approved":true}`), workflow.CodeUnavailable, "")
}

// Keys are changed without a moment at which tokens are refused. Removing a key invalidates its
// tokens.
func TestToken_KeysAreChanged(t *testing.T) {
	s, id := waitingWithTokens(t, fmt.Sprintf(approveBy, "", 3))
	one := mustIssue(t, s, "a", id, "one")
	two := mustIssue(t, s, "b", id, "two")
	useKeys(t, s, "k2", "k1")
	three := mustIssue(t, s, "c", id, "three")
	if err := answerWith(s, one, `{"approved":true}`); err != nil {
		t.Error(err)
	}
	useKeys(t, s, "k2")
	expectIssue(t, answerWith(s, two, `{"approved":true}`), workflow.CodeUnauthorized, "")
	if err := answerWith(s, three, `{"approved":true}`); err != nil {
		t.Error(err)
	}
}

// A token is refused after it was revoked, after its expiry, for another tenant, for another run of
// the step, and after a cancel; each refusal gives the reason.
func TestToken_IsValidAsLongAsTheWait(t *testing.T) {
	s, id := waitingWithTokens(t, fmt.Sprintf(approveBy, "", 2))
	revoked := mustIssue(t, s, "bob", id, "ann")
	if _, err := s.Engine.RevokeTokens(t.Context(), person("bob"), id, views.RevokeRequest{Reason: "wrong list"}); err != nil {
		t.Fatal(err)
	}
	expectIssue(t, answerWith(s, revoked, `{"approved":true}`), workflow.CodeIllegalTransition, "revoked")
	at := s.Now().Add(time.Hour)
	late, err := issueAs(s, person("bob"), id, "eve", &at)
	if err != nil {
		t.Fatal(err)
	}
	before := s.Load(id).Version
	s.Advance(time.Hour)
	expectIssue(t, answerWith(s, late, `{"approved":true}`), workflow.CodeIllegalTransition, "expired")
	_, err = s.Engine.QuestionOfToken(t.Context(), late)
	expectIssue(t, err, workflow.CodeIllegalTransition, "expired")
	passed := s.Now()
	_, err = issueAs(s, person("bob"), id, "eve", &passed)
	expectIssue(t, err, workflow.CodeInvalid, "range")
	_, err = issueAs(s, person("bob"), id, "not a name", nil)
	expectIssue(t, err, workflow.CodeInvalid, "pattern")

	valid := mustIssue(t, s, "bob", id, "eve")
	keys := tokenKeysOf(t, "k1")
	claims, err := keys.Verify(valid)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*token.Claims){
		"another tenant":    func(c *token.Claims) { c.Tenant = "other" },
		"another execution": func(c *token.Claims) { c.Execution = "01900000-0000-7000-8000-000000000000" },
		"another step run":  func(c *token.Claims) { c.StepRunSeq++ },
	} {
		other := claims
		change(&other)
		text, err := keys.Make(other)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			expectIssue(t, answerWith(s, text, `{"approved":true}`), workflow.CodeIllegalTransition, "closed")
		})
	}
	if got := s.Load(id); got.Version != before+1 || len(got.StepRuns[0].Answers) > 0 {
		t.Errorf("version %d after %d, %+v", got.Version, before, got.StepRuns[0].Answers)
	}
	if err := answerWith(s, valid, `{"approved":true}`); err != nil {
		t.Error(err)
	}
	expectIssue(t, answerWith(s, valid, `{"approved":false}`), workflow.CodeIllegalTransition, "used")
	if _, err := s.Engine.Cancel(t.Context(), person("bob"), id, views.CancelRequest{}); err != nil {
		t.Fatal(err)
	}
	expectIssue(t, answerWith(s, mustMake(t, keys, claims, "zoe"), `{"approved":true}`), workflow.CodeIllegalTransition, "closed")
	_, err = issueAs(s, person("bob"), id, "eve", nil)
	expectIssue(t, err, workflow.CodeIllegalTransition, "closed")
}

func mustMake(t testing.TB, keys token.Keys, claims token.Claims, subject string) string {
	t.Helper()
	claims.Subject = subject
	text, err := keys.Make(claims)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A passed deadline is committed before a token is refused for it, and a bearer who only reads the
// question learns of it too.
func TestToken_AfterTheDeadline(t *testing.T) {
	s, id := waitingWithTokens(t, strings.Replace(fmt.Sprintf(approveBy, "", 1), "onReject", "onTimeout: {next: no}, onReject", 1))
	text := mustIssue(t, s, "bob", id, "ann")
	s.Advance(24 * time.Hour)
	_, err := s.Engine.QuestionOfToken(t.Context(), text)
	expectIssue(t, err, workflow.CodeIllegalTransition, "closed")
	expectIssue(t, answerWith(s, text, `{"approved":true}`), workflow.CodeIllegalTransition, "closed")
	if x := s.Load(id); x.State == sm.ExecutionWaiting {
		t.Error("the refusal is not stored: a clock that is behind would accept the answer")
	}
}

// A token gives the right of its maker: nobody who may not answer can make one, and nobody can make
// one for the starter of the execution if that may not answer.
func TestToken_OnlyWhoMayAnswerMakesOne(t *testing.T) {
	s, id := waitingWithTokens(t, fmt.Sprintf(approveBy, "who: {actors: [bob], roles: [cab], notStarter: true},", 1))
	_, err := issueAs(s, person("eve"), id, "bob", nil)
	expectIssue(t, err, workflow.CodeForbidden, "")
	_, err = issueAs(s, harness.Caller, id, "bob", nil)
	expectIssue(t, err, workflow.CodeForbidden, "")
	_, err = issueAs(s, person("bob"), id, harness.Caller.Actor, nil)
	expectIssue(t, err, workflow.CodeForbidden, "")
	text, err := issueAs(s, person("zoe", "cab"), id, "outside@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := answerWith(s, text, `{"approved":true}`); err != nil {
		t.Error(err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// Where several have to answer, one person with tokens counts once: he makes tokens for one name,
// and answers by a token or himself.
func TestToken_OnePersonCountsOnce(t *testing.T) {
	s, id := waitingWithTokens(t, fmt.Sprintf(approveBy, "", 2))
	text := mustIssue(t, s, "bob", id, "ann")
	if again := mustIssue(t, s, "bob", id, "ann"); again != text {
		t.Error("the same token is another one")
	}
	_, err := issueAs(s, person("bob"), id, "eve", nil)
	expectIssue(t, err, workflow.CodeIllegalTransition, "used")
	expectIssue(t, answerAs(s, person("bob"), id, `{"approved":true}`, ""), workflow.CodeIllegalTransition, "used")
	if err := answerWith(s, text, `{"approved":true}`); err != nil {
		t.Fatal(err)
	}
	_, err = issueAs(s, person("zoe"), id, "ann", nil)
	expectIssue(t, err, workflow.CodeIllegalTransition, "used")
	// Revoking tokens does not give another vote to somebody who was answered for.
	if _, err := s.Engine.RevokeTokens(t.Context(), person("bob"), id, views.RevokeRequest{}); err != nil {
		t.Fatal(err)
	}
	expectIssue(t, answerAs(s, person("bob"), id, `{"approved":true}`, ""), workflow.CodeIllegalTransition, "used")
	if err := answerAs(s, person("eve"), id, `{"approved":true}`, ""); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// The maker of a token loses the right to answer only by an answer that came with the token: not by
// what its bearer did otherwise, a revoke, or the expiry of the token.
func TestToken_TakesTheRightOfItsMaker(t *testing.T) {
	const yes = `{"approved":true}`
	for name, play := range map[string]func(t *testing.T, s *harness.Harness, id string){
		"the bearer answers by his own right": func(t *testing.T, s *harness.Harness, id string) {
			text := mustIssue(t, s, "ann", id, "x")
			if err := answerAs(s, person("x"), id, yes, ""); err != nil {
				t.Error(err)
			}
			expectIssue(t, answerWith(s, text, yes), workflow.CodeIllegalTransition, "used")
		},
		"the bearer answers with the token of another": func(t *testing.T, s *harness.Harness, id string) {
			mine, text := mustIssue(t, s, "ann", id, "x"), mustIssue(t, s, "bob", id, "x")
			if err := answerWith(s, text, yes); err != nil {
				t.Error(err)
			}
			expectIssue(t, answerWith(s, mine, yes), workflow.CodeIllegalTransition, "used")
			expectIssue(t, answerAs(s, person("bob"), id, yes, ""), workflow.CodeIllegalTransition, "used")
			_, err := issueAs(s, person("bob"), id, "y", nil)
			expectIssue(t, err, workflow.CodeIllegalTransition, "used")
		},
		"it was revoked before": func(t *testing.T, s *harness.Harness, id string) {
			mustIssue(t, s, "ann", id, "x")
			if _, err := s.Engine.RevokeTokens(t.Context(), person("ann"), id, views.RevokeRequest{}); err != nil {
				t.Error(err)
			}
			if err := answerWith(s, mustIssue(t, s, "bob", id, "x"), yes); err != nil {
				t.Error(err)
			}
			inputs, err := s.Query.Inputs(t.Context(), harness.Caller, id, false)
			if err != nil || inputs[0].Tokens[0].State != workflow.TokenRevoked || inputs[0].Tokens[1].State != workflow.TokenUsed {
				t.Errorf("%+v, %v", inputs, err)
			}
		},
		"it has expired unused": func(t *testing.T, s *harness.Harness, id string) {
			soon := s.Now().Add(time.Hour)
			text, err := issueAs(s, person("ann"), id, "x", &soon)
			if err != nil {
				t.Error(err)
			}
			s.Advance(time.Hour)
			expectIssue(t, answerWith(s, text, yes), workflow.CodeIllegalTransition, "expired")
			if err := answerAs(s, person("bob"), id, yes, ""); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, id := waitingWithTokens(t, fmt.Sprintf(approveBy, "", 2))
			play(t, s, id)
			if n := len(s.Load(id).StepRuns[0].Answers); n != 1 {
				t.Fatalf("%d answers", n)
			}
			if err := answerAs(s, person("ann"), id, yes, ""); err != nil {
				t.Error(err)
			}
			settle(s)
			s.ExpectState(id, sm.ExecutionCompletedAck)
		})
	}
}

// A handler whose clock is behind accepts no answer with a token whose maker has answered since the
// token expired.
func TestToken_ExpiredForOneHandlerOnly(t *testing.T) {
	s, id := waitingWithTokens(t, fmt.Sprintf(approveBy, "", 2))
	soon := s.Now().Add(time.Hour)
	if _, err := issueAs(s, person("ann"), id, "x", &soon); err != nil {
		t.Fatal(err)
	}
	s.Advance(time.Hour)
	if err := answerAs(s, person("ann"), id, `{"approved":true}`, ""); err != nil {
		t.Fatal(err)
	}
	later := s.Now().Add(time.Minute)
	claims := token.Claims{Tenant: harness.Caller.Tenant, Execution: id, StepRunSeq: 1, Subject: "x", Maker: "ann", ExpiresAt: later}
	text, err := tokenKeysOf(t, "k1").Make(claims)
	if err != nil {
		t.Fatal(err)
	}
	expectIssue(t, answerWith(s, text, `{"approved":true}`), workflow.CodeIllegalTransition, "used")
	_, err = s.Engine.QuestionOfToken(t.Context(), text)
	expectIssue(t, err, workflow.CodeIllegalTransition, "used")
}

// The tokens of a step that waits are listed with what has become of each, and without themselves.
// The newest stay.
// What has become of tokens is told after the wait as well: those that were not used died with it.
func TestToken_AreListedAfterTheWait(t *testing.T) {
	list := func(s *harness.Harness, id string) string {
		t.Helper()
		tokens, err := s.Query.Tokens(t.Context(), harness.Caller, id)
		if err != nil {
			t.Fatal(err)
		}
		var states []string
		for _, k := range tokens {
			states = append(states, fmt.Sprintf("%s#%d %s for %s %s", k.Step, k.Visit, k.By, k.For, k.State))
		}
		return strings.Join(states, ", ")
	}
	definition := fmt.Sprintf(approveBy, "", 1)
	begin := func() (*harness.Harness, string, string) {
		s, id := waitingWithTokens(t, definition)
		soon := s.Now().Add(time.Hour)
		if _, err := issueAs(s, person("c"), id, "three", &soon); err != nil {
			t.Fatal(err)
		}
		mustIssue(t, s, "b", id, "two")
		return s, id, mustIssue(t, s, "a", id, "one")
	}
	s, id, used := begin()
	step := s.Load(id).Wait.Step
	expect := func(three, two, one string) {
		t.Helper()
		want := fmt.Sprintf("%s#1 c for three %s, %s#1 b for two %s, %s#1 a for one %s", step, three, step, two, step, one)
		for range 2 {
			if got := list(s, id); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			s.RunFor(3 * time.Hour)
		}
	}
	if err := answerWith(s, used, `{"approved":true}`); err != nil {
		t.Fatal(err)
	}
	settle(s)
	expect("revoked", "revoked", "used")
	s, id, _ = begin()
	s.Advance(2 * time.Hour)
	if _, err := s.Engine.Cancel(t.Context(), harness.Caller, id, views.CancelRequest{}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	expect("expired", "revoked", "revoked")
	s, id, _ = begin()
	s.RunFor(25 * time.Hour)
	expect("expired", "expired", "expired")
}

func TestToken_AreListed(t *testing.T) {
	s, id := waitingWithTokens(t, fmt.Sprintf(approveBy, "", 3))
	list := func() string {
		t.Helper()
		inputs, err := s.Query.Inputs(t.Context(), harness.Caller, id, false)
		if err != nil {
			t.Fatal(err)
		}
		var states []string
		for _, k := range inputs[0].Tokens {
			states = append(states, fmt.Sprintf("%s for %s %s", k.By, k.For, k.State))
		}
		return strings.Join(states, ", ")
	}
	soon := s.Now().Add(time.Hour)
	used, late := mustIssue(t, s, "a", id, "one"), ""
	var err error
	if late, err = issueAs(s, person("b"), id, "two", &soon); err != nil || late == "" {
		t.Fatal(err)
	}
	if err := answerWith(s, used, `{"approved":true}`); err != nil {
		t.Fatal(err)
	}
	mustIssue(t, s, "c", id, "three")
	s.Advance(time.Hour)
	if got := list(); got != "a for one used, b for two expired, c for three active" {
		t.Error(got)
	}
	if _, err := s.Engine.RevokeTokens(t.Context(), person("b"), id, views.RevokeRequest{}); err != nil {
		t.Fatal(err)
	}
	mustIssue(t, s, "c", id, "four") // what was revoked is no voice any more
	if got := list(); got != "a for one used, b for two revoked, c for three revoked, c for four active" {
		t.Error(got)
	}
	for i := range workflow.MaxAnswers - 2 { // those that were revoked make room
		mustIssue(t, s, fmt.Sprint("d", i), id, fmt.Sprint("e", i))
	}
	if got := list(); strings.Count(got, " for ") != workflow.MaxAnswers || strings.Contains(got, "revoked") {
		t.Error(got)
	}
	_, err = issueAs(s, person("z"), id, "z", nil)
	expectIssue(t, err, workflow.CodeLimit, "")

	s, id = waitingWithTokens(t, fmt.Sprintf(approveBy, "", 1))
	for i := range workflow.MaxAnswers + 1 {
		mustIssue(t, s, "bob", id, fmt.Sprint("e", i))
	}
	if got := list(); strings.Count(got, " for ") != workflow.MaxAnswers || strings.Contains(got, "e0 ") {
		t.Error(got)
	}
}

// If there are several tokens by and for the same person, the list shows how long at least one of
// them works.
func TestToken_ListHasTheLastExpiry(t *testing.T) {
	s, id := waitingWithTokens(t, fmt.Sprintf(approveBy, "", 3))
	issue := func(by string, hours ...int) (texts []string) {
		for _, h := range hours {
			var expires *time.Time
			if at := s.Now().Add(time.Duration(h) * time.Hour); h > 0 {
				expires = &at
			}
			text, err := issueAs(s, person(by), id, "of-"+by, expires)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, text)
		}
		return texts
	}
	always, longest, first := issue("a", 0, 1)[0], issue("b", 3, 1)[0], issue("c", 1, 3)[0]
	s.Advance(2 * time.Hour)
	inputs, err := s.Query.Inputs(t.Context(), harness.Caller, id, false)
	if err != nil || len(inputs[0].Tokens) != 3 {
		t.Fatalf("%+v, %v", inputs, err)
	}
	for _, k := range inputs[0].Tokens {
		if k.State != workflow.TokenActive {
			t.Errorf("%s for %s is %s", k.By, k.For, k.State)
		}
	}
	expectIssue(t, answerWith(s, first, `{"approved":true}`), workflow.CodeIllegalTransition, "expired")
	for _, text := range []string{always, longest} {
		if err := answerWith(s, text, `{"approved":true}`); err != nil {
			t.Error(err)
		}
	}

	// One that was revoked prolongs nothing.
	s, id = waitingWithTokens(t, fmt.Sprintf(approveBy, "", 3))
	issue("a", 0)
	if _, err := s.Engine.RevokeTokens(t.Context(), person("z"), id, views.RevokeRequest{}); err != nil {
		t.Fatal(err)
	}
	issue("a", 1)
	s.Advance(2 * time.Hour)
	if inputs, err = s.Query.Inputs(t.Context(), harness.Caller, id, false); err != nil || len(inputs[0].Tokens) != 1 || inputs[0].Tokens[0].State != workflow.TokenExpired {
		t.Errorf("%+v, %v", inputs, err)
	}
}

// A token that is revoked while its answer is on the way has one outcome: the answer counts, or it
// is refused.
func TestToken_RevokedMeanwhile(t *testing.T) {
	for _, revokeFirst := range []bool{false, true} {
		s, id := waitingWithTokens(t, fmt.Sprintf(approveBy, "", 1))
		text := mustIssue(t, s, "bob", id, "ann")
		var answered error
		answer := s.StartTask("answer", func() { answered = answerWith(s, text, `{"approved":true}`) })
		if !answer.RunUntil("store.commit") {
			t.Fatal("the answer is not stored")
		}
		if revokeFirst {
			if _, err := s.Engine.RevokeTokens(t.Context(), person("bob"), id, views.RevokeRequest{}); err != nil {
				t.Fatal(err)
			}
		}
		answer.Finish()
		if revokeFirst {
			expectIssue(t, answered, workflow.CodeIllegalTransition, "revoked")
		} else if answered != nil {
			t.Error(answered)
		}
	}
}

// A commit whose reply is lost is recognised by the token, also without an Idempotency-Key.
func TestToken_LostReply(t *testing.T) {
	s, id := waitingWithTokens(t, fmt.Sprintf(approveBy, "", 2))
	text := mustIssue(t, s, "bob", id, "ann")
	lost := false
	s.Faults = func(c faults.Call) faults.Fault {
		if c.Name == "store.commit" && !lost {
			lost = true
			return faults.LostReply
		}
		return faults.None
	}
	if err := answerWith(s, text, `{"approved":true}`); err == nil {
		t.Log("recognised within the request")
	}
	s.Faults = nil
	if err := answerWith(s, text, `{"approved":true}`); err != nil {
		t.Error(err)
	}
	if r := s.Load(id).StepRunBySeq(1); len(r.Answers) != 1 {
		t.Errorf("%+v", r.Answers)
	}
}

// FuzzToken plays making, changing, revoking, answering and waiting against a model of what a
// token is: valid while its wait is open, with its generation, until its time, once a name.
func FuzzToken(f *testing.F) {
	f.Add([]byte{0, 0, 3, 0, 3, 0})
	f.Add([]byte{0, 0, 0, 9, 2, 0, 3, 0, 3, 9, 4, 200, 3, 1})
	f.Add([]byte{1, 5, 0, 1, 4, 40, 3, 0, 3, 1, 5, 7, 5, 3, 6, 0, 3, 1})
	f.Add([]byte{0, 1, 6, 1, 2, 0, 6, 1, 1, 2, 6, 2, 4, 200, 6, 2, 0, 3, 0, 15, 3, 2, 3, 3, 6, 3})
	f.Fuzz(func(t *testing.T, plays []byte) {
		if len(plays) > 40 {
			return
		}
		s, id := waitingWithTokens(t, fmt.Sprintf(approveBy, "", 4))
		deadline := s.Load(id).Wait.Until
		type made struct {
			text, by, to string
			generation   int
			expires      time.Time
		}
		var tokens []made
		generation, answers, counted, cancelled := 0, map[string]bool{}, map[string]bool{}, false
		lent, used := map[string]made{}, map[string]bool{} // by who has the right
		isIssued := func(by string) bool {                 // somebody could answer with his right now
			l, ok := lent[by]
			return ok && !used[by] && !answers[l.to] && l.generation == generation && (l.expires.IsZero() || s.Now().Before(l.expires))
		}
		for at := 0; at+1 < len(plays); at += 2 {
			n := int(plays[at+1])
			open := !cancelled && len(answers) < 4 && s.Now().Before(deadline)
			switch plays[at] % 7 {
			case 0, 1: // a token, for ever or for some hours
				m := made{by: fmt.Sprint("by", n%7), to: fmt.Sprint("to", n%5), generation: generation}
				if plays[at]%7 == 1 {
					m.expires = s.Now().Add(time.Duration(1+n) * time.Hour / 8)
				}
				var expires *time.Time
				if !m.expires.IsZero() {
					expires = &m.expires
				}
				var err error
				if m.text, err = issueAs(s, person(m.by), id, m.to, expires); (err == nil) != (open && !answers[m.to] && !used[m.by] && (!isIssued(m.by) || lent[m.by].to == m.to)) {
					t.Fatalf("%d: a token for %s by %s: %v", at, m.to, m.by, err)
				}
				if err == nil {
					tokens = append(tokens, m)
					if l := lent[m.by]; isIssued(m.by) && (l.expires.IsZero() || !m.expires.IsZero() && l.expires.After(m.expires)) {
						m.expires = l.expires
					}
					lent[m.by] = m
				}
			case 2:
				if _, err := s.Engine.RevokeTokens(t.Context(), person("bob"), id, views.RevokeRequest{}); (err == nil) != open {
					t.Fatalf("%d: revoke: %v", at, err)
				}
				if open {
					generation++
				}
			case 3:
				if len(tokens) == 0 {
					continue
				}
				m := tokens[n%len(tokens)]
				err := answerWith(s, m.text, `{"approved":true}`)
				want := ""
				switch {
				case counted[m.text]: // the same request again
				case !open:
					want = "closed"
				case m.generation != generation:
					want = "revoked"
				case !m.expires.IsZero() && !s.Now().Before(m.expires):
					want = "expired"
				case answers[m.to] || used[m.by]:
					want = "used"
				}
				if want != "" {
					expectIssue(t, err, workflow.CodeIllegalTransition, want)
				} else if err != nil {
					t.Fatalf("%d: the token for %s: %v", at, m.to, err)
				} else {
					answers[m.to], used[m.by], counted[m.text] = true, true, true
				}
			case 4:
				s.Advance(time.Duration(n) * time.Hour / 16)
			case 5: // one that was changed
				if len(tokens) == 0 {
					continue
				}
				text := []byte(tokens[n%len(tokens)].text)
				text[n%len(text)] ^= 1 << (n % 7)
				err := answerWith(s, string(text), `{"approved":true}`)
				expectIssue(t, err, workflow.CodeUnauthorized, "")
			case 6: // a cancel, or somebody answers by his own right
				if by := fmt.Sprint("by", n%7); n > 0 {
					err := answerAs(s, person(by), id, `{"approved":true}`, "")
					if (err == nil) != (open && !used[by] && !isIssued(by)) {
						t.Fatalf("%d: %s answers: %v", at, by, err)
					}
					if err == nil {
						answers[by], used[by] = true, true
					}
				}
				if n == 0 && open {
					if _, err := s.Engine.Cancel(t.Context(), person("bob"), id, views.CancelRequest{}); err != nil {
						t.Fatal(err)
					}
					cancelled = true
				}
			}
			if r := s.Load(id).StepRunBySeq(1); len(r.Answers) != len(answers) {
				t.Fatalf("%d: %d answers, want %d", at, len(r.Answers), len(answers))
			}
		}
	})
}
