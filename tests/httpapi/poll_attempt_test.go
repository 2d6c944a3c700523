package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
)

// pollFixture is an API on a simulation, whose pool "edge" is served by programs that poll.
// Their block must not run twice.
type pollFixture struct{ *fixture }

func newPollFixture(t testing.TB, seed uint64, devices int) pollFixture {
	f := pollFixture{newFixture(t, seed)}
	f.PoolQueue("edge")
	f.mustDo(nil, "POST", "/function-blocks/register", `{"package":"p","name":"slow","version":"1.0.0","pool":"edge","timeout":"30s"}`)
	f.mustDo(nil, "POST", "/workflow-definition/publish", slowDefinition)
	for i := range devices {
		f.mustDo(nil, "PUT", fmt.Sprintf("/entities/device/d%03d", i+1), `{"attributes":{}}`)
	}
	return f
}

// start starts an execution over one device, up to its pack's message.
func (f pollFixture) start(device string) (id string) {
	f.Helper()
	var x struct{ ID string }
	f.mustDo(&x, "POST", "/workflow-execution", fmt.Sprintf(startFormat, "slow", fmt.Sprintf("%q", device)))
	f.Drain()
	return x.ID
}

// poll polls as a worker; nil if there is no pack or no answer.
func (f pollFixture) poll(worker, attempt string) *views.PackOffer {
	a := f.do("POST", "/blackboard/job", fmt.Sprintf(`{"worker":%q,"blocks":["p/slow:1"],"wait":"0s","attempt":%q}`, worker, attempt))
	var offer views.PackOffer
	if a.status != 200 || json.Unmarshal(a.body, &offer) != nil {
		return nil
	}
	return &offer
}

func (f pollFixture) wantPack(what string, got *views.PackOffer) {
	f.Helper()
	if got == nil {
		f.Fatalf("%s: no pack", what)
	}
}

func (f pollFixture) wantNone(what string, got *views.PackOffer) {
	f.Helper()
	if got != nil {
		f.Errorf("%s: %s", what, got.Jobs)
	}
}

func (f pollFixture) heartbeat(o *views.PackOffer) answer {
	return f.do("POST", "/blackboard/job/heartbeat", fmt.Sprintf(leaseFormat, o.Pack, o.Token))
}

// finish reports that the pack's only job has ended.
func (f pollFixture) finish(o *views.PackOffer) answer {
	f.Helper()
	return f.do("POST", "/blackboard/job/result", fmt.Sprintf(resultFormat, o.Pack, o.Token, jobOf(f.TB, o)))
}

func (f pollFixture) wantFinished(id string, o *views.PackOffer) {
	f.Helper()
	if a := f.finish(o); a.status != 200 {
		f.Errorf("the result: %s", a)
	}
	f.Drain()
	if s := f.executionState(id); s != "COMPLETED_ACK" {
		f.Errorf("the execution is %s", s)
	}
}

func jobOf(t testing.TB, o *views.PackOffer) string {
	var j struct{ Job struct{ ID string } }
	if err := json.Unmarshal(o.Jobs[0], &j); err != nil {
		t.Fatal(err)
	}
	return j.Job.ID
}

// A worker that got no answer sends its poll again, and gets the pack that was claimed for
// it: nothing is UNKNOWN, although the block must not run twice.
func TestPoll_RepeatedAfterLostAnswerGetsSamePack(t *testing.T) {
	f := newPollFixture(t, 1, 1)
	id := f.start("d001")
	lost := f.poll("w1", "a1")
	f.wantPack("the first poll", lost)
	f.wantNone("another worker", f.poll("w2", "b1"))
	f.wantNone("another process under the same name", f.poll("w1", "a2"))
	f.Advance(70 * time.Second) // the lease has ended, and the job's time too
	again := f.poll("w1", "a1")
	f.wantPack("the repeated poll", again)
	if again.Pack != lost.Pack || again.Token != lost.Token || jobOf(t, again) != jobOf(t, lost) || !again.Lease.Equal(f.Now().Add(time.Minute)) {
		t.Errorf("the repeated poll got %+v, the first %+v", again, lost)
	}
	f.wantNone("another worker, with the lease renewed", f.poll("w2", "b2"))
	f.Advance(25 * time.Second)
	f.wantFinished(id, again)
	f.wantNone("the same poll after the end", f.poll("w1", "a1"))
}

