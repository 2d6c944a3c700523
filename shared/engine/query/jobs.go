package query

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Jobs is a run's jobs, one for each attempt, in order of step run, entity and
// attempt. Jobs that nobody has claimed are listed too: they stand in the plan.
func (v *Service) Jobs(ctx context.Context, c workflow.Caller, id string, f views.JobFilter, p workflow.Page) (workflow.List[workflow.Job], error) {
	var list workflow.List[workflow.Job]
	at, err := parseJobToken(p)
	if err != nil {
		return list, err
	}
	i, err := v.engine.Inspect(ctx, c.Tenant, id)
	if err != nil {
		return list, err
	}
	x, limit, bytes, reads := i.Execution(), pageLimit(p), 0, 0
	for n := range x.StepRuns {
		r := &x.StepRuns[n]
		if r.Seq < at.stepRunSeq || !r.HasJobs() || r.Jobs == 0 || (f.Step != "" && f.Step != r.Label) || (f.Kind != "" && f.Kind != r.Kind) {
			continue
		}
		planned, err := i.PlannedJobs(ctx, r)
		if err != nil {
			return list, err
		}
		var all map[int][]attempt
		for _, in := range planned {
			if r.Seq == at.stepRunSeq && in.Index <= at.index || !matchesEntity(f, in) {
				continue
			}
			if shard := in.Index / max(1, r.PackSize) / workflow.LanesPerShard; all == nil || shard != at.shard {
				if reads++; reads > maxShardReads {
					list.NextToken = encodePageToken(at.String())
					return list, nil
				}
				packs, err := i.ShardPacks(ctx, r, shard)
				if err != nil {
					return list, err
				}
				all, at.shard = attemptsByJob(packs), shard
			}
			jobs := jobAttempts(x, r, in, all[in.Index])
			if f.State != "" {
				jobs = slices.DeleteFunc(jobs, func(j workflow.Job) bool { return j.State != f.State })
			}
			size := 0
			for n := range jobs {
				size += 400
				if a := findAttempt(all[in.Index], jobs[n].Attempt); a != nil {
					size += resultBytes(a.Record)
				}
			}
			// All attempts of one job stand on one page.
			if len(list.Items) > 0 && (len(list.Items)+len(jobs) > limit || bytes+size > maxPageBytes) {
				list.NextToken = encodePageToken(at.String())
				return list, nil
			}
			bytes += size
			for n := range jobs {
				if a := findAttempt(all[in.Index], jobs[n].Attempt); a != nil && a.Record.ResultRef != nil {
					if jobs[n].Result, err = loadStoredResult(ctx, i, a.Record.ResultRef.InPack(a.Pack.Key)); err != nil {
						return list, err
					}
				}
			}
			list.Items = append(list.Items, jobs...)
			at.stepRunSeq, at.index = r.Seq, in.Index
		}
	}
	return list, nil
}

// maxShardReads bounds how many partitions of packs one answer reads; the page that
// it returns may then be short, or even empty, and its token goes on from there.
const maxShardReads = 2

func matchesEntity(f views.JobFilter, in workflow.JobInput) bool {
	return f.Entity.ID == "" || in.Entity != nil && in.Entity.ID == f.Entity.ID && (f.Entity.Type == "" || in.Entity.Type == f.Entity.Type)
}

// jobCursor is the last job that a page has looked at; shard is whose packs are at
// hand.
type jobCursor struct{ stepRunSeq, index, shard int }

func (a jobCursor) String() string { return fmt.Sprintf("%d.%d", a.stepRunSeq, a.index) }

func parseJobToken(p workflow.Page) (jobCursor, error) {
	at := jobCursor{index: -1}
	if p.Token == "" {
		return at, nil
	}
	s, err := decodePageToken(p)
	if err != nil {
		return at, err
	}
	seq, index, ok := strings.Cut(s, ".")
	if at.stepRunSeq, err = strconv.Atoi(seq); err != nil || !ok {
		return at, invalidPageToken()
	}
	if at.index, err = strconv.Atoi(index); err != nil {
		return at, invalidPageToken()
	}
	return at, nil
}
