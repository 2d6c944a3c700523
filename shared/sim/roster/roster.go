package roster

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Line makes one call of a world: perform is its whole effect.
type Line interface {
	Do(name string, perform func() error) error
}

// Book is the workers of a world, by tenant and id. Its world guards it.
type Book map[[2]string]*workflow.Worker

// Workers is the book as one piece of work sees it.
type Workers struct {
	Line   Line
	Book   Book
	Shards int
}

// Worker is a strongly consistent read; nil if absent.
func (w *Workers) Worker(_ context.Context, tenant, id string) (found *workflow.Worker, err error) {
	err = w.Line.Do("workers.worker", func() error {
		found = copied(w.Book[[2]string{tenant, id}])
		return nil
	})
	return found, err
}

func copied(w *workflow.Worker) *workflow.Worker {
	if w == nil {
		return nil
	}
	c := *w
	c.Blocks, c.Held = slices.Clone(w.Blocks), slices.Clone(w.Held)
	return &c
}

// Workers lists a tenant's workers in order of id.
func (w *Workers) Workers(_ context.Context, tenant string, page workflow.Page) (list workflow.List[workflow.Worker], err error) {
	err = w.Line.Do("workers.list", func() error {
		list, err = cut(w.sorted(func(one *workflow.Worker) (string, bool) {
			return one.ID, one.Tenant == tenant && one.State != statemachines.WorkerRemoved
		}), page)
		return err
	})
	return list, err
}

// DueWorkers lists workers of one shard that have to be looked at by now.
func (w *Workers) DueWorkers(_ context.Context, shard int, now time.Time, page workflow.Page) (list workflow.List[workflow.Worker], err error) {
	err = w.Line.Do("workers.due", func() error {
		list, err = cut(w.sorted(func(one *workflow.Worker) (string, bool) {
			h := fnv.New32a()
			h.Write([]byte(one.Tenant + "#" + one.ID))
			due := !one.DueAt.IsZero() && !one.DueAt.After(now) && int(h.Sum32()%uint32(w.Shards)) == shard
			return fmt.Sprintf("%015d %s %s", one.DueAt.UnixMilli(), one.Tenant, one.ID), due
		}), page)
		for i, one := range list.Items {
			list.Items[i] = workflow.Worker{Tenant: one.Tenant, ID: one.ID}
		}
		return err
	})
	return list, err
}

type placed struct {
	at  string
	one workflow.Worker
}

// sorted is what a list wants, in its order.
func (w *Workers) sorted(want func(*workflow.Worker) (at string, ok bool)) (all []placed) {
	for _, one := range w.Book {
		if at, ok := want(one); ok {
			all = append(all, placed{at, *copied(one)})
		}
	}
	slices.SortFunc(all, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	return all
}

func cut(all []placed, page workflow.Page) (list workflow.List[workflow.Worker], err error) {
	after, err := base64.RawURLEncoding.DecodeString(page.Token)
	if err != nil {
		return list, workflow.Errorf(workflow.CodeInvalid, "the page token is not one of ours")
	}
	limit := cmp.Or(page.Limit, workflow.DefaultPage)
	last := ""
	for _, p := range all {
		if len(after) > 0 && strings.Compare(p.at, string(after)) <= 0 {
			continue
		}
		if len(list.Items) == limit {
			list.Next = base64.RawURLEncoding.EncodeToString([]byte(last))
			break
		}
		list.Items, last = append(list.Items, p.one), p.at
	}
	return list, nil
}

// PutWorker replaces seen by next.
func (w *Workers) PutWorker(_ context.Context, seen, next *workflow.Worker) (ok bool, err error) {
	err = w.Line.Do("workers.put", func() error {
		key := [2]string{next.Tenant, next.ID}
		old := w.Book[key]
		if seen == nil {
			ok = old == nil
		} else {
			ok = old != nil && old.State == seen.State && old.Heard.Equal(seen.Heard)
		}
		if !ok {
			return nil
		}
		c := copied(next)
		if len(c.Held) > 0 && old != nil {
			c.Held = slices.Clone(old.Held)
		} else {
			c.Held = nil
		}
		w.Book[key] = c
		return nil
	})
	return ok, err
}

// Beat writes the time of a heartbeat of a worker that is ONLINE.
func (w *Workers) Beat(_ context.Context, tenant, id string, at time.Time, held []workflow.HeldPack) (ok bool, old *workflow.Worker, err error) {
	err = w.Line.Do("workers.beat", func() error {
		one := w.Book[[2]string{tenant, id}]
		if ok, old = one != nil && one.State == statemachines.WorkerOnline, nil; !ok {
			old = copied(one)
			return nil
		}
		one.Heard = at
		if held != nil {
			one.Held = nil
			for _, h := range held {
				hold(one, h)
			}
		}
		return nil
	})
	return ok, old, err
}

// Hold adds a pack to those that a worker holds.
func (w *Workers) Hold(_ context.Context, tenant, id string, pack workflow.HeldPack) error {
	return w.Line.Do("workers.hold", func() error {
		if one := w.Book[[2]string{tenant, id}]; one != nil {
			hold(one, pack)
		}
		return nil
	})
}

func hold(one *workflow.Worker, pack workflow.HeldPack) {
	if at, found := slices.BinarySearch(one.Held, pack); !found {
		one.Held = slices.Insert(one.Held, at, pack)
	}
}

// Drop takes one away.
func (w *Workers) Drop(_ context.Context, tenant, id string, pack workflow.HeldPack) error {
	return w.Line.Do("workers.drop", func() error {
		if one := w.Book[[2]string{tenant, id}]; one != nil {
			one.Held = slices.DeleteFunc(one.Held, func(h workflow.HeldPack) bool { return h == pack })
			if len(one.Held) == 0 {
				one.Held = nil
			}
		}
		return nil
	})
}
