package dynamo

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// noise is a text of n bytes that cannot be compressed much.
func noise(random *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteByte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"[random.IntN(64)])
	}
	return b.String()
}

// scopeAtMaximum is the largest scope that a state item holds.
func scopeAtMaximum(random *rand.Rand) workflow.Scope {
	s := workflow.Scope{Counts: map[string]int{}, HeldEpoch: 1 << 40, EpochBeforeRestore: 1 << 40}
	for range workflow.MaxEntityTypes {
		s.Counts[noise(random, 128)] = random.IntN(1 << 20)
	}
	s.Inline = []workflow.ScopeEntity{{Key: workflow.EntityKey{Type: noise(random, 80), ID: noise(random, 80)}, Token: 1 << 40, Attributes: json.RawMessage(fmt.Sprintf(`{"a":%q}`, noise(random, 80)))}}
	return s
}

// randomPlaces are places whose set takes n bytes as text.
func randomPlaces(random *rand.Rand, n int) (places []int) {
	for p := 1; p < n*6; p++ {
		if random.IntN(2) == 0 {
			places = append(places, p)
		}
	}
	return places
}

// addAtMaximum adds to an execution everything that grows after it has begun, as large as
// it gets, but no step runs: those are entered only while there is room.
func addAtMaximum(random *rand.Rand, x *workflow.Execution) {
	reason := noise(random, workflow.MaxReasonBytes)
	entity := workflow.EntityKey{Type: noise(random, 128), ID: noise(random, 128)}
	x.Reason, x.Error = reason, &workflow.Failure{
		Code: noise(random, workflow.MaxFailureCode), Message: reason, Step: noise(random, 128), Entity: entity.String(),
		Details: json.RawMessage(fmt.Sprintf(`%q`, noise(random, workflow.MaxFailureDetails-2))),
	}
	x.Cancellation = &workflow.Cancellation{Source: "timeout", Reason: noise(random, workflow.MaxReasonBytes), By: noise(random, 256), At: time.Now()}
	x.FailureStreak = &workflow.FailureStreak{Reason: noise(random, workflow.MaxReasonBytes)}
	for range workflow.MaxNamed {
		x.Dropped = append(x.Dropped, workflow.BlockedBy{Entity: workflow.EntityKey{Type: noise(random, 128), ID: noise(random, 128)}, Execution: uuid.NewString(), Epoch: 1 << 40, Since: time.Now()})
	}
	failed := workflow.NewPlaces(randomPlaces(random, workflow.MaxInlineSetBytes)...)
	x.Result = &workflow.Result{Sets: workflow.OutcomeSets{workflow.EntityFailedUnsafe: failed}, Count: map[workflow.EntityOutcome]int{workflow.EntityFailedUnsafe: failed.Len()}}
	for range workflow.MaxNamedFailures {
		x.Result.Named = append(x.Result.Named, workflow.EntityFailure{
			Entity: entity.String(), Outcome: workflow.EntityFailedUnsafe, Step: noise(random, 128), Code: noise(random, workflow.MaxFailureCode), Message: noise(random, workflow.MaxShortMessage),
		})
	}
	x.Undo = &workflow.Undo{Entities: workflow.NewPlaces(randomPlaces(random, 24<<10)...), StepRuns: []int{1, 2, 3}}
	for range workflow.MaxEarlierAcks + 2 {
		x.Acknowledged = x.Acknowledged.And(workflow.Acknowledgement{By: noise(random, 256), Reason: noise(random, workflow.MaxReasonBytes), At: time.Now(), Entities: new(1 << 30)})
	}
	x.LastEnd = &workflow.LastEnd{Unsafe: true, StartedAt: time.Now(), Result: x.Result} // a retry that never begins ends like the try before
	for range 10 {
		x.RerunBy = append(x.RerunBy, uuid.NewString())
	}
	scope := scopeAtMaximum(random)
	x.Scope, x.PastScopes = scope, map[int]workflow.Scope{}
	for try := range workflow.MaxTries {
		past := scopeAtMaximum(random)
		past.Counts = scope.Counts // the same selection again
		x.PastScopes[try] = past
	}
	x.Events = nil
	for i := range workflow.MaxInlineEvents {
		e := workflow.Event{Sequence: int64(i + 1), At: time.Now(), Layer: "step", Type: string(sm.EventStepExited), From: "RUNNING", To: "FAILED", Step: noise(random, 128), Actor: noise(random, 64), Data: json.RawMessage(`{"failed":1}`)}
		if i%10 == 0 { // every try has a command and other events
			e.Data = json.RawMessage(fmt.Sprintf(`{"reason":%q}`, noise(random, workflow.MaxReasonBytes)))
		}
		x.Events = append(x.Events, e)
	}
	for i := range workflow.MaxSignals {
		stored := workflow.NewPayloadRef([]byte(noise(random, 10)))
		s := workflow.Signal{
			ID: noise(random, workflow.MaxSignalID), Name: noise(random, workflow.MaxSignalName), At: time.Now(), By: noise(random, workflow.MaxSignalSender),
			Reason: noise(random, workflow.MaxSignalReason), Digest: workflow.SignalDigest("", nil), Order: 1<<40 + int64(i),
		}
		if i%2 == 0 {
			s.Data = json.RawMessage(noise(random, workflow.MaxInlineSignal))
		} else {
			s.Stored = &stored
		}
		x.Signals = append(x.Signals, s)
	}
	x.SignalOrder, x.HeardOut = 1<<41, 1<<40
	for range workflow.MaxHeard {
		x.Heard = append(x.Heard, workflow.SignalKey(noise(random, 10)))
	}
	for range workflow.MaxAwaitedSignals {
		x.AwaitedSignals = append(x.AwaitedSignals, noise(random, workflow.MaxSignalName))
	}
	for range workflow.MaxWaiters {
		x.Waiters = append(x.Waiters, uuid.NewString())
	}
}

