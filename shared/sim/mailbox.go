package sim

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// signalSchema is the lowest version of the program that knows signals.
const signalSchema = 2

// SendSignal puts a signal into the mailbox of an execution. It takes more than one call only if
// consumed signals have left the state item.
func (s *Store) SendSignal(_ context.Context, tenant, id string, signal workflow.Signal) (workflow.SignalResult, sm.ExecutionState, error) {
	var heardOut int64
	for {
		old, err := call(s.conn, "store.send_signal", func(bool) (*workflow.Execution, error) { return s.send(tenant, id, signal, heardOut) })
		if err != nil {
			return "", "", err
		}
		switch {
		case old == nil:
			return workflow.SignalAccepted, "", nil
		case old.KnowsSignal(signal) != "":
			return old.KnowsSignal(signal), old.State, nil
		case old.HeardOut == heardOut:
			return old.RefusesSignal(signal), old.State, nil
		}
		heard, err := call(s.conn, "store.heard_signal", func(bool) (bool, error) {
			s.countReads(tableExecutions, 1)
			return s.item(tenant, id).heard[workflow.SignalKey(signal.ID)], nil
		})
		if err != nil {
			return "", "", err
		}
		if heard {
			return workflow.SignalDuplicate, old.State, nil
		}
		heardOut = old.HeardOut
	}
}

// send writes the signal, or returns the execution for which the condition does not hold.
func (s *Store) send(tenant, id string, signal workflow.Signal, heardOut int64) (*workflow.Execution, error) {
	s.countWrite(tableExecutions)
	e := s.item(tenant, id)
	if e == nil || e.x == nil {
		return nil, workflow.Errorf(workflow.CodeNotFound, "there is no execution %s", id)
	}
	x, err := s.decode(e)
	if err != nil || x.KnowsSignal(signal) != "" || x.HeardOut != heardOut || x.RefusesSignal(signal) != "" {
		return x, err
	}
	signal.Order = x.SignalOrder
	next := clone(e.x)
	next.Signals, next.SignalOrder, next.Schema = append(next.Signals, clone(signal)), x.SignalOrder+1, max(next.Schema, signalSchema)
	e.x = next
	return nil, nil
}

// hear stores which consumed signals leave the state item with a commit that consumes others.
func (s *Store) hear(next *workflow.Execution, o workflow.CommitOptions) error {
	_, left := next.HearSignals(o.Consumed)
	for _, key := range left {
		_, err := call(s.conn, "store.hear_signal", func(bool) (empty, error) {
			s.countWrite(tableExecutions)
			s.ensureItem(next.Tenant, next.ID).heard[key] = true
			return empty{}, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// keepMailbox gives the state that a commit writes the mailbox of the item, without what it
// consumes.
func keepMailbox(x, old *workflow.Execution, o workflow.CommitOptions) {
	x.Signals, x.SignalOrder, x.Schema = clone(old.Signals), old.SignalOrder, max(x.Schema, old.Schema)
	for _, id := range o.Consumed {
		n := len(x.Signals)
		if x.Signals = slices.DeleteFunc(x.Signals, func(s workflow.Signal) bool { return s.ID == id }); len(x.Signals) == n {
			panic(fmt.Errorf("sim: signal %q is consumed and not in the mailbox of %s", id, x.ID))
		}
	}
	heard, left := x.HearSignals(o.Consumed)
	x.Heard, x.HeardOut = heard, x.HeardOut+int64(len(left))
}

// SaveValue stores a value of an execution in an item of its own.
func (s *Store) SaveValue(_ context.Context, tenant, id, owner string, data []byte) (workflow.PayloadRef, error) {
	return call(s.conn, "store.save_value", func(bool) (workflow.PayloadRef, error) {
		ref := workflow.NewPayloadRef(data)
		s.countWrite(tableExecutions)
		s.ensureItem(tenant, id).values[valueName(owner, ref)] = slices.Clone(data)
		return ref, nil
	})
}

// LoadValue reads a value of an execution.
func (s *Store) LoadValue(_ context.Context, tenant, id, owner string, ref workflow.PayloadRef) ([]byte, error) {
	return call(s.conn, "store.load_value", func(bool) ([]byte, error) {
		s.countReads(tableExecutions, ref.Chunks)
		if e := s.item(tenant, id); e != nil {
			if data, ok := e.values[valueName(owner, ref)]; ok {
				return slices.Clone(data), nil
			}
		}
		return nil, workflow.Errorf(workflow.CodeNotFound, "value %s of execution %s is missing", ref.Digest, id)
	})
}

func valueName(owner string, ref workflow.PayloadRef) string { return owner + "#" + ref.Digest }
