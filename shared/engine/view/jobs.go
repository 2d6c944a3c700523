package view

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockstep-run/lockstep/shared/engine/view/attempts"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Jobs is a run's jobs, one for each attempt, in order of step run, entity and
// attempt. Jobs that nobody has claimed are listed too: they stand in the plan.
func (v *View) Jobs(ctx context.Context, c workflow.Caller, id string, f views.JobFilter, p workflow.Page) (workflow.List[workflow.Job], error) {
	var list workflow.List[workflow.Job]
	at, err := jobPosition(p)
	if err != nil {
		return list, err
	}
	i, err := v.engine.Inspect(ctx, c.Tenant, id)
	if err != nil {
		return list, err
	}
	x, limit, bytes, reads := i.Execution(), limitOf(p), 0, 0
	for n := range x.Runs {
		r := &x.Runs[n]
		if r.RunSeq < at.runSeq || !r.HasJobs() || r.Jobs == 0 || (f.Step != "" && f.Step != r.Label) || (f.Kind != "" && f.Kind != r.Kind) {
			continue
		}
		planned, err := i.Planned(ctx, r)
		if err != nil {
			return list, err
		}
		var all map[int][]attempts.Attempt
		for _, in := range planned {
			if r.RunSeq == at.runSeq && in.Index <= at.index || !concerns(f, in) {
				continue
			}
			if shard := in.Index / max(1, r.PackSize) / workflow.LanesPerShard; all == nil || shard != at.shard {
				if reads++; reads > shardReads {
					list.Next = tokenOf(at.String())
					return list, nil
				}
				packs, err := i.Shard(ctx, r, shard)
				if err != nil {
					return list, err
				}
				all, at.shard = attempts.Of(packs), shard
			}
			jobs := attempts.Jobs(x, r, in, all[in.Index])
			if f.State != "" {
				jobs = slices.DeleteFunc(jobs, func(j workflow.Job) bool { return j.State != f.State })
			}
			size := 0
			for n := range jobs {
				size += 400
				if a := attempts.Numbered(all[in.Index], jobs[n].Attempt); a != nil {
					size += sizeOf(a.Record)
				}
			}
			// All attempts of one job stand on one page.
			if len(list.Items) > 0 && (len(list.Items)+len(jobs) > limit || bytes+size > maxBytes) {
				list.Next = tokenOf(at.String())
				return list, nil
			}
			bytes += size
			for n := range jobs {
				if a := attempts.Numbered(all[in.Index], jobs[n].Attempt); a != nil && a.Record.Stored != nil {
					if jobs[n].Result, err = stored(ctx, i, a.Record.Stored.At(a.Pack.Key)); err != nil {
						return list, err
					}
				}
			}
			list.Items = append(list.Items, jobs...)
			at.runSeq, at.index = r.RunSeq, in.Index
		}
	}
	return list, nil
}

// shardReads bounds how many partitions of packs one answer reads; the page that
// it returns may then be short, or even empty, and its token goes on from there.
const shardReads = 2

func concerns(f views.JobFilter, in workflow.JobInput) bool {
	return f.Entity.ID == "" || in.Entity != nil && in.Entity.ID == f.Entity.ID && (f.Entity.Type == "" || in.Entity.Type == f.Entity.Type)
}

// jobAt is the last job that a page has looked at; shard is whose packs are at
// hand.
type jobAt struct{ runSeq, index, shard int }

func (a jobAt) String() string { return fmt.Sprintf("%d.%d", a.runSeq, a.index) }

func jobPosition(p workflow.Page) (jobAt, error) {
	at := jobAt{index: -1}
	if p.Token == "" {
		return at, nil
	}
	s, err := afterOf(p)
	if err != nil {
		return at, err
	}
	run, index, ok := strings.Cut(s, ".")
	if at.runSeq, err = strconv.Atoi(run); err != nil || !ok {
		return at, badToken()
	}
	if at.index, err = strconv.Atoi(index); err != nil {
		return at, badToken()
	}
	return at, nil
}
