package dynamo

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Attributes of a lock item, besides the token. The item is never deleted. An
// exclusive lock has an owner, a shared one a mode and holders.
const (
	attrOwner          = "owner"
	attrOwnerEpoch     = "ownerEpoch"
	attrRev            = "rev"
	attrLockedSince    = "since"
	attrReservation    = "res"
	attrReservationAge = "resAge"
	attrLockMode       = "mode"

	// The owner's place, {t: token, p: place}. It is valid only with the item's token: an older
	// release that takes the lock leaves it unchanged.
	attrPlace      = "place"
	attrPlaceToken = "t"

	// Two maps by execution id: {e: epoch, s: since, p: place}, and tokens. There are two because a
	// token is the revision that the same write makes, and a write cannot compute inside a map that
	// it adds.
	attrHolders     = "holders"
	attrTokens      = "tokens"
	attrHolderEpoch = "e"
	attrHolderSince = "s"
	attrHolderPlace = "p" // the same name in attrPlace

	// The last executions that took the lock, as text: under 640 bytes, so that an
	// exclusive lock item stays under 1 KB.
	attrRecent = "recent"
)

// Locks stores the lock items.
type Locks struct{ t *table.Table }

// Read reads lock items; a lock without an item is the zero lock.
func (l *Locks) Read(ctx context.Context, tenant string, keys []workflow.EntityKey, strong bool) (map[workflow.EntityKey]workflow.Lock, error) {
	itemKeys := make([]table.Key, len(keys))
	for i, k := range keys {
		itemKeys[i] = lockKey(tenant, k)
	}
	items, err := l.t.GetMany(ctx, itemKeys, strong)
	if err != nil {
		return nil, err
	}
	locks := make(map[workflow.EntityKey]workflow.Lock, len(keys))
	for i, k := range keys {
		it := items[itemKeys[i]]
		locks[k] = workflow.Lock{
			Entity: k,
			Owner:  it.Text(attrOwner), OwnerEpoch: it.Int(attrOwnerEpoch), Place: ownerPlace(it),
			Token: it.Int(attrToken), Revision: it.Int(attrRev), Since: it.Int(attrLockedSince),
			Mode: workflow.LockMode(it.Text(attrLockMode)), Holders: holdersOf(it),
			Reserver: it.Text(attrReservation), ReserverAge: it.Text(attrReservationAge),
			Recent: workflow.ParseRecentHolders(it.Text(attrRecent), it.Int(attrToken)),
		}
	}
	return locks, nil
}

func ownerPlace(it table.Item) int {
	if p := it.Map(attrPlace); it.Has(attrOwner) && p.Int(attrPlaceToken) == it.Int(attrToken) {
		return int(p.Int(attrHolderPlace))
	}
	return 0
}

func holdersOf(it table.Item) map[string]workflow.Holder {
	entries, tokens := it.Map(attrHolders), it.Map(attrTokens)
	if len(entries) == 0 {
		return nil
	}
	holders := make(map[string]workflow.Holder, len(entries))
	for id := range entries {
		h := entries.Map(id)
		holders[id] = workflow.Holder{Epoch: h.Int(attrHolderEpoch), Token: tokens.Int(id), Since: h.Int(attrHolderSince), Place: int(h.Int(attrHolderPlace))}
	}
	return holders
}

// Take makes r the exclusive holder if the item's rev is still seen.
func (l *Locks) Take(ctx context.Context, tenant string, key workflow.EntityKey, r workflow.LockRequest, seen int64) (bool, error) {
	c := table.Update{
		Key: lockKey(tenant, key),
		Set: table.Item{
			attrOwner: table.S(r.Execution), attrOwnerEpoch: table.N(r.Epoch),
			attrToken: table.N(seen + 1), attrRev: table.N(seen + 1), attrLockedSince: table.N(r.Now.UnixMilli()),
			attrPlace: table.M(table.Item{attrPlaceToken: table.N(seen + 1), attrHolderPlace: table.N(int64(r.Place))}),
		},
		Remove: []string{attrLockMode, attrHolders, attrTokens},
	}
	setRecent(&c, r.Recent)
	ifRevUnchanged(&c, seen)
	ok, old, err := l.t.Update(ctx, c)
	if ok || err != nil {
		return ok, err
	}
	// The item may already have this take: from this call, whose reply was lost, or from another
	// handler of the same execution at the same epoch. Either way the execution holds the entity. A
	// reservation may have raised rev since.
	return old.Text(attrOwner) == r.Execution && old.Int(attrOwnerEpoch) == r.Epoch && old.Int(attrToken) == seen+1, nil
}

// setRecent sets the recent holders of the item. The text is never empty.
func setRecent(c *table.Update, recent workflow.RecentHolders) {
	if len(recent) > 0 {
		c.Set[attrRecent] = table.S(recent.String())
	} else {
		c.Remove = append(c.Remove, attrRecent)
	}
}

