package dynamo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Attributes of the state item that form its mailbox. Those of a signal are named by its key, see
// [workflow.SignalKey]. A signal writes them without changing the version.
const (
	prefixSignal      = "sg#"      // + key: the signal
	prefixSignalOrder = "so#"      // + key: its order
	attrSignalOrder   = "sigO"     // order of the next signal; it never decreases
	attrSignalCount   = "sigN"     // signals in the mailbox
	attrAwaited       = "sigW"     // names that open waits want
	attrHeard         = "heard"    // keys of consumed signals, oldest first: a list, because contains on a string finds substrings
	attrHeardOut      = "heardOut" // how many keys have left that list for items of their own
)

// Attributes of one signal.
const (
	attrSignalID     = "i"
	attrSignalName   = "n"
	attrSignalAt     = "a"
	attrSignalBy     = "b"
	attrSignalReason = "r"
	attrSignalDigest = "h"
	attrSignalData   = "d"
	attrSignalStored = "v" // digest of data that are stored separately
	attrSignalBytes  = "vb"
)

// maxSendRounds bounds the rounds of a send. Each but the first follows a commit that consumed
// signals.
const maxSendRounds = 10

// SendSignal puts a signal into the mailbox of an execution.
func (s *Store) SendSignal(ctx context.Context, tenant, id string, signal workflow.Signal) (workflow.SignalResult, statemachines.ExecutionState, error) {
	var heardOut int64
	for range maxSendRounds {
		ok, old, err := s.t.Update(ctx, sendUpdate(tenant, id, signal, heardOut))
		switch {
		case err != nil:
			return "", "", err
		case ok:
			return workflow.SignalAccepted, "", nil
		case old == nil:
			return "", "", workflow.Errorf(workflow.CodeNotFound, "there is no execution %s", id)
		}
		x, err := executionOf(old)
		if err != nil {
			return "", "", err
		}
		if known := x.KnowsSignal(signal); known != "" {
			return known, x.State, nil
		}
		if x.HeardOut == heardOut {
			return x.RefusesSignal(signal), x.State, nil
		}
		// Keys have left the list. This one may be among them, which must be read after heardOut:
		// the next write requires heardOut to be unchanged.
		it, err := s.t.Get(ctx, heardKey(tenant, id, workflow.SignalKey(signal.ID)))
		if err != nil {
			return "", "", err
		}
		if it != nil {
			return workflow.SignalDuplicate, x.State, nil
		}
		heardOut = x.HeardOut
	}
	return "", "", workflow.Errorf(workflow.CodeUnavailable, "execution %s consumes signals all the time: send it again", id)
}

// sendUpdate returns the write of a signal, on the condition that heardOut is unchanged. It makes
// the item unreadable for releases that do not know signals, because they would end the execution
// without having seen the signal.
func sendUpdate(tenant, id string, signal workflow.Signal, heardOut int64) table.Update {
	states, values := stateCondition(signal.AcceptedIn)
	conditions := []string{
		"attribute_exists(#pk)", states, "(attribute_not_exists(#schema) OR #schema <= :set_schema)",
		"attribute_not_exists(#sg)", "(attribute_not_exists(#heard) OR NOT contains(#heard, :key))",
		"(attribute_not_exists(#sigN) OR #sigN < :unawaited OR (#sigN < :max AND contains(#sigW, :name)))",
	}
	if heardOut == 0 {
		conditions = append(conditions, "attribute_not_exists(#heardOut)")
	} else {
		conditions = append(conditions, "#heardOut = :heardOut")
		values["heardOut"] = table.N(heardOut)
	}
	key := workflow.SignalKey(signal.ID)
	values["key"], values["name"] = table.S(key), table.S(signal.Name)
	values["unawaited"], values["max"] = table.N(workflow.MaxUnawaited), table.N(workflow.MaxSignals)
	values["zero"], values["one"], values["signal"] = table.N(0), table.N(1), signalValue(signal)
	return table.Update{
		Key: executionKey(tenant, id, skState),
		Set: table.Item{table.AttrSchema: table.N(workflow.SchemaVersion)},
		SetExpressions: []string{
			"#sg = :signal", "#so = if_not_exists(#sigO, :zero)",
			"#sigO = if_not_exists(#sigO, :zero) + :one", "#sigN = if_not_exists(#sigN, :zero) + :one",
		},
		Names:     map[string]string{"sg": prefixSignal + key, "so": prefixSignalOrder + key},
		Condition: strings.Join(conditions, " AND "), Values: values,
	}
}

