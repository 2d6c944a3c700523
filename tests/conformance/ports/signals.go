package ports

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Signals checks the mailboxes of a port.Store.
func Signals(t *testing.T, open Open) {
	runParallel(t, open, map[string]func(s *fixture){
		"signals are read with the execution, in the order in which they came": func(s *fixture) {
			x := s.createExecution(sm.ExecutionRunning)
			var want []workflow.Signal
			for i := range 12 {
				signal := newSignal(strconv.Itoa(12-i), "paid", fmt.Sprintf(`{"n":%d,"html":"<&>"}`, i))
				switch i {
				case 1:
					signal.Data, signal.Reason, signal.By = nil, "", ""
				case 2:
					ref := workflow.NewPayloadRef([]byte("{}"))
					signal.Data, signal.Stored = nil, &ref
				}
				s.wantSignal(x.ID, signal, workflow.SignalAccepted, "")
				signal.Order = int64(i)
				want = append(want, signal)
			}
			got := must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID))
			if diff := cmp.Diff(want, got.Signals, compareRawJSON); diff != "" || got.SignalOrder != 12 || got.Version != x.Version {
				s.Errorf("order %d, version %d: %s", got.SignalOrder, got.Version, diff)
			}
			many, _, err := s.Store.LoadMany(s.ctx, s.tenant, []string{x.ID})
			s.noError(err)
			if diff := cmp.Diff(got, many[0], compareRawJSON); diff != "" {
				s.Error(diff)
			}
			next, _ := s.commitState(x, sm.ExecutionWaiting, false) // x has been read before the signals came
			next.Signals, next.SignalOrder = got.Signals, 12
			s.wantSame(next, must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID)))
		},
		"an execution is created with signals": func(s *fixture) {
			x := s.newExecution(sm.ExecutionNew)
			signal := newSignal("k", "paid", `{"a":1}`)
			x.Signals, x.SignalOrder, x.AwaitedSignals = []workflow.Signal{signal}, 1, []string{"other", "paid"}
			s.wantApplied(true)(s.Store.Create(s.ctx, x))
			s.wantSame(x, must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID)))
			s.wantSignal(x.ID, signal, workflow.SignalDuplicate, sm.ExecutionNew)
			s.wantSignal(x.ID, newSignal("l", "paid", ""), workflow.SignalAccepted, "")
			x = s.consume(x.ID, sm.ExecutionRunning, "k", "l")
			s.wantSame(x, must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID)))
		},
		"a signal makes an item unreadable for who knows none": func(s *fixture) {
			x := s.newExecution(sm.ExecutionRunning)
			x.Schema = 1
			s.wantApplied(true)(s.Store.Create(s.ctx, x))
			x, _ = s.commitState(x, sm.ExecutionWaiting, false)
			s.wantSame(x, must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID))) // schema 1
			s.wantSignal(x.ID, newSignal("k", "paid", ""), workflow.SignalAccepted, "")
			s.commitState(x, sm.ExecutionRunning, false) // by a handler that has not seen the signal
			if got := must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID)); got.Schema != workflow.SchemaVersion || got.Needs() != workflow.SchemaVersion || len(got.Signals) != 1 {
				s.Errorf("schema %d, needs %d, %d signals", got.Schema, got.Needs(), len(got.Signals))
			}
		},
		"a newer schema and a missing execution accept no signal": func(s *fixture) {
			x := s.newExecution(sm.ExecutionRunning)
			x.Schema = workflow.SchemaVersion + 1
			s.wantApplied(true)(s.Store.Create(s.ctx, x))
			_, _, err := s.Store.SendSignal(s.ctx, s.tenant, x.ID, newSignal("k", "paid", ""))
			s.wantCode(err, workflow.CodeUnavailable)
			_, _, err = s.Store.SendSignal(s.ctx, s.tenant, newID(), newSignal("k", "paid", ""))
			s.wantCode(err, workflow.CodeNotFound)
		},
		"the state decides whether a new signal is accepted": func(s *fixture) {
			for _, state := range append(sm.ExecutionStates(), "HIBERNATING") {
				x := s.createExecution(state)
				forwarded := newSignal("f", "paid", "")
				forwarded.Forwarded = true
				if sm.AcceptsSignals(state) && !sm.ChecksIn(state) {
					s.wantSignal(x.ID, forwarded, workflow.SignalAccepted, "")
				} else {
					s.wantSignal(x.ID, forwarded, workflow.SignalRefused, state)
				}
				if sm.AcceptsSignals(state) {
					s.wantSignal(x.ID, newSignal("k", "paid", ""), workflow.SignalAccepted, "")
				} else {
					s.wantSignal(x.ID, newSignal("k", "paid", ""), workflow.SignalRefused, state)
				}
			}
		},
		"a duplicate is known after the end, and after it was consumed": func(s *fixture) {
			x := s.createExecution(sm.ExecutionWaiting)
			kept, consumed := newSignal("kept", "paid", `{"a":1}`), newSignal("consumed", "paid", `{"a":1}`)
			s.wantSignal(x.ID, kept, workflow.SignalAccepted, "")
			s.wantSignal(x.ID, consumed, workflow.SignalAccepted, "")
			s.wantSignal(x.ID, newSignal("kept", "paid", `{"a":2}`), workflow.SignalMismatch, sm.ExecutionWaiting)
			s.wantSignal(x.ID, newSignal("kept", "other", `{"a":1}`), workflow.SignalMismatch, sm.ExecutionWaiting)
			x = s.consume(x.ID, sm.ExecutionRunning, "consumed")
			s.wantSignal(x.ID, consumed, workflow.SignalDuplicate, sm.ExecutionRunning)
			for _, state := range []sm.ExecutionState{sm.ExecutionCompletedAck, sm.ExecutionError} {
				x, _ = s.commitState(x, state, false)
				s.wantSignal(x.ID, kept, workflow.SignalDuplicate, state)
				s.wantSignal(x.ID, consumed, workflow.SignalDuplicate, state)
				s.wantSignal(x.ID, newSignal("kept", "paid", ""), workflow.SignalMismatch, state)
				s.wantSignal(x.ID, newSignal("new", "paid", ""), workflow.SignalRefused, state)
			}
		},
		"a part of an id is another id": func(s *fixture) {
			x := s.createExecution(sm.ExecutionWaiting)
			s.wantSignal(x.ID, newSignal("abc", "paid", ""), workflow.SignalAccepted, "")
			x = s.consume(x.ID, sm.ExecutionRunning, "abc")
			s.wantSignal(x.ID, newSignal("ab", "paid", ""), workflow.SignalAccepted, "")
		},
		"a full mailbox keeps places for what is awaited": func(s *fixture) {
			x := s.createExecution(sm.ExecutionWaiting)
			next := nextVersion(x, sm.ExecutionWaiting)
			next.AwaitedSignals = []string{"paid"}
			_, ok, err := s.Store.Commit(s.ctx, x.Version, next, workflow.CommitOptions{})
			s.wantApplied(true)(ok, err)
			for i := range workflow.MaxUnawaited {
				s.wantSignal(x.ID, newSignal(strconv.Itoa(i), "ping", ""), workflow.SignalAccepted, "")
			}
			s.wantSignal(x.ID, newSignal("ping", "ping", ""), workflow.SignalLimit, sm.ExecutionWaiting)
			s.wantSignal(x.ID, newSignal("part", "pai", ""), workflow.SignalLimit, sm.ExecutionWaiting)
			for i := workflow.MaxUnawaited; i < workflow.MaxSignals; i++ {
				s.wantSignal(x.ID, newSignal(strconv.Itoa(i), "paid", ""), workflow.SignalAccepted, "")
			}
			s.wantSignal(x.ID, newSignal("paid", "paid", ""), workflow.SignalLimit, sm.ExecutionWaiting)
			s.wantSignal(x.ID, newSignal("0", "ping", ""), workflow.SignalDuplicate, sm.ExecutionWaiting) // however full
			s.wantSignal(x.ID, newSignal("0", "paid", ""), workflow.SignalMismatch, sm.ExecutionWaiting)

			// What is consumed makes room, for as many again, whatever has come meanwhile.
			x = s.consume(x.ID, sm.ExecutionWaiting, "0", "50")
			if len(x.AwaitedSignals) != 1 {
				s.Errorf("awaited: %v", x.AwaitedSignals)
			}
			s.wantSignal(x.ID, newSignal("a", "paid", ""), workflow.SignalAccepted, "")
			s.wantSignal(x.ID, newSignal("b", "paid", ""), workflow.SignalAccepted, "")
			s.wantSignal(x.ID, newSignal("c", "paid", ""), workflow.SignalLimit, sm.ExecutionWaiting)

			x = must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID)) // the wait ends
			next = nextVersion(x, sm.ExecutionWaiting)
			next.AwaitedSignals = nil
			_, ok, err = s.Store.Commit(s.ctx, x.Version, next, workflow.CommitOptions{Consumed: []string{"1"}})
			s.wantApplied(true)(ok, err)
			s.wantSignal(x.ID, newSignal("d", "paid", ""), workflow.SignalLimit, sm.ExecutionWaiting)
		},
		"a commit takes out what it consumes and keeps what has come meanwhile": func(s *fixture) {
			x := s.createExecution(sm.ExecutionWaiting)
			s.wantSignal(x.ID, newSignal("a", "paid", ""), workflow.SignalAccepted, "")
			x = must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID))
			s.wantSignal(x.ID, newSignal("b", "paid", ""), workflow.SignalAccepted, "") // after the read
			next := nextVersion(x, sm.ExecutionRunning)
			s.loseReply()
			_, ok, err := s.Store.Commit(s.ctx, x.Version, next, workflow.CommitOptions{Consumed: []string{"a"}})
			s.wantApplied(true)(ok, err)
			got := must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID))
			if len(got.Signals) != 1 || got.Signals[0].ID != "b" || !slices.Equal(got.Heard, []string{workflow.SignalKey("a")}) || !slices.Equal(got.Heard, next.Heard) || got.SignalOrder != 2 {
				s.Errorf("order %d, heard %v and %v, signals %+v", got.SignalOrder, got.Heard, next.Heard, got.Signals)
			}
			for i := range workflow.MaxUnawaited - 1 { // the count is right: 47 more have a place
				s.wantSignal(x.ID, newSignal(strconv.Itoa(i), "ping", ""), workflow.SignalAccepted, "")
			}
			s.wantSignal(x.ID, newSignal("one more", "ping", ""), workflow.SignalLimit, sm.ExecutionRunning)
		},
		"one of many concurrent commits consumes a signal": func(s *fixture) {
			x := s.createExecution(sm.ExecutionWaiting)
			s.wantSignal(x.ID, newSignal("a", "paid", ""), workflow.SignalAccepted, "")
			x = must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID))
			s.oneWinner(func(int) (bool, error) {
				_, ok, err := s.Store.Commit(s.ctx, x.Version, nextVersion(x, sm.ExecutionRunning), workflow.CommitOptions{Consumed: []string{"a"}})
				return ok, err
			})
		},
		"a signal is accepted once": func(s *fixture) {
			x := s.createExecution(sm.ExecutionWaiting)
			s.oneWinner(func(int) (bool, error) {
				result, _, err := s.Store.SendSignal(s.ctx, s.tenant, x.ID, newSignal("a", "paid", ""))
				if result != workflow.SignalAccepted && result != workflow.SignalDuplicate {
					s.Errorf("%s", result)
				}
				return result == workflow.SignalAccepted, err
			})
			s.loseReply()
			s.wantSignal(x.ID, newSignal("b", "paid", ""), workflow.SignalDuplicate, sm.ExecutionWaiting) // accepted by the first write
			if got := must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID)); len(got.Signals) != 2 || got.SignalOrder != 2 {
				s.Errorf("order %d, signals %+v", got.SignalOrder, got.Signals)
			}
		},
		"consumed signals are remembered for ever": func(s *fixture) {
			x := s.createExecution(sm.ExecutionWaiting)
			sent := 0
			for _, n := range []int{40, 40, 1, 48, 64} { // 193: 129 leave the state item
				var ids []string
				for range n {
					sent++
					id := fmt.Sprintf("s%d", sent)
					name := "ping"
					if len(ids) >= workflow.MaxUnawaited {
						name = "paid"
					}
					s.wantSignal(x.ID, newSignal(id, name, ""), workflow.SignalAccepted, "")
					ids = append(ids, id)
				}
				x = s.consume(x.ID, sm.ExecutionWaiting, ids...)
				x, _ = s.awaitSignals(x, "paid")
				if len(x.Heard) != min(sent, workflow.MaxHeard) || x.HeardOut != int64(max(0, sent-workflow.MaxHeard)) {
					s.Errorf("after %d: heard %d, out %d", sent, len(x.Heard), x.HeardOut)
				}
			}
			x, _ = s.commitState(x, sm.ExecutionWaiting, false) // one that consumes nothing keeps them
			s.wantSame(x, must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID)))
			for i := range sent {
				s.wantSignal(x.ID, newSignal(fmt.Sprintf("s%d", i+1), "ping", `"other content"`), workflow.SignalDuplicate, sm.ExecutionWaiting)
			}
			s.wantSignal(x.ID, newSignal("new", "ping", ""), workflow.SignalAccepted, "")
			x = must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID))
			s.commitState(x, sm.ExecutionCompleted, false)
			s.wantSignal(x.ID, newSignal("s1", "ping", ""), workflow.SignalDuplicate, sm.ExecutionCompleted)
			s.wantSignal(x.ID, newSignal("late", "ping", ""), workflow.SignalRefused, sm.ExecutionCompleted)
		},
		"an end depends on having seen every signal": func(s *fixture) {
			seen := workflow.CommitOptions{SignalsSeen: true}
			x := s.createExecution(sm.ExecutionRunning)
			x, _ = s.commitWith(x, sm.ExecutionRunning, seen, true) // none has ever come
			s.wantSignal(x.ID, newSignal("a", "paid", ""), workflow.SignalAccepted, "")
			s.commitWith(x, sm.ExecutionCompleted, seen, false)
			got := must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID))
			if got.Version != x.Version || got.SignalOrder != 1 {
				s.Errorf("version %d, order %d: the loss cannot be told from a race", got.Version, got.SignalOrder)
			}
			s.wantSignal(x.ID, newSignal("b", "paid", ""), workflow.SignalAccepted, "")
			s.commitWith(got, sm.ExecutionCompleted, seen, false)
			got = must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID))
			s.loseReply()
			next, _ := s.commitWith(got, sm.ExecutionCompleted, seen, true)
			s.wantSame(next, must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID))) // with both
		},
		"no accepted signal is unseen by the end": func(s *fixture) {
			x := s.createExecution(sm.ExecutionRunning)
			var mu sync.Mutex
			var accepted, atEnd []string
			s.race(func(i int) (bool, error) {
				if i == racers/2 {
					for {
						read, err := s.Store.Load(s.ctx, s.tenant, x.ID)
						if err != nil {
							return false, err
						}
						_, ok, err := s.Store.Commit(s.ctx, read.Version, nextVersion(read, sm.ExecutionCompleted), workflow.CommitOptions{SignalsSeen: true})
						if err != nil || !ok {
							if err != nil {
								return false, err
							}
							continue
						}
						for _, signal := range read.Signals {
							atEnd = append(atEnd, signal.ID)
						}
						return true, nil
					}
				}
				id := strconv.Itoa(i)
				result, _, err := s.Store.SendSignal(s.ctx, s.tenant, x.ID, newSignal(id, "paid", ""))
				mu.Lock()
				defer mu.Unlock()
				if result == workflow.SignalAccepted {
					accepted = append(accepted, id)
				}
				return false, err
			})
			s.wantSameSet(atEnd, accepted...)
		},
		"values are stored by their content": func(s *fixture) {
			id := newID()
			for _, n := range []int{0, 1, workflow.MaxSignalBytes, 700 << 10} {
				data := []byte(incompressible(n))
				ref := must[workflow.PayloadRef](s)(s.Store.SaveValue(s.ctx, s.tenant, id, workflow.ValueOfSignals, data))
				if again := must[workflow.PayloadRef](s)(s.Store.SaveValue(s.ctx, s.tenant, id, workflow.ValueOfSignals, data)); again != ref || ref.Bytes != n {
					s.Errorf("%d bytes: %+v, again %+v", n, ref, again)
				}
				if got := must[[]byte](s)(s.Store.LoadValue(s.ctx, s.tenant, id, workflow.ValueOfSignals, ref)); string(got) != string(data) {
					s.Errorf("%d bytes are read as %d", n, len(got))
				}
				for _, other := range []struct{ tenant, id, owner string }{{s.tenant + "2", id, workflow.ValueOfSignals}, {s.tenant, newID(), workflow.ValueOfSignals}, {s.tenant, id, "1"}} {
					_, err := s.Store.LoadValue(s.ctx, other.tenant, other.id, other.owner, ref)
					s.wantCode(err, workflow.CodeNotFound)
				}
			}
			_, err := s.Store.Load(s.ctx, s.tenant, id)
			s.wantCode(err, workflow.CodeNotFound)
		},
	})
}

