package dynamo

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Attributes of a lock item. It is never deleted. An exclusive lock has an owner,
// a shared one a mode and holders.
const (
	attrOwner          = "owner"
	attrOwnerEpoch     = "ownerEpoch"
	attrLockToken      = "token"
	attrRev            = "rev"
	attrLockedSince    = "since"
	attrReservation    = "res"
	attrReservationAge = "resAge"
	attrLockMode       = "mode"

	// Two maps by execution id: of {e: epoch, s: since} and of tokens. They are
	// two because a token is the revision that the same write makes, and a write
	// cannot compute inside a map that it adds.
	attrHolders     = "holders"
	attrTokens      = "tokens"
	attrHolderEpoch = "e"
	attrHolderSince = "s"
)

// Locks keeps the lock items.
type Locks struct{ t *table.Table }

// Read is strongly consistent.
func (l *Locks) Read(ctx context.Context, tenant string, keys []workflow.EntityKey) (map[workflow.EntityKey]workflow.Lock, error) {
	itemKeys := make([]table.Key, len(keys))
	for i, k := range keys {
		itemKeys[i] = lockKey(tenant, k)
	}
	items, err := l.t.GetMany(ctx, itemKeys, true)
	if err != nil {
		return nil, err
	}
	locks := make(map[workflow.EntityKey]workflow.Lock, len(keys))
	for i, k := range keys {
		it := items[itemKeys[i]]
		locks[k] = workflow.Lock{
			Entity: k,
			Owner:  it.Text(attrOwner), OwnerEpoch: it.Int(attrOwnerEpoch),
			Token: it.Int(attrLockToken), Revision: it.Int(attrRev), Since: it.Int(attrLockedSince),
			Mode: workflow.LockMode(it.Text(attrLockMode)), Holders: holdersOf(it),
			Reserver: it.Text(attrReservation), ReserverAge: it.Text(attrReservationAge),
		}
	}
	return locks, nil
}

func holdersOf(it table.Item) map[string]workflow.Holder {
	entries, tokens := it.Map(attrHolders), it.Map(attrTokens)
	if len(entries) == 0 {
		return nil
	}
	holders := make(map[string]workflow.Holder, len(entries))
	for id := range entries {
		h := entries.Map(id)
		holders[id] = workflow.Holder{Epoch: h.Int(attrHolderEpoch), Token: tokens.Int(id), Since: h.Int(attrHolderSince)}
	}
	return holders
}

// Take makes owner the only holder, at epoch, if the item's rev is still seen.
func (l *Locks) Take(ctx context.Context, tenant string, key workflow.EntityKey, owner string, epoch, seen int64, now time.Time) (bool, error) {
	c := table.Update{
		Key: lockKey(tenant, key),
		Set: table.Item{
			attrOwner: table.S(owner), attrOwnerEpoch: table.N(epoch),
			attrLockToken: table.N(seen + 1), attrRev: table.N(seen + 1), attrLockedSince: table.N(now.UnixMilli()),
		},
		Remove: []string{attrLockMode, attrHolders, attrTokens},
	}
	ifRevUnchanged(&c, seen)
	ok, old, err := l.t.Update(ctx, c)
	if ok || err != nil {
		return ok, err
	}
	// The very take that was asked for stands there: this call's own, whose reply
	// was lost, or that of another handler of the same run at the same epoch. The
	// run holds the entity either way. A reservation may have raised rev since.
	return old.Text(attrOwner) == owner && old.Int(attrOwnerEpoch) == epoch && old.Int(attrLockToken) == seen+1, nil
}

// ifRevUnchanged is the condition that the item is as it was read.
func ifRevUnchanged(c *table.Update, seen int64) {
	if seen == 0 {
		c.Condition = table.IfAbsent
		return
	}
	c.Condition, c.Values = "#rev = :seen", table.Item{"seen": table.N(seen)}
}

// Share makes the lock a shared one of keep and of s, if the item's rev is still
// seen.
func (l *Locks) Share(ctx context.Context, tenant string, key workflow.EntityKey, s workflow.LockRequest, keep map[string]workflow.Holder, seen int64) (int64, bool, error) {
	entries := table.Item{s.Execution: holderEntry(s.Epoch, s.Now.UnixMilli())}
	tokens := table.Item{s.Execution: table.N(seen + 1)}
	for id, h := range keep {
		if id != s.Execution {
			entries[id], tokens[id] = holderEntry(h.Epoch, h.Since), table.N(h.Token)
		}
	}
	c := table.Update{
		Key: lockKey(tenant, key),
		Set: table.Item{
			attrLockMode: table.S(string(workflow.LockShared)), attrHolders: table.M(entries), attrTokens: table.M(tokens),
			attrLockToken: table.N(seen + 1), attrRev: table.N(seen + 1), attrLockedSince: table.N(s.Now.UnixMilli()),
		},
		Remove: []string{attrOwner, attrOwnerEpoch},
	}
	ifRevUnchanged(&c, seen)
	ok, old, err := l.t.Update(ctx, c)
	if ok || err != nil {
		return seen + 1, ok, err
	}
	token, ok := heldToken(old, s)
	return token, ok, nil
}