// Once something was reported about a pack, or another worker has it, a repetition that is
// late neither gets it nor claims another.
func TestPoll_LateRepetitionGetsNothing(t *testing.T) {
	f := newPollFixture(t, 1, 3)
	first := f.start("d001")
	mine := f.poll("w1", "a1")
	f.wantPack("the first poll", mine)
	if a := f.heartbeat(mine); a.status != 200 {
		t.Fatal(a)
	}
	f.start("d002")
	f.wantNone("repeated after a heartbeat", f.poll("w1", "a1"))
	f.wantFinished(first, mine)
	f.wantPack("the next poll", f.poll("w1", "a2"))

	// The engine closes a pack whose claim is abandoned.
	third := f.start("d003")
	f.wantPack("the poll whose worker dies", f.poll("w3", "a1"))
	f.RunFor(time.Hour)
	if s := f.executionState(third); s != "FAILED_UNSAFE" {
		t.Errorf("the execution of the dead worker is %s", s)
	}
	f.wantNone("repeated after the engine has closed the pack", f.poll("w3", "a1"))

	f.mustDo(nil, "POST", "/workers/w1/heartbeat", "")
	// A poll that was answered with nothing stays so, also if its request comes again later.
	f.wantNone("a poll of an empty queue", f.poll("w1", "a3"))
	f.mustDo(nil, "PUT", "/entities/device/d004", `{"attributes":{}}`)
	f.start("d004")
	f.wantNone("its late repetition", f.poll("w1", "a3"))
	next := f.poll("w1", "a4")
	for i := 0; i < 100 && next == nil; i++ { // messages of packs that are over come first
		next = f.poll("w1", fmt.Sprintf("a%d", 5+i))
	}
	f.wantPack("the next poll", next)
}

// The process that serves a poll dies at any of its calls. The repeated poll gets the pack
// at once, except while the message is hidden and nothing says for whom.
func TestPoll_RepeatedAfterCrashAtEveryCall(t *testing.T) {
	for n := 1; ; n++ {
		f := newPollFixture(t, 1, 1)
		id := f.start("d001")
		before := f.CallCount()
		f.Faults = faults.At(n, faults.CrashAfter)
		offer := f.poll("w1", "a1")
		if f.Faults = nil; f.CallCount() < before+n {
			if n < 6 || offer == nil {
				t.Errorf("a poll makes %d calls", n-1)
			}
			return
		}
		if offer != nil {
			t.Fatalf("the poll was answered although its process died at call %d", n)
		}
		again := f.poll("w1", "a1")
		if again == nil { // nothing was stored yet
			f.Advance(2 * time.Minute)
			again = f.poll("w1", "a2")
		}
		f.wantPack(fmt.Sprintf("after a crash at call %d", n), again)
		f.wantFinished(id, again)
	}
}

// A request has received a message and stored its receipt when its worker repeats the poll,
// gets that pack and finishes it. The first request then leaves the next pack to others.
func TestPoll_OvertakenRequestClaimsNothing(t *testing.T) {
	for _, before := range []string{"packs.save_poll_receipt", "packs.claim", "workers.add_claimed_pack"} {
		f := newPollFixture(t, 1, 2)
		first, second := f.start("d001"), f.start("d002")
		body := `{"worker":"w1","blocks":["p/slow:1"],"wait":"5s","attempt":"a1"}`
		overtaken := f.StartTask("overtaken", func() { f.do("POST", "/blackboard/job", body) })
		if !overtaken.RunUntil(before) {
			t.Fatalf("no call %s", before)
		}
		o := f.poll("w1", "a1")
		f.wantPack("the repeated poll", o)
		done := first
		if a := f.do("GET", "/workflow-execution/id/"+second+"/jobs", ""); strings.Contains(string(a.body), jobOf(t, o)) {
			first, second, done = second, first, second
		}
		f.wantFinished(done, o)
		overtaken.Finish()
		rest := f.poll("w2", "b1")
		for i := 0; i < 10 && rest == nil; i++ {
			rest = f.poll("w2", fmt.Sprintf("b%d", 2+i))
		}
		f.wantPack("another worker, after the overtaken request went on from "+before, rest)
		f.wantFinished(second, rest)
	}
}