// newSignal is a signal with a value in every field.
func newSignal(id, name, data string) workflow.Signal {
	return workflow.Signal{
		ID: id, Name: name, At: baseTime.Add(3 * time.Millisecond), By: "ann", Reason: "as agreed",
		Data: json.RawMessage(data), Digest: workflow.SignalDigest(name, json.RawMessage(data)),
	}
}

// wantSignal sends a signal and fails the test unless the result is as expected.
func (s *fixture) wantSignal(id string, signal workflow.Signal, want workflow.SignalResult, in sm.ExecutionState) {
	s.Helper()
	if len(signal.Data) == 0 {
		signal.Data = nil
	}
	got, state, err := s.Store.SendSignal(s.ctx, s.tenant, id, signal)
	if err != nil {
		s.Fatal(err)
	}
	if got != want || state != in {
		s.Fatalf("signal %s %q is %s in state %q, want %s in %q", signal.ID, signal.Name, got, state, want, in)
	}
}

// consume reads an execution and commits it without the signals.
func (s *fixture) consume(id string, to sm.ExecutionState, signals ...string) *workflow.Execution {
	s.Helper()
	x := must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, id))
	next, _ := s.commitWith(x, to, workflow.CommitOptions{Consumed: signals}, true)
	next.Signals = slices.DeleteFunc(next.Signals, func(signal workflow.Signal) bool { return slices.Contains(signals, signal.ID) })
	if len(next.Signals) == 0 {
		next.Signals = nil
	}
	return next
}

// awaitSignals commits x with a wait for signals of a name.
func (s *fixture) awaitSignals(x *workflow.Execution, names ...string) (*workflow.Execution, []string) {
	s.Helper()
	x = x.Clone()
	x.AwaitedSignals = names
	return s.commitWith(x, x.State, workflow.CommitOptions{}, true)
}

func (s *fixture) commitWith(x *workflow.Execution, to sm.ExecutionState, o workflow.CommitOptions, want bool) (*workflow.Execution, []string) {
	s.Helper()
	next := nextVersion(x, to)
	waiters, ok, err := s.Store.Commit(s.ctx, x.Version, next, o)
	s.wantApplied(want)(ok, err)
	return next, waiters
}