func sizeOf(t *testing.T, x *workflow.Execution) int {
	t.Helper()
	it := stateItem(t, x)
	addSignals(x, it)
	it[attrHeard], it[attrHeardOut] = table.List(x.Heard...), table.N(x.HeardOut)
	if len(x.Waiters) > 0 {
		it[attrWaiters] = table.StringSet(x.Waiters...)
	}
	if x.FailureStreak != nil {
		raw, err := json.Marshal(x.FailureStreak)
		if err != nil {
			t.Fatal(err)
		}
		it[attrFailureStreak], it[attrFailureChange] = table.S(string(raw)), table.N(x.CreatedAt.UnixMilli())
	}
	return it.Size()
}

// Everything that grows in a state item besides its step runs fits into the space reserved for it.
func TestState_RoomHoldsEverythingElse(t *testing.T) {
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, seed))
		x := shortExecution()
		empty := sizeOf(t, x)
		addAtMaximum(random, x)
		grown := sizeOf(t, x) - empty
		t.Logf("seed %d: %d bytes", seed, grown)
		if grown > workflow.MaxItemBytes-workflow.MaxRollbackBytes {
			t.Errorf("seed %d: %d bytes beside the step runs, room is %d", seed, grown, workflow.MaxItemBytes-workflow.MaxRollbackBytes)
		}
	}
}

// boundedElsewhere are the fields of an execution that addAtMaximum leaves out, and why they
// cannot fill the item.
var boundedElsewhere = map[string]string{
	// Written before the first step run, which is entered only if the item has room then.
	"Tenant": "first", "ID": "first", "Workflow": "first", "Blocks": "first", "Workflows": "first", "Input": "first", "Parent": "first", "RerunOf": "first", "Key": "first", "Labels": "first",
	"CorrelationID": "first", "TraceParent": "first", "CreatedBy": "first", "Rollback": "first", "Timeout": "first", "Limits": "first", "Region": "first", "NotBefore": "first", "RateAt": "first", "KeyOwner": "first",
	// One number, time, flag, or word of a fixed list.
	"Schema": "one", "EngineVersion": "one", "State": "one", "Version": "one", "Epoch": "one", "Try": "one", "Commit": "one", "MinFencingToken": "one", "Probe": "one", "Hold": "one", "Stepping": "one",
	"NextSeq": "one", "CreatedAt": "one", "StartedAt": "one", "EndedAt": "one", "Conflicts": "one", "LockSince": "one", "LockMode": "one", "Unlocked": "one", "Narrowed": "one", "DroppedCount": "one",
	"Deadline": "one", "UpdatesApplied": "one", "Cursor": "one", "OnlyFailed": "one", "RollbackTries": "one", "Forced": "one", "WentBack": "one", "ResumeSeq": "one", "StepRunSeq": "one", "Announced": "one",
	"Piped": "one", "OnEnd": "first", "FollowUpOf": "first", "DueAt": "one", "DiscardedAt": "one", "Cause": "one", "RolledBack": "one", "Sequence": "one", "PagedThrough": "one", "IndexWrites": "one", "ItemBytes": "not stored",
	// What is added only while there is room for it.
	"StepRuns": "entered only below MaxRunningBytes, rolled back only below MaxRollbackBytes; lifecycle:TestDecide_RefusesAnswersWithoutRoom",
	"Threads":  "lifecycle:TestBoundFailures_OfBranches",
	"Kept":     "lifecycle:TestDecide_NamesEntitiesOnlyWhereThereIsRoom",
	// Small things of which there is one.
	"BlockedBy": "one entity", "Wait": "one wait", "Output": "a digest, or MaxInlineValueBytes", "Cost": "numbers", "KeptBranches": "branches of one step, at most MaxThreads",
}

// Every field of an execution is as large as it gets in the test above, or has another bound. A new
// field is in neither list, so that somebody has to decide.
func TestState_EveryFieldIsBounded(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var x workflow.Execution
	addAtMaximum(random, &x)
	v := reflect.ValueOf(x)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		_, elsewhere := boundedElsewhere[name]
		if grown := !v.Field(i).IsZero(); grown == elsewhere {
			t.Errorf("%s: at its maximum in addAtMaximum: %t, in boundedElsewhere: %t; want one of them", name, grown, elsewhere)
		}
	}
}

// Step runs take at most half of their JSON, as the decider assumes when it enters several at once,
// and their bounded failures take no more than what is reserved for them.
func TestState_StepRunsTakeHalfOfTheirJSON(t *testing.T) {
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, seed))
		x := shortExecution()
		x.StepRuns = nil
		empty := sizeOf(t, x)
		plain := 0
		for i := range 500 {
			r := workflow.StepRun{
				Seq: i + 1, Try: 1, StepIndex: i, Label: noise(random, 64), Ordinal: 1, Iteration: 1, Kind: workflow.JobExecute, Status: sm.StepRunning,
				EnteredAt: time.UnixMilli(random.Int64N(1 << 40)).UTC(), DispatchedAt: time.UnixMilli(random.Int64N(1 << 40)).UTC(),
				Block: noise(random, 64) + "/" + noise(random, 64) + ":1.0.0", Pool: noise(random, 32), Idempotent: true,
				Jobs: random.IntN(100_000), PackSize: 100, MaxAttempts: 3,
			}
			raw, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			plain += len(raw)
			x.StepRuns = append(x.StepRuns, r)
		}
		if grown := sizeOf(t, x) - empty; grown > plain/2 {
			t.Errorf("seed %d: step runs of %d bytes as JSON take %d", seed, plain, grown)
		}
	}
}
