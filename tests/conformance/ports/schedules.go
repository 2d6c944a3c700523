package ports

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Schedules checks a port.Schedules.
func Schedules(t *testing.T, open Open) {
	runParallel(t, open, map[string]func(s *fixture){
		"a schedule is written only at the version that was read": func(s *fixture) {
			one := s.newSchedule("fleet/night", time.Minute)
			if got := must[spec.Schedule](s)(s.Schedules.Schedule(s.ctx, s.tenant, one.Name)); !cmp.Equal(got, spec.Schedule{Tenant: s.tenant, Name: one.Name}) {
				s.Errorf("a schedule that was never written is %+v", got)
			}
			s.wantApplied(true)(s.Schedules.PutSchedule(s.ctx, one))
			s.wantApplied(false)(s.Schedules.PutSchedule(s.ctx, one))
			one.Version = 1
			if diff := cmp.Diff(one, must[spec.Schedule](s)(s.Schedules.Schedule(s.ctx, s.tenant, one.Name)), compareRawJSON); diff != "" {
				s.Error(diff)
			}
			one.FiringAt, one.LastExecution = baseTime, newID()
			s.wantApplied(true)(s.Schedules.PutSchedule(s.ctx, one))
			s.wantApplied(false)(s.Schedules.PutSchedule(s.ctx, one))
			one.Version = 2
			if diff := cmp.Diff(one, must[spec.Schedule](s)(s.Schedules.Schedule(s.ctx, s.tenant, one.Name)), compareRawJSON); diff != "" {
				s.Error(diff)
			}
			if got := must[spec.Schedule](s)(s.Schedules.Schedule(s.ctx, s.tenant+"2", one.Name)); got.Version != 0 {
				s.Errorf("another tenant sees %+v", got)
			}
		},
		"one of many concurrent writers succeeds": func(s *fixture) {
			s.oneWinner(func(int) (bool, error) { return s.Schedules.PutSchedule(s.ctx, s.newSchedule("fleet/night", 0)) })
		},
		"enabled schedules are listed": func(s *fixture) {
			for _, name := range []string{"b/b", "a/z", "b/a", "a/a", "off/off"} {
				one := s.newSchedule(name, time.Minute)
				if name == "off/off" {
					one.Cron, one.NextAt = nil, time.Time{}
				}
				s.wantApplied(true)(s.Schedules.PutSchedule(s.ctx, one))
			}
			for _, limit := range []int{1, 3, 4, 100} {
				var names []string
				for page := (workflow.Page{Limit: limit}); ; {
					l := must[workflow.List[spec.Schedule]](s)(s.Schedules.Schedules(s.ctx, s.tenant, page))
					for _, one := range l.Items {
						names = append(names, one.Name)
					}
					if page.Token = l.NextToken; page.Token == "" {
						break
					}
				}
				if diff := cmp.Diff([]string{"a/a", "a/z", "b/a", "b/b"}, names); diff != "" {
					s.Errorf("in pages of %d: %s", limit, diff)
				}
			}
		},
		"due schedules are found, the oldest first, until they move": func(s *fixture) {
			due := func(now time.Time, limit int) (names []string) {
				for shard := range topology.DueShards {
					last := time.Time{}
					for page := (workflow.Page{Limit: limit}); ; {
						l := must[workflow.List[spec.Schedule]](s)(s.Schedules.DueSchedules(s.ctx, shard, now, page))
						for _, one := range l.Items {
							if one.Tenant != s.tenant {
								continue // of another test
							}
							full := must[spec.Schedule](s)(s.Schedules.Schedule(s.ctx, s.tenant, one.Name))
							if full.NextAt.Before(last) {
								s.Errorf("%s is out of order", one.Name)
							}
							last = full.NextAt
							names = append(names, one.Name)
						}
						if page.Token = l.NextToken; page.Token == "" {
							break
						}
					}
				}
				return names
			}
			soon, later, off := s.newSchedule("a/soon", time.Minute), s.newSchedule("a/later", time.Hour), s.newSchedule("a/off", 0)
			off.NextAt = time.Time{}
			for _, one := range []spec.Schedule{soon, later, off} {
				s.wantApplied(true)(s.Schedules.PutSchedule(s.ctx, one))
			}
			for at, want := range map[time.Duration]int{0: 0, time.Minute: 1, time.Hour: 2} {
				if got := due(baseTime.Add(at), 1); len(got) != want {
					s.Errorf("at %s %v are due, want %d", at, got, want)
				}
			}
			soon.Version, soon.NextAt = 1, baseTime.Add(2*time.Hour)
			s.wantApplied(true)(s.Schedules.PutSchedule(s.ctx, soon))
			if diff := cmp.Diff([]string{"a/later"}, due(baseTime.Add(time.Hour), 10)); diff != "" {
				s.Error(diff)
			}
		},
	})
}

func (s *fixture) newSchedule(name string, in time.Duration) spec.Schedule {
	return spec.Schedule{
		Tenant: s.tenant, Name: name, Workflow: workflow.Ref{Package: "fleet", Name: "night", Version: "1.0.0"},
		Cron:   &spec.Cron{Schedule: "0 4 * * *", Zone: "Europe/Zurich", Parameters: json.RawMessage(`{"a":1}`)},
		NextAt: baseTime.Add(in), SkippedAt: baseTime, SkippedCount: 2,
	}
}