// Two requests of one poll are served at once, in any order of their calls, and either may
// die. Only one pack is claimed, and whichever request answers with a pack answers with it.
func TestPoll_ConcurrentRequestsClaimOnePack(t *testing.T) {
	for seed := range uint64(200) {
		f := newPollFixture(t, seed, 2)
		ids := []string{f.start("d001"), f.start("d002")}
		r := rand.New(rand.NewPCG(seed, 1))
		offers := make([]*views.PackOffer, 2)
		tasks := make([]*faults.Task, 2)
		for i := range tasks {
			tasks[i] = f.StartTask(fmt.Sprintf("poll %d", i), func() { offers[i] = f.poll("w1", "a1") })
		}
		victim := tasks[r.IntN(2)]
		for steps := r.IntN(12); steps > 0 && !victim.Done(); steps-- {
			tasks[r.IntN(2)].Step()
		}
		if r.IntN(2) == 0 {
			victim.Kill()
		}
		faults.Interleave(r.IntN, tasks...)
		final := f.poll("w1", "a1")
		for _, o := range append(offers, final) {
			if o != nil && (final == nil || o.Pack != final.Pack || o.Token != final.Token) {
				t.Fatalf("seed %d: one request got %s, the last %v", seed, o.Jobs, final)
			}
		}
		f.Advance(30 * time.Second) // messages that a dead request had received are visible
		// The rest of the packs is for others.
		claimed := 0
		for i := range 3 {
			if o := f.poll("w2", fmt.Sprintf("b%d", i)); o != nil {
				claimed++
				f.finish(o)
			}
		}
		if final != nil {
			claimed++
			f.finish(final)
		}
		f.Advance(time.Minute)
		for i := range 3 {
			if o := f.poll("w2", fmt.Sprintf("c%d", i)); o != nil {
				f.finish(o)
			}
		}
		f.Drain()
		for _, id := range ids {
			if s := f.executionState(id); s != "COMPLETED_ACK" {
				t.Fatalf("seed %d: an execution is %s, %d packs were claimed at once", seed, s, claimed)
			}
		}
	}
}

// What a poll reads of the registry does not grow with the versions of its block, and the
// poll sees a version that is registered later, in another pool.
func TestPoll_ReadsBlockVersionsOnce(t *testing.T) {
	f := newPollFixture(t, 1, 1)
	f.PoolQueue("other")
	for i := range 99 {
		f.mustDo(nil, "POST", "/function-blocks/register", fmt.Sprintf(`{"package":"p","name":"slow","version":"1.%d.0","pool":"edge"}`, i+1))
	}
	reads := func(attempt string) float64 {
		before := f.Consumed().ReadUnits["registry"]
		f.wantNone(attempt, f.poll("w1", attempt))
		return f.Consumed().ReadUnits["registry"] - before
	}
	if first, second := reads("a1"), reads("a2"); first != 101 || second != 1 {
		t.Errorf("the first poll read %v items, the second %v; want 101 and 1", first, second)
	}
	f.mustDo(nil, "POST", "/function-blocks/register", `{"package":"p","name":"slow","version":"1.100.0","pool":"other","timeout":"30s"}`)
	f.start("d001") // uses the newest version
	f.wantPack("a poll after another version was registered", f.poll("w1", "a3"))
	if a := f.do("POST", "/blackboard/job", `{"worker":"w1","blocks":["p/slow:2"],"wait":"0s"}`); a.status != 404 {
		t.Errorf("a block that does not exist: %s", a)
	}
}