// addMailbox adds to a commit what it changes in the mailbox. Keys that leave the list of recently
// consumed signals are first written to items of their own. They were consumed by earlier commits,
// so it does no harm if this commit fails.
func (s *Store) addMailbox(ctx context.Context, c *table.Update, next *workflow.Execution, o workflow.CommitOptions) (heard []string, heardOut int64, err error) {
	if len(next.AwaitedSignals) > 0 {
		c.Set[attrAwaited] = table.StringSet(next.AwaitedSignals...)
	} else {
		c.Remove = append(c.Remove, attrAwaited)
	}
	if o.SignalsSeen {
		if next.SignalOrder == 0 {
			c.Condition += " AND attribute_not_exists(#sigO)"
		} else {
			c.Condition += " AND #sigO = :signalOrder"
			c.Values["signalOrder"] = table.N(next.SignalOrder)
		}
	}
	if len(o.Consumed) == 0 {
		return next.Heard, next.HeardOut, nil
	}
	heard, left := next.HearSignals(o.Consumed)
	err = parallel.Each(ctx, chunkConcurrency, len(left), func(ctx context.Context, i int) error {
		_, _, err := s.t.Put(ctx, heardKey(next.Tenant, next.ID, left[i]).Attributes(), "", nil)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	c.Names = map[string]string{}
	for i, id := range o.Consumed {
		signal, order := fmt.Sprintf("sg%d", i), fmt.Sprintf("so%d", i)
		c.Names[signal], c.Names[order] = prefixSignal+workflow.SignalKey(id), prefixSignalOrder+workflow.SignalKey(id)
		c.Remove = append(c.Remove, signal, order)
	}
	c.SetExpressions = append(c.SetExpressions, "#sigN = #sigN - :consumed")
	c.Values["consumed"] = table.N(int64(len(o.Consumed)))
	c.Set[attrHeard] = table.List(heard...)
	if heardOut = next.HeardOut + int64(len(left)); heardOut > 0 {
		c.Set[attrHeardOut] = table.N(heardOut)
	}
	return heard, heardOut, nil
}

// addSignals adds the mailbox of an execution that is created with signals.
func addSignals(x *workflow.Execution, set table.Item) {
	if len(x.AwaitedSignals) > 0 {
		set[attrAwaited] = table.StringSet(x.AwaitedSignals...)
	}
	if len(x.Signals) == 0 {
		return
	}
	for _, signal := range x.Signals {
		key := workflow.SignalKey(signal.ID)
		set[prefixSignal+key], set[prefixSignalOrder+key] = signalValue(signal), table.N(signal.Order)
	}
	set[attrSignalOrder], set[attrSignalCount] = table.N(x.SignalOrder), table.N(int64(len(x.Signals)))
}

// readMailbox reads the mailbox of a state item, and returns its size in bytes.
func readMailbox(it table.Item, x *workflow.Execution) (size int) {
	for name := range it {
		key, isSignal := strings.CutPrefix(name, prefixSignal)
		if isSignal {
			signal := signalOf(it.Map(name))
			signal.Order = it.Int(prefixSignalOrder + key)
			x.Signals = append(x.Signals, signal)
		}
		if isSignal || strings.HasPrefix(name, prefixSignalOrder) || slices.Contains([]string{attrSignalOrder, attrSignalCount, attrAwaited, attrHeard, attrHeardOut}, name) {
			size += table.Item{name: it[name]}.Size()
		}
	}
	slices.SortFunc(x.Signals, func(a, b workflow.Signal) int { return cmp.Compare(a.Order, b.Order) })
	x.SignalOrder, x.Heard, x.HeardOut = it.Int(attrSignalOrder), it.List(attrHeard), it.Int(attrHeardOut)
	x.AwaitedSignals = it.StringSet(attrAwaited)
	slices.Sort(x.AwaitedSignals)
	return size
}

func signalValue(s workflow.Signal) table.Value {
	it := table.Item{attrSignalID: table.S(s.ID), attrSignalName: table.S(s.Name), attrSignalAt: table.N(table.Millis(s.At)), attrSignalDigest: table.S(s.Digest)}
	for name, text := range map[string]string{attrSignalBy: s.By, attrSignalReason: s.Reason, attrSignalData: string(s.Data)} {
		if text != "" {
			it[name] = table.S(text)
		}
	}
	if s.Stored != nil {
		it[attrSignalStored], it[attrSignalBytes] = table.S(s.Stored.Digest), table.N(int64(s.Stored.Bytes))
	}
	return table.M(it)
}

func signalOf(it table.Item) workflow.Signal {
	s := workflow.Signal{
		ID: it.Text(attrSignalID), Name: it.Text(attrSignalName), At: table.FromMillis(it.Int(attrSignalAt)), By: it.Text(attrSignalBy),
		Reason: it.Text(attrSignalReason), Digest: it.Text(attrSignalDigest),
	}
	if data := it.Text(attrSignalData); data != "" {
		s.Data = json.RawMessage(data)
	}
	if it.Has(attrSignalStored) {
		ref := workflow.PayloadRefOf(it.Text(attrSignalStored), int(it.Int(attrSignalBytes)))
		s.Stored = &ref
	}
	return s
}

// SaveValue stores a value of an execution in items of its own, by its content.
func (s *Store) SaveValue(ctx context.Context, tenant, id, owner string, data []byte) (workflow.PayloadRef, error) {
	ref := workflow.NewPayloadRef(data)
	return ref, putChunks(ctx, s.t, ref.Chunks,
		func(i int) table.Key { return valueKey(tenant, id, owner, ref, i) },
		func(i int) ([]byte, error) { return ref.Chunk(data, i), nil })
}

// LoadValue reads what [Store.SaveValue] stored.
func (s *Store) LoadValue(ctx context.Context, tenant, id, owner string, ref workflow.PayloadRef) ([]byte, error) {
	parts := make([][]byte, ref.Chunks)
	err := getChunks(ctx, s.t, fmt.Sprintf("value %s of execution %s", ref.Digest, id), ref.Chunks,
		func(i int) table.Key { return valueKey(tenant, id, owner, ref, i) },
		func(i int, it table.Item) (err error) {
			parts[i], err = table.Deflate.Decompress(it.Bytes(attrDocument))
			return err
		})
	if err != nil {
		return nil, err
	}
	data := slices.Concat(parts...)
	return data, ref.Verify(data)
}