func holderEntry(epoch, since int64) table.Value {
	return table.M(table.Item{attrHolderEpoch: table.N(epoch), attrHolderSince: table.N(since)})
}

// Join adds s to the holders of a shared lock, whatever its rev. What this rests
// on: rev is raised, so that no writer's take passes it by; an entry of a later
// epoch is never written over; and nobody is removed who was not read as dead at
// the epoch that still stands there.
func (l *Locks) Join(ctx context.Context, tenant string, key workflow.EntityKey, s workflow.LockRequest, j workflow.JoinConditions) (int64, bool, error) {
	c := table.Update{
		Key:            lockKey(tenant, key),
		Set:            table.Item{attrLockedSince: table.N(s.Now.UnixMilli())},
		SetExpressions: []string{"#holders.#me = :entry", "#tokens.#me = #rev + :one", "#token = #rev + :one", "#rev = #rev + :one"},
		Names:          map[string]string{"me": s.Execution},
		Condition: "#mode = :shared AND size(#holders) < :max" +
			" AND (attribute_not_exists(#holders.#me) OR #holders.#me.#e < :epoch)" +
			" AND (attribute_not_exists(#res) OR #resAge >= :age",
		Values: table.Item{
			"entry": holderEntry(s.Epoch, s.Now.UnixMilli()), "one": table.N(1), "shared": table.S(string(workflow.LockShared)),
			"max": table.N(workflow.MaxHolders), "epoch": table.N(s.Epoch), "age": table.S(j.Age),
		},
		Return: types.ReturnValueUpdatedNew,
	}
	if j.VoidReserver != "" {
		c.Condition += " OR #res = :void"
		c.Values["void"] = table.S(j.VoidReserver)
	}
	c.Condition += ")"
	n := 0
	for id, epoch := range j.DeadHolders {
		if id == s.Execution {
			continue
		}
		alias := fmt.Sprintf("dead%d", n)
		n++
		c.Names[alias], c.Values[alias] = id, table.N(epoch)
		c.Condition += fmt.Sprintf(" AND (attribute_not_exists(#holders.#%s) OR #holders.#%s.#e = :%s)", alias, alias, alias)
		c.Remove = append(c.Remove, attrHolders+".#"+alias, attrTokens+".#"+alias)
	}
	ok, answer, err := l.t.Update(ctx, c)
	if err != nil {
		return 0, false, err
	}
	if ok {
		return answer.Int(attrRev), true, nil
	}
	token, ok := heldToken(answer, s)
	return token, ok, nil
}

// heldToken is what s has of the lock already, by a call whose reply was lost or by
// another handler of the same run at the same epoch.
func heldToken(it table.Item, s workflow.LockRequest) (token int64, ok bool) {
	h, ok := holdersOf(it)[s.Execution]
	if !ok || h.Epoch != s.Epoch {
		return 0, false
	}
	return h.Token, true
}

// Reserve sets the reservation. It never depends on who holds the lock.
func (l *Locks) Reserve(ctx context.Context, tenant string, key workflow.EntityKey, r workflow.Reservation, void string) (bool, error) {
	c := table.Update{
		Key:       lockKey(tenant, key),
		Set:       table.Item{attrReservation: table.S(r.Execution), attrReservationAge: table.S(r.Age)},
		Add:       table.Item{attrRev: table.N(1)},
		Condition: "attribute_not_exists(#res) OR #resAge > :age",
		Values:    table.Item{"age": table.S(r.Age)},
	}
	if void != "" {
		c.Condition += " OR #res = :void"
		c.Values["void"] = table.S(void)
	}
	ok, old, err := l.t.Update(ctx, c)
	if ok || err != nil {
		return ok, err
	}
	return old.Text(attrReservation) == r.Execution, nil
}

// RaiseRevision sets an item's rev to floor, if it is still seen. A raise whose reply was
// lost is not told from another's: whoever asks reads the item again.
func (l *Locks) RaiseRevision(ctx context.Context, tenant string, key workflow.EntityKey, floor, seen int64) (bool, error) {
	if seen >= floor {
		return false, nil
	}
	c := table.Update{Key: lockKey(tenant, key), Set: table.Item{attrRev: table.N(floor)}}
	ifRevUnchanged(&c, seen)
	ok, _, err := l.t.Update(ctx, c)
	return ok, err
}