// ifRevUnchanged sets the condition that the item has not changed since it was read.
func ifRevUnchanged(c *table.Update, seen int64) {
	if seen == 0 {
		c.Condition = table.IfAbsent
		return
	}
	c.Condition, c.Values = "#rev = :seen", table.Item{"seen": table.N(seen)}
}

// Share makes the lock a shared one, held by keep and by the requester, if the
// item's rev is still seen.
func (l *Locks) Share(ctx context.Context, tenant string, key workflow.EntityKey, r workflow.LockRequest, keep map[string]workflow.Holder, seen int64) (int64, bool, error) {
	entries := table.Item{r.Execution: holderEntry(workflow.Holder{Epoch: r.Epoch, Since: r.Now.UnixMilli(), Place: r.Place})}
	tokens := table.Item{r.Execution: table.N(seen + 1)}
	for id, h := range keep {
		if id != r.Execution {
			entries[id], tokens[id] = holderEntry(h), table.N(h.Token)
		}
	}
	c := table.Update{
		Key: lockKey(tenant, key),
		Set: table.Item{
			attrLockMode: table.S(string(workflow.LockShared)), attrHolders: table.M(entries), attrTokens: table.M(tokens),
			attrToken: table.N(seen + 1), attrRev: table.N(seen + 1), attrLockedSince: table.N(r.Now.UnixMilli()),
		},
		Remove: []string{attrOwner, attrOwnerEpoch, attrPlace},
	}
	setRecent(&c, r.Recent)
	ifRevUnchanged(&c, seen)
	ok, old, err := l.t.Update(ctx, c)
	if ok || err != nil {
		return seen + 1, ok, err
	}
	token, ok := heldToken(old, r)
	return token, ok, nil
}

func holderEntry(h workflow.Holder) table.Value {
	entry := table.Item{attrHolderEpoch: table.N(h.Epoch), attrHolderSince: table.N(h.Since)}
	if h.Place > 0 {
		entry[attrHolderPlace] = table.N(int64(h.Place))
	}
	return table.M(entry)
}

// Join adds the requester to the holders of a shared lock, whatever its rev. This is safe for three
// reasons: rev is raised, so that no exclusive take based on an older read succeeds; an entry with
// a later epoch is never overwritten; and a holder is removed only if it was read as dead at the
// epoch of its entry.
func (l *Locks) Join(ctx context.Context, tenant string, key workflow.EntityKey, r workflow.LockRequest, j workflow.JoinConditions) (int64, bool, error) {
	c := table.Update{
		Key:            lockKey(tenant, key),
		Set:            table.Item{attrLockedSince: table.N(r.Now.UnixMilli())},
		SetExpressions: []string{"#holders.#me = :entry", "#tokens.#me = #rev + :one", "#token = #rev + :one", "#rev = #rev + :one"},
		Names:          map[string]string{"me": r.Execution},
		Condition: "#mode = :shared AND size(#holders) < :max" +
			" AND (attribute_not_exists(#holders.#me) OR #holders.#me.#e < :epoch)" +
			" AND (attribute_not_exists(#res) OR #resAge >= :age",
		Values: table.Item{
			"entry": holderEntry(workflow.Holder{Epoch: r.Epoch, Since: r.Now.UnixMilli(), Place: r.Place}), "one": table.N(1), "shared": table.S(string(workflow.LockShared)),
			"max": table.N(int64(j.MaxHolders())), "epoch": table.N(r.Epoch), "age": table.S(j.Age),
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
		if id == r.Execution {
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
	token, ok := heldToken(answer, r)
	return token, ok, nil
}

// heldToken returns the token that the requester already has, from a call whose reply was lost or
// from another handler of the same execution at the same epoch.
func heldToken(it table.Item, r workflow.LockRequest) (token int64, ok bool) {
	h, ok := holdersOf(it)[r.Execution]
	if !ok || h.Epoch != r.Epoch {
		return 0, false
	}
	return h.Token, true
}

// Reserve sets the reservation, whoever holds the lock.
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

// RaiseRevision sets an item's rev to the given one if it is still seen. It does
// not recognise its own write after a lost reply: the caller reads the item again.
func (l *Locks) RaiseRevision(ctx context.Context, tenant string, key workflow.EntityKey, rev, seen int64) (bool, error) {
	if seen >= rev {
		return false, nil
	}
	c := table.Update{Key: lockKey(tenant, key), Set: table.Item{attrRev: table.N(rev)}}
	ifRevUnchanged(&c, seen)
	ok, _, err := l.t.Update(ctx, c)
	return ok, err
}

// Outdate increases an item's rev, whatever it is.
func (l *Locks) Outdate(ctx context.Context, tenant string, key workflow.EntityKey) error {
	_, _, err := l.t.Update(ctx, table.Update{Key: lockKey(tenant, key), Add: table.Item{attrRev: table.N(1)}})
	return err
}
