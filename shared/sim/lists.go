package sim

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/replica"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// entry is one execution in the indexes.
type entry struct {
	tenant, id string
	state      sm.ExecutionState
	dueAt      time.Time
}

// indexed is what the indexes say; a stale one answers as before the last change
// of each item.
func (s *Store) indexed(stale bool) []entry {
	var all []entry
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

// Due lists executions whose alarm has rung, oldest first.
func (s *Store) Due(_ context.Context, shard int, since, now time.Time, page workflow.Page) (workflow.List[workflow.Look], error) {
	return call(s.line, "store.due", func(stale bool) (list workflow.List[workflow.Look], err error) {
		due := s.indexed(stale)
		due = slices.DeleteFunc(due, func(e entry) bool {
			return e.dueAt.IsZero() || e.dueAt.Before(since) || e.dueAt.After(now) || shardOf(e.id, s.w.Shards) != shard
		})
		slices.SortFunc(due, func(a, b entry) int {
			return cmp.Or(a.dueAt.Compare(b.dueAt), strings.Compare(dueText(a), dueText(b)))
		})
		after, err := afterOf(page.Token)
		if err != nil {
			return list, err
		}
		for _, e := range due {
			switch {
			case after != "" && dueText(e) <= after:
			case len(list.Items) == limitOf(page):
				list.Next = tokenOf(after)
				return list, nil
			default:
				list.Items = append(list.Items, workflow.Look{Tenant: e.tenant, Execution: e.id, Why: "alarm", DueAt: e.dueAt})
				after = dueText(e)
			}
		}
		s.reads(tableExecutions, len(list.Items))
		return list, nil
	})
}

// dueText orders alarms as text.
func dueText(e entry) string {
	return fmt.Sprintf("%015d %s", e.dueAt.UnixMilli(), within(e.tenant, e.id))
}

// Listed lists ids in a state, newest first.
func (s *Store) Listed(_ context.Context, tenant string, state sm.ExecutionState, below string, limit int) ([]string, error) {
	return call(s.line, "store.listed", func(stale bool) ([]string, error) {
		var ids []string
		for _, e := range s.indexed(stale) {
			if e.tenant == tenant && e.state == state && (below == "" || e.id < below) {
				ids = append(ids, e.id)
			}
		}
		slices.Sort(ids)
		slices.Reverse(ids)
		ids = ids[:min(limit, len(ids))]
		s.reads(tableExecutions, len(ids))
		return ids, nil
	})
}

// limitOf is a page's limit within its bounds.
func limitOf(p workflow.Page) int {
	if p.Limit <= 0 {
		return workflow.DefaultPage
	}
	return min(p.Limit, workflow.MaxPage)
}

// A token is the position after which the next page begins.
func tokenOf(after string) string { return base64.RawURLEncoding.EncodeToString([]byte(after)) }

func afterOf(token string) (string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || token != tokenOf(string(raw)) {
		return "", workflow.Errorf(workflow.CodeInvalid, "the page token is not one of ours")
	}
	return string(raw), nil
}

// paged cuts a page out of items that are in the order of key, and bounds it by
// its bytes too.
func paged[T any](items []T, p workflow.Page, key func(T) string) (list workflow.List[T], err error) {
	after, err := afterOf(p.Token)
	if err != nil {
		return list, err
	}
	at := 0
	if p.Token != "" {
		at = slices.IndexFunc(items, func(i T) bool { return key(i) == after }) + 1
		if at == 0 {
			return list, workflow.Errorf(workflow.CodeInvalid, "the page token is not one of ours")
		}
	}
	bytes := 0
	for _, i := range items[at:] {
		n := replica.Weight(i)
		if len(list.Items) == limitOf(p) || (len(list.Items) > 0 && bytes+n > pageBytes) {
			list.Next = tokenOf(key(list.Items[len(list.Items)-1]))
			break
		}
		bytes += n
		list.Items = append(list.Items, replica.Of(i))
	}
	return list, nil
}

// NextAlarm is when the next alarm of any execution rings, read past all faults.
func (w *World) NextAlarm() (at time.Time, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.executions {
		if due := e.index.dueAt; !due.IsZero() && (!ok || due.Before(at)) {
			at, ok = due, true
		}
	}
	return at, ok
}
