package dynamo

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// A tenant's triggers are one partition, and the calls of each trigger are another.
func triggerKey(tenant, name string) table.Key {
	return table.Key{PK: table.TenantPrefix(tenant) + "triggers", SK: name}
}

func triggerCallKey(tenant, name, key string) table.Key {
	return table.Key{PK: table.TenantPrefix(tenant) + "trigger#" + name, SK: key}
}

// callRetention is how long a call of a trigger is remembered unless another one replaces it.
const callRetention = 30 * 24 * time.Hour

// Trigger reads a trigger, strongly consistent.
func (r *Registry) Trigger(ctx context.Context, tenant, name string) (spec.PublishedTrigger, error) {
	t := spec.PublishedTrigger{Name: name}
	it, err := r.t.Get(ctx, triggerKey(tenant, name))
	if err != nil || it == nil {
		return t, err
	}
	return t, decodeDocument(it, &t)
}

// PutTrigger writes a trigger whose revision is still seen.
func (r *Registry) PutTrigger(ctx context.Context, tenant string, t spec.PublishedTrigger) (bool, error) {
	t.Revision++
	ok, same, err := putRevised(ctx, r.t, triggerKey(tenant, t.Name), t.Revision, t, nil)
	return ok || same, err
}

// Triggers lists all triggers of a tenant, strongly consistent.
func (r *Registry) Triggers(ctx context.Context, tenant string) ([]spec.PublishedTrigger, error) {
	return listDocuments[spec.PublishedTrigger](ctx, r.t, triggerKey(tenant, "").PK, workflow.MaxPageSize)
}

// PutTriggerCall remembers a call under a key.
func (r *Registry) PutTriggerCall(ctx context.Context, tenant, name, key string, c workflow.TriggerCall) error {
	doc, err := encodeDocument(c)
	if err != nil {
		return err
	}
	it := triggerCallKey(tenant, name, key).Attributes()
	it[attrDocument], it[topology.AttrTTL] = doc, table.N(c.At.Add(callRetention).Unix())
	_, _, err = r.t.Put(ctx, it, "", nil)
	return err
}

// TriggerCalls lists the calls of a trigger, the newest first.
func (r *Registry) TriggerCalls(ctx context.Context, tenant, name string) ([]workflow.TriggerCall, error) {
	list, err := listDocuments[workflow.TriggerCall](ctx, r.t, triggerCallKey(tenant, name, "").PK, workflow.MaxTriggerCalls+workflow.MaxRefusedMinutes)
	slices.SortStableFunc(list, func(a, b workflow.TriggerCall) int { return b.At.Compare(a.At) })
	return list, err
}

// Attributes of a rate: the time, in microseconds, at which all uses so far will have been made up
// for, and the number of uses.
const (
	attrFreeAt = "freeAt"
	attrTaken  = "taken"
)

// rateRetention is how long the item of a rate is kept after everything has been made up for. The
// calls of a trigger are stored by the number that its rate gave them, so the numbers must go on for
// as long as one of them is remembered: begun again, they would replace the newest calls first.
const rateRetention = callRetention + 24*time.Hour

// maxRateRounds bounds how often a call retries because others use the rate at the same time.
const maxRateRounds = 4

// TakeRate takes one use from a rate. The first write handles a rate with uses that have yet to be
// made up for; a rate in steady use needs no other. The second write handles any other rate. The
// item disappears some time after everything has been made up for.
func (r *Registry) TakeRate(ctx context.Context, tenant, name string, rate workflow.Rate, within time.Duration, now time.Time) (workflow.RateUse, error) {
	at, cost, all := now.UnixMicro(), rate.Each().Microseconds(), rate.Per.Microseconds()
	last := at + all + within.Microseconds() // latest time by which all uses, including this one, must be made up for
	ttl := table.N(time.UnixMicro(last).Add(rateRetention).Unix())
	u := table.Update{
		Key: table.Key{PK: table.TenantPrefix(tenant) + "rate#" + name, SK: "-"},
		Add: table.Item{attrTaken: table.N(1)}, Return: types.ReturnValueAllNew,
	}
	for range maxRateRounds {
		used, unused := u, u
		used.Set = table.Item{topology.AttrTTL: ttl}
		used.SetExpressions = []string{"#freeAt = #freeAt + :cost"}
		used.Condition = "#freeAt >= :now AND #freeAt <= :last"
		used.Values = table.Item{"now": table.N(at), "cost": table.N(cost), "last": table.N(last - cost)}
		ok, it, err := r.t.Update(ctx, used)
		if err == nil && !ok && it.Int(attrFreeAt) < at {
			unused.Set = table.Item{attrFreeAt: table.N(at + cost), topology.AttrTTL: ttl}
			unused.Condition, unused.Values = "attribute_not_exists(#freeAt) OR #freeAt < :now", table.Item{"now": table.N(at)}
			ok, it, err = r.t.Update(ctx, unused)
		}
		if err != nil {
			return workflow.RateUse{}, err
		}
		state := workflow.RateState{FreeAt: time.UnixMicro(it.Int(attrFreeAt))}
		if ok {
			state.Sequence = it.Int(attrTaken)
			return state.Use(rate, time.Duration(max(0, it.Int(attrFreeAt)-at-all))*time.Microsecond, time.UnixMicro(at)), nil
		}
		if free := it.Int(attrFreeAt) + cost; free > last {
			return state.Use(rate, time.Duration(free-at-all)*time.Microsecond, time.UnixMicro(at)), nil
		}
	}
	return workflow.RateUse{Rate: rate, Wait: within + rate.Each(), Reset: rate.Each()}, nil
}