// A pack with the token of a callback is offered again as it was, and what is stored for that is
// sealed: no table has the token, in no form that can be read without the keys.
func TestPoll_CallbackTokenIsSealed(t *testing.T) {
	f := newPollFixture(t, 1, 0)
	f.mustDo(nil, "POST", "/workflow-definition/publish", `{"package":"p","name":"asks","version":"1.0.0","steps":[{"label":"ask","functionBlock":"p/slow:1","runOn":"global","parameters":{"token":"${callback.token}"},"callback":{}}]}`)
	var x struct{ ID string }
	f.mustDo(&x, "POST", "/workflow-execution", `{"workflow":"p/asks"}`)
	f.Drain()
	lost := f.poll("w1", "a1")
	f.wantPack("the first poll", lost)
	again := f.poll("w1", "a1")
	f.wantPack("the repeated poll", again)
	var job struct{ Parameters struct{ Token string } }
	if err := json.Unmarshal(again.Jobs[0], &job); err != nil || !strings.HasPrefix(job.Parameters.Token, "lst1.") || string(lost.Jobs[0]) != string(again.Jobs[0]) || lost.Pack != again.Pack {
		t.Fatalf("the first poll got %s, the repeated one %s: %v", lost.Jobs, again.Jobs, err)
	}
	receipt, err := base64.RawURLEncoding.DecodeString(again.Pack)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{job.Parameters.Token, job.Parameters.Token[5:60], string(receipt[:40]), string(receipt[len(receipt)-40:])} {
		if where := f.Storing(text); len(where) > 0 {
			t.Errorf("%q is stored in %v", text, where)
		}
	}
	if a := f.finish(again); a.status != 200 {
		t.Errorf("the result: %s", a)
	}
	f.Drain()
	if s := f.executionState(x.ID); s != "WAITING" {
		t.Errorf("the execution is %s", s)
	}
	a := f.do("POST", "/answers", `{"input":5}`, "Authorization: Bearer "+job.Parameters.Token)
	if f.Drain(); a.status != 202 || f.executionState(x.ID) != "COMPLETED_ACK" {
		t.Errorf("%s, the execution is %s", a, f.executionState(x.ID))
	}
}

// F37: a worker that drains gets no pack and is told so. It ends the pack that it has, also with a poll
// that is repeated because its answer was lost.
// A worker is drained while its poll has just received a pack: that is for another worker.
func TestPoll_WorkerIsDrainedDuringItsPoll(t *testing.T) {
	f := newPollFixture(t, 3, 1)
	f.wantNone("it registers", f.poll("w", "before"))
	f.start("d001")
	var offer *views.PackOffer
	waiting := f.StartTask("waiting", func() { offer = f.poll("w", "one") })
	if !waiting.RunPast("workers.worker") || !waiting.RunUntil("workers.worker") {
		t.Fatal("the worker is not read again")
	}
	f.mustDo(nil, "POST", "/workers/w/drain", `{"reason":"upgrade"}`)
	waiting.Finish()
	f.wantNone("it drains", offer)
	f.wantNone("the same poll again", f.poll("w", "one"))
	f.wantPack("another worker", f.poll("v", "two"))
}

func TestPoll_DrainedWorkerGetsNoPack(t *testing.T) {
	f := newPollFixture(t, 3, 2)
	first := f.start("d001")
	held := f.poll("w", "one")
	f.wantPack("before it drains", held)
	f.start("d002")
	f.mustDo(nil, "POST", "/workers/w/drain", `{"reason":"upgrade"}`)
	f.wantNone("while it drains", f.poll("w", "two"))
	f.wantPack("the answer that was lost", f.poll("w", "one"))
	f.wantFinished(first, held)
	f.wantPack("another worker", f.poll("v", "three"))
}
