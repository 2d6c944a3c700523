package sim

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// indexEntry is one execution in the indexes.
type indexEntry struct {
	tenant, id string
	listedAs   sm.ExecutionState // "" if the index of states leaves it out
	dueAt      time.Time
}

// indexEntries returns the entries of the indexes. A stale index shows each item as it was
// before its last change.
func (s *Store) indexEntries(stale bool) []indexEntry {
	var all []indexEntry
	for _, e := range s.w.executions {
		at := e.index
		if stale {
			at = e.before
		}
		if at.id != "" {
			all = append(all, at)
		}
	}
	return all
}

// DueExecutions lists executions whose timer has fired, oldest first.
func (s *Store) DueExecutions(_ context.Context, shard int, since, now time.Time, page workflow.Page) (workflow.List[workflow.Wakeup], error) {
	return call(s.conn, "store.due_executions", func(stale bool) (list workflow.List[workflow.Wakeup], err error) {
		due := s.indexEntries(stale)
		due = slices.DeleteFunc(due, func(e indexEntry) bool {
			return e.dueAt.IsZero() || e.dueAt.Before(since) || e.dueAt.After(now) || shardOf(e.id, s.w.Shards) != shard
		})
		slices.SortFunc(due, func(a, b indexEntry) int {
			return cmp.Or(a.dueAt.Compare(b.dueAt), strings.Compare(dueKey(a), dueKey(b)))
		})
		after, err := decodePageToken(page.Token)
		if err != nil {
			return list, err
		}
		for _, e := range due {
			switch {
			case after != "" && dueKey(e) <= after:
			case len(list.Items) == min(pageLimit(page), s.w.PageItems):
				list.NextToken = encodePageToken(after)
				return list, nil
			default:
				list.Items = append(list.Items, workflow.Wakeup{Tenant: e.tenant, Execution: e.id, Reason: "timer", DueAt: e.dueAt})
				after = dueKey(e)
			}
		}
		s.countReads(tableExecutions, len(list.Items))
		return list, nil
	})
}

// dueKey returns a text that sorts by due time.
func dueKey(e indexEntry) string {
	return fmt.Sprintf("%015d %s", e.dueAt.UnixMilli(), tenantKey(e.tenant, e.id))
}

// ListByState lists ids that the index lists at a state.
func (s *Store) ListByState(_ context.Context, tenant string, state sm.ExecutionState, from string, order workflow.Order, limit int) ([]string, error) {
	return call(s.conn, "store.list_by_state", func(stale bool) ([]string, error) {
		var ids []string
		for _, e := range s.indexEntries(stale) {
			if e.tenant == tenant && e.listedAs == state && (from == "" || order.Before(from, e.id)) {
				ids = append(ids, e.id)
			}
		}
		slices.Sort(ids)
		if order == workflow.OrderNewest {
			slices.Reverse(ids)
		}
		ids = ids[:min(limit, len(ids))]
		s.countReads(tableExecutions, len(ids))
		return ids, nil
	})
}

// ListUnlisted lists ids of executions that the index of states leaves out, by their timers.
func (s *Store) ListUnlisted(_ context.Context, tenant string, now time.Time) ([]string, error) {
	return call(s.conn, "store.list_unlisted", func(stale bool) (ids []string, err error) {
		for _, e := range s.indexEntries(stale) {
			if e.tenant == tenant && e.listedAs == "" && !e.dueAt.IsZero() && !e.dueAt.After(now.Add(workflow.UnlistedFor)) {
				ids = append(ids, e.id)
			}
		}
		slices.Sort(ids)
		s.countReads(tableExecutions, len(ids))
		return ids, nil
	})
}

// pageLimit returns the page's limit: the default if it is unset, at most MaxPageSize.
func pageLimit(p workflow.Page) int {
	if p.Limit <= 0 {
		return workflow.DefaultPageSize
	}
	return min(p.Limit, workflow.MaxPageSize)
}

// encodePageToken encodes the key after which the next page begins.
func encodePageToken(after string) string { return base64.RawURLEncoding.EncodeToString([]byte(after)) }

func decodePageToken(token string) (string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || token != encodePageToken(string(raw)) {
		return "", workflow.Errorf(workflow.CodeInvalid, "the page token is invalid: start again at the first page")
	}
	return string(raw), nil
}

// paginate returns one page of items that are sorted by key. A page holds at most
// maxPageBytes.
func paginate[T any](maxItems int, items []T, p workflow.Page, key func(T) string) (list workflow.List[T], err error) {
	after, err := decodePageToken(p.Token)
	if err != nil {
		return list, err
	}
	at := 0
	if p.Token != "" {
		at = slices.IndexFunc(items, func(i T) bool { return key(i) == after }) + 1
		if at == 0 {
			return list, workflow.Errorf(workflow.CodeInvalid, "the page token is invalid: start again at the first page")
		}
	}
	bytes := 0
	for _, i := range items[at:] {
		n := sizeOf(i)
		if len(list.Items) == min(pageLimit(p), maxItems) || (len(list.Items) > 0 && bytes+n > maxPageBytes) {
			list.NextToken = encodePageToken(key(list.Items[len(list.Items)-1]))
			break
		}
		bytes += n
		list.Items = append(list.Items, clone(i))
	}
	return list, nil
}

// keyed is an item with the key that sorts it.
type keyed[T any] struct {
	key  string
	item T
}

// paginateKeyed returns one page of items that are sorted by key. Unlike paginate it accepts a
// token whose item no longer exists.
func paginateKeyed[T any](all []keyed[T], page workflow.Page) (list workflow.List[T], err error) {
	after, err := base64.RawURLEncoding.DecodeString(page.Token)
	if err != nil {
		return list, workflow.Errorf(workflow.CodeInvalid, "the page token is invalid: start again at the first page")
	}
	limit, last := cmp.Or(page.Limit, workflow.DefaultPageSize), ""
	for _, k := range all {
		if len(after) > 0 && k.key <= string(after) {
			continue
		}
		if len(list.Items) == limit {
			list.NextToken = base64.RawURLEncoding.EncodeToString([]byte(last))
			break
		}
		list.Items, last = append(list.Items, k.item), k.key
	}
	return list, nil
}

// NextTimer returns when the next timer of any execution fires. No fault applies.
func (w *World) NextTimer() (at time.Time, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.executions {
		if due := e.index.dueAt; !due.IsZero() && (!ok || due.Before(at)) {
			at, ok = due, true
		}
	}
	return at, ok
}
