package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/lockstep-run/lockstep/shared/engine/planner"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fetchOutdated answers NeedOutdated for the draft of a new try, so that the request can be refused
// at once. This is only an early check: others may take the locks before the try does. What
// fetchLocks finds under the locks is decisive.
func (w *workspace) fetchOutdated(ctx context.Context, draft *workflow.Execution) error {
	tokens, err := w.lastTokens(ctx, draft, nil)
	if err != nil {
		return err
	}
	keys := make([]workflow.EntityKey, 0, len(tokens))
	for key := range tokens {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, workflow.EntityKey.Compare)
	items, err := w.ports.Locks.Read(ctx, w.tenant, keys, false)
	if err != nil {
		return err
	}
	recent := make(map[workflow.EntityKey]workflow.RecentHolders, len(items))
	for key, l := range items {
		recent[key] = l.Recent
	}
	found, err := w.outdated(ctx, draft, keys, recent)
	w.facts.Outdated = &lifecycle.Outdated{Entities: found}
	if lost := (*planner.WorkLostError)(nil); errors.As(err, &lost) {
		w.facts.Outdated.Lost, err = lost, nil
	}
	return err
}

// outdated returns the entities for which the try keeps results although another execution has held
// them exclusively since this one last did. recent lists the executions that took their locks most
// recently. If there are no others, nothing is read.
func (w *workspace) outdated(ctx context.Context, x *workflow.Execution, keys []workflow.EntityKey, recent map[workflow.EntityKey]workflow.RecentHolders) ([]lifecycle.OutdatedEntity, error) {
	restored := w.e.Policy.MinFencingToken
	if restored == 0 {
		keys = slices.DeleteFunc(slices.Clone(keys), func(key workflow.EntityKey) bool {
			others, all := recent[key].Since(x.ID, 0)
			return len(others) == 0 && all
		})
	}
	if len(keys) == 0 {
		return nil, nil
	}
	tokens, err := w.lastTokens(ctx, x, keys)
	if err != nil {
		return nil, err
	}
	type since struct {
		others []string
		all    bool
	}
	held := map[workflow.EntityKey]since{}
	var taken []workflow.EntityKey
	for _, key := range keys {
		token, known := tokens[key]
		if !known {
			continue
		}
		s := since{}
		s.others, s.all = recent[key].Since(x.ID, token)
		s.all = s.all && token >= restored // after a restore the list of holders is incomplete
		if len(s.others) > 0 || !s.all {
			held[key], taken = s, append(taken, key)
		}
	}
	if len(taken) == 0 {
		return nil, nil
	}
	p, err := w.ensurePlanner(ctx)
	if err != nil {
		return nil, err
	}
	kept, err := p.KeptResults(ctx, x, taken)
	if err != nil {
		return nil, err
	}
	var holders [][]string
	for _, key := range taken {
		if _, keeps := kept[key]; keeps {
			holders = append(holders, held[key].others)
		}
	}
	idle, err := w.idleHolders(ctx, holders)
	if err != nil {
		return nil, err
	}
	var found []lifecycle.OutdatedEntity
	for _, key := range taken {
		k, keeps := kept[key]
		by := slices.DeleteFunc(slices.Clone(held[key].others), func(id string) bool { return idle[id] })
		if keeps && (len(by) > 0 || !held[key].all) {
			found = append(found, lifecycle.OutdatedEntity{Entity: key, By: by, Kept: k})
		}
	}
	return found, nil
}

// maxHoldersRead bounds how many executions are read to find out whether they have changed
// anything; any others are assumed to have. holdersAtOnce is how many are loaded at a time, since
// each is loaded whole.
const (
	maxHoldersRead = 20
	holdersAtOnce  = 10
)

// idleHolders returns the executions that exist and have executed only pure steps: for
// example one that gave up before it had all its locks, or that only looked. holders lists the
// executions for each entity; a list is read only up to the first execution that has changed
// something.
func (w *workspace) idleHolders(ctx context.Context, holders [][]string) (map[string]bool, error) {
	idle, read := map[string]bool{}, 0 // false: it has been read and may have changed something
	for read < maxHoldersRead {
		var next []string
		for _, ids := range holders {
			first := slices.IndexFunc(ids, func(id string) bool { return !idle[id] })
			if first < 0 {
				continue
			}
			if _, known := idle[ids[first]]; !known && !slices.Contains(next, ids[first]) {
				next = append(next, ids[first])
			}
			if len(next) == min(holdersAtOnce, maxHoldersRead-read) {
				break
			}
		}
		if len(next) == 0 {
			break
		}
		others, _, err := w.ports.Store.LoadMany(ctx, w.tenant, next)
		if err != nil {
			return nil, err
		}
		for _, id := range next {
			idle[id] = false
		}
		for _, o := range others {
			idle[o.ID] = o.DiscardedAt.IsZero() && !slices.ContainsFunc(o.StepRuns, func(r workflow.StepRun) bool {
				return r.HasUpdates || (r.HasJobs() || r.Child != nil) && !r.Pure
			})
		}
		read += len(next)
	}
	return idle, nil
}

// lastTokens returns the last token with which earlier tries held each entity. It covers all
// entities of the last try that got its locks and, for keys, also those of tries before it. An
// entity that was released early has the token of its lock, too.
func (w *workspace) lastTokens(ctx context.Context, x *workflow.Execution, keys []workflow.EntityKey) (map[workflow.EntityKey]int64, error) {
	tokens := map[workflow.EntityKey]int64{}
	unknown := func(key workflow.EntityKey) bool { return tokens[key] == 0 }
	for try := x.Try - 1; try > 0 && (len(tokens) == 0 || slices.ContainsFunc(keys, unknown)); try-- {
		entities, err := w.loadAllEntities(ctx, x.PastScopes[try])
		if err != nil {
			return nil, err
		}
		for _, e := range entities {
			if e.Token > 0 && unknown(e.Key) { // without a token the lock was requested but not acquired
				tokens[e.Key] = e.Token
			}
		}
	}
	return tokens, nil
}
