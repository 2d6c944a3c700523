package dynamo

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// A tenant's schedules are one partition. The sparse index holds those that have
// a next moment, so that one item is all there is to write, and it moves in the
// index by itself.
func schedulesKey(tenant string) string { return table.TenantPrefix(tenant) + "schedules" }

func scheduleDueShard(tenant, name string) string {
	h := fnv.New32a()
	h.Write([]byte(tenant + "#" + name))
	return strconv.Itoa(int(h.Sum32() % topology.DueShards))
}

// attrEnabled marks a schedule that is not off.
const attrEnabled = "on"

// Schedule is a strongly consistent read.
func (r *Registry) Schedule(ctx context.Context, tenant, name string) (spec.Schedule, error) {
	it, err := r.t.Get(ctx, table.Key{PK: schedulesKey(tenant), SK: name})
	if err != nil || it == nil {
		return spec.Schedule{Tenant: tenant, Name: name}, err
	}
	return scheduleOf(it)
}

// PutSchedule replaces the schedule if its version is still the one given.
func (r *Registry) PutSchedule(ctx context.Context, s spec.Schedule) (bool, error) {
	seen := s.Version
	s.Version++
	plain, err := json.Marshal(s)
	if err != nil {
		return false, table.EncodeError(err)
	}
	it := table.Item{
		topology.AttrPK: table.S(schedulesKey(s.Tenant)), topology.AttrSK: table.S(s.Name),
		attrRegistryVersion: table.N(s.Version), attrRegistryDocument: table.B(table.Deflate.Compress(plain)),
	}
	if s.Cron != nil {
		it[attrEnabled] = table.True()
	}
	if due := topology.IndexScheduled; !s.NextAt.IsZero() {
		it[due.Partition], it[due.Sort] = table.S(scheduleDueShard(s.Tenant, s.Name)), table.N(s.NextAt.UnixMilli())
	}
	condition, with := table.IfAbsent, table.Item(nil)
	if seen > 0 {
		condition, with = "#version = :seen", table.Item{"seen": table.N(seen)}
	}
	ok, _, err := r.t.Put(ctx, it, condition, with)
	return ok, err
}

// Schedules lists a tenant's schedules that are not off, in order of name.
func (r *Registry) Schedules(ctx context.Context, tenant string, page workflow.Page) (workflow.List[spec.Schedule], error) {
	after, err := decodePageToken(page)
	if err != nil {
		return workflow.List[spec.Schedule]{}, err
	}
	pk := schedulesKey(tenant)
	rows := r.t.Query(ctx, table.Query{
		KeyCondition: "#pk = :pk", Values: table.Item{"pk": table.S(pk)}, StartAfter: startKeyAfter(pk, after), PageSize: pageLimit(page) + 1, Consistent: true,
	})
	enabled := func(yield func(table.Item, error) bool) {
		for it, err := range rows {
			if (err != nil || it.Has(attrEnabled)) && !yield(it, err) {
				return
			}
		}
	}
	return collectPage(enabled, pageLimit(page), scheduleOf)
}

func scheduleOf(it table.Item) (s spec.Schedule, err error) {
	return s, decodeDocument(it.Bytes(attrRegistryDocument), &s)
}

// DueSchedules lists schedules of one shard whose next moment has come by now. A
// page's token is the index key of the last one of the page before.
func (r *Registry) DueSchedules(ctx context.Context, shard int, now time.Time, page workflow.Page) (list workflow.List[spec.Schedule], err error) {
	index, limit := topology.IndexScheduled, pageLimit(page)
	after, err := scheduleDueStartKey(shard, page)
	if err != nil {
		return list, err
	}
	var last table.Item
	for it, err := range r.t.Query(ctx, table.Query{
		Index:        index.Name,
		KeyCondition: "#" + index.Partition + " = :shard AND #" + index.Sort + " <= :now",
		Values:       table.Item{"shard": table.S(strconv.Itoa(shard)), "now": table.N(now.UnixMilli())},
		StartAfter:   after,
		PageSize:     limit + 1,
	}) {
		if err != nil {
			return workflow.List[spec.Schedule]{}, err
		}
		if len(list.Items) == limit {
			list.NextToken = encodePageToken(strconv.FormatInt(last.Int(index.Sort), 10) + " " + last.Key().PK + " " + last.Key().SK)
			break
		}
		tenant, _, _ := strings.Cut(it.Key().PK, "#")
		list.Items = append(list.Items, spec.Schedule{Tenant: table.UnescapeTenant(tenant), Name: it.Key().SK})
		last = it
	}
	return list, nil
}

func scheduleDueStartKey(shard int, page workflow.Page) (table.Item, error) {
	if page.Token == "" {
		return nil, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(page.Token)
	parts := strings.SplitN(string(text), " ", 3)
	if err != nil || len(parts) != 3 {
		return nil, workflow.Errorf(workflow.CodeInvalid, "the page token is not one of ours")
	}
	at, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return nil, workflow.Errorf(workflow.CodeInvalid, "the page token is not one of ours")
	}
	after, index := table.Key{PK: parts[1], SK: parts[2]}.Attributes(), topology.IndexScheduled
	after[index.Partition], after[index.Sort] = table.S(strconv.Itoa(shard)), table.N(at)
	return after, nil
}
