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
	attrOwner      = "owner"
	attrOwnerEpoch = "ownerEpoch"
	attrToken      = "token"
	attrRev        = "rev"
	attrSince      = "since"
	attrRes        = "res"
	attrResAge     = "resAge"
	attrMode       = "mode"

	// Two maps by execution id: of {e: epoch, s: since} and of tokens. They are
	// two because a token is the revision that the same write makes, and a write
	// cannot compute inside a map that it adds.
	attrHolders = "holders"
	attrTokens  = "tokens"
	holderEpoch = "e"
	holderSince = "s"
)

// Locks keeps the lock items.
type Locks struct{ t *table.Table }

// Read is strongly consistent.
func (l *Locks) Read(ctx context.Context, tenant string, keys []workflow.EntityKey) (map[workflow.EntityKey]workflow.Lock, error) {
	named := make([]table.Key, len(keys))
	for i, k := range keys {
		named[i] = lockKey(tenant, k)
	}
	items, err := l.t.GetMany(ctx, named, true)
	if err != nil {
		return nil, err
	}
	locks := make(map[workflow.EntityKey]workflow.Lock, len(keys))
	for i, k := range keys {
		it := items[named[i]]
		locks[k] = workflow.Lock{
			Entity: k,
			Owner:  it.Text(attrOwner), OwnerEpoch: it.Int(attrOwnerEpoch),
			Token: it.Int(attrToken), Rev: it.Int(attrRev), Since: it.Int(attrSince),
			Mode: workflow.LockMode(it.Text(attrMode)), Holders: holdersOf(it),
			Res: it.Text(attrRes), ResAge: it.Text(attrResAge),
		}
	}
	return locks, nil
}

func holdersOf(it table.Item) map[string]workflow.Holder {
	held, tokens := it.Map(attrHolders), it.Map(attrTokens)
	if len(held) == 0 {
		return nil
	}
	holders := make(map[string]workflow.Holder, len(held))
	for id := range held {
		h := held.Map(id)
		holders[id] = workflow.Holder{Epoch: h.Int(holderEpoch), Token: tokens.Int(id), Since: h.Int(holderSince)}
	}
	return holders
}

// Take makes owner the only holder, at epoch, if the item's rev is still seen.
func (l *Locks) Take(ctx context.Context, tenant string, key workflow.EntityKey, owner string, epoch, seen int64, now time.Time) (bool, error) {
	c := table.Change{
		Key: lockKey(tenant, key),
		Set: table.Item{
			attrOwner: table.S(owner), attrOwnerEpoch: table.N(epoch),
			attrToken: table.N(seen + 1), attrRev: table.N(seen + 1), attrSince: table.N(now.UnixMilli()),
		},
		Remove: []string{attrMode, attrHolders, attrTokens},
	}
	unchanged(&c, seen)
	ok, old, err := l.t.Update(ctx, c)
	if ok || err != nil {
		return ok, err
	}
	// The very take that was asked for stands there: this call's own, whose reply
	// was lost, or that of another handler of the same run at the same epoch. The
	// run holds the entity either way. A reservation may have raised rev since.
	return old.Text(attrOwner) == owner && old.Int(attrOwnerEpoch) == epoch && old.Int(attrToken) == seen+1, nil
}

// unchanged is the condition that the item is as it was read.
func unchanged(c *table.Change, seen int64) {
	if seen == 0 {
		c.If = table.IfAbsent
		return
	}
	c.If, c.With = "#rev = :seen", table.Item{"seen": table.N(seen)}
}

// Share makes the lock a shared one of keep and of s, if the item's rev is still
// seen.
func (l *Locks) Share(ctx context.Context, tenant string, key workflow.EntityKey, s workflow.Sharer, keep map[string]workflow.Holder, seen int64) (int64, bool, error) {
	held := table.Item{s.Execution: entry(s.Epoch, s.Now.UnixMilli())}
	tokens := table.Item{s.Execution: table.N(seen + 1)}
	for id, h := range keep {
		if id != s.Execution {
			held[id], tokens[id] = entry(h.Epoch, h.Since), table.N(h.Token)
		}
	}
	c := table.Change{
		Key: lockKey(tenant, key),
		Set: table.Item{
			attrMode: table.S(string(workflow.LockShared)), attrHolders: table.M(held), attrTokens: table.M(tokens),
			attrToken: table.N(seen + 1), attrRev: table.N(seen + 1), attrSince: table.N(s.Now.UnixMilli()),
		},
		Remove: []string{attrOwner, attrOwnerEpoch},
	}
	unchanged(&c, seen)
	ok, old, err := l.t.Update(ctx, c)
	if ok || err != nil {
		return seen + 1, ok, err
	}
	token, ok := partOf(old, s)
	return token, ok, nil
}

func entry(epoch, since int64) table.Value {
	return table.M(table.Item{holderEpoch: table.N(epoch), holderSince: table.N(since)})
}

// Join adds s to the holders of a shared lock, whatever its rev. What this rests
// on: rev is raised, so that no writer's take passes it by; an entry of a later
// epoch is never written over; and nobody is removed who was not read as dead at
// the epoch that still stands there.
func (l *Locks) Join(ctx context.Context, tenant string, key workflow.EntityKey, s workflow.Sharer, j workflow.Joining) (int64, bool, error) {
	c := table.Change{
		Key:    lockKey(tenant, key),
		Set:    table.Item{attrSince: table.N(s.Now.UnixMilli())},
		Within: []string{"#holders.#me = :entry", "#tokens.#me = #rev + :one", "#token = #rev + :one", "#rev = #rev + :one"},
		Named:  map[string]string{"me": s.Execution},
		If: "#mode = :shared AND size(#holders) < :max" +
			" AND (attribute_not_exists(#holders.#me) OR #holders.#me.#e < :epoch)" +
			" AND (attribute_not_exists(#res) OR #resAge >= :age",
		With: table.Item{
			"entry": entry(s.Epoch, s.Now.UnixMilli()), "one": table.N(1), "shared": table.S(string(workflow.LockShared)),
			"max": table.N(workflow.MaxHolders), "epoch": table.N(s.Epoch), "age": table.S(j.Age),
		},
		Return: types.ReturnValueUpdatedNew,
	}
	if j.Void != "" {
		c.If += " OR #res = :void"
		c.With["void"] = table.S(j.Void)
	}
	c.If += ")"
	n := 0
	for id, epoch := range j.Dead {
		if id == s.Execution {
			continue
		}
		dead := fmt.Sprintf("dead%d", n)
		n++
		c.Named[dead], c.With[dead] = id, table.N(epoch)
		c.If += fmt.Sprintf(" AND (attribute_not_exists(#holders.#%s) OR #holders.#%s.#e = :%s)", dead, dead, dead)
		c.Remove = append(c.Remove, attrHolders+".#"+dead, attrTokens+".#"+dead)
	}
	ok, answer, err := l.t.Update(ctx, c)
	if err != nil {
		return 0, false, err
	}
	if ok {
		return answer.Int(attrRev), true, nil
	}
	token, ok := partOf(answer, s)
	return token, ok, nil
}

// partOf is what s has of the lock already, by a call whose reply was lost or by
// another handler of the same run at the same epoch.
func partOf(it table.Item, s workflow.Sharer) (token int64, ok bool) {
	h, ok := holdersOf(it)[s.Execution]
	if !ok || h.Epoch != s.Epoch {
		return 0, false
	}
	return h.Token, true
}

// Reserve sets the reservation. It never depends on who holds the lock.
func (l *Locks) Reserve(ctx context.Context, tenant string, key workflow.EntityKey, r workflow.Reservation, void string) (bool, error) {
	c := table.Change{
		Key:  lockKey(tenant, key),
		Set:  table.Item{attrRes: table.S(r.Execution), attrResAge: table.S(r.Age)},
		Add:  table.Item{attrRev: table.N(1)},
		If:   "attribute_not_exists(#res) OR #resAge > :age",
		With: table.Item{"age": table.S(r.Age)},
	}
	if void != "" {
		c.If += " OR #res = :void"
		c.With["void"] = table.S(void)
	}
	ok, old, err := l.t.Update(ctx, c)
	if ok || err != nil {
		return ok, err
	}
	return old.Text(attrRes) == r.Execution, nil
}

// Raise sets an item's rev to floor, if it is still seen. A raise whose reply was
// lost is not told from another's: whoever asks reads the item again.
func (l *Locks) Raise(ctx context.Context, tenant string, key workflow.EntityKey, floor, seen int64) (bool, error) {
	if seen >= floor {
		return false, nil
	}
	c := table.Change{Key: lockKey(tenant, key), Set: table.Item{attrRev: table.N(floor)}}
	unchanged(&c, seen)
	ok, _, err := l.t.Update(ctx, c)
	return ok, err
}
