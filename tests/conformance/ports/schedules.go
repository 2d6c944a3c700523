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
	each(t, open, map[string]func(s *scene){
		"a schedule is written by who has read it last": func(s *scene) {
			one := s.schedule("fleet/night", time.Minute)
			if got := must[spec.Schedule](s)(s.Schedules.Schedule(s.ctx, s.tenant, one.Name)); !cmp.Equal(got, spec.Schedule{Tenant: s.tenant, Name: one.Name}) {
				s.Errorf("one that was never written is %+v", got)
			}
			s.want(true)(s.Schedules.PutSchedule(s.ctx, one))
			s.want(false)(s.Schedules.PutSchedule(s.ctx, one))
			one.Version = 1
			if diff := cmp.Diff(one, must[spec.Schedule](s)(s.Schedules.Schedule(s.ctx, s.tenant, one.Name)), byBytes); diff != "" {
				s.Error(diff)
			}
			one.Firing, one.Last = base, newID()
			s.want(true)(s.Schedules.PutSchedule(s.ctx, one))
			s.want(false)(s.Schedules.PutSchedule(s.ctx, one))
			one.Version = 2
			if diff := cmp.Diff(one, must[spec.Schedule](s)(s.Schedules.Schedule(s.ctx, s.tenant, one.Name)), byBytes); diff != "" {
				s.Error(diff)
			}
			if got := must[spec.Schedule](s)(s.Schedules.Schedule(s.ctx, s.tenant+"2", one.Name)); got.Version != 0 {
				s.Errorf("another tenant sees %+v", got)
			}
		},
		"one of many writers wins": func(s *scene) {
			s.oneWinner(func(int) (bool, error) { return s.Schedules.PutSchedule(s.ctx, s.schedule("fleet/night", 0)) })
		},
		"those that are on are listed": func(s *scene) {
			for _, name := range []string{"b/b", "a/z", "b/a", "a/a", "off/off"} {
				one := s.schedule(name, time.Minute)
				if name == "off/off" {
					one.Cron, one.NextAt = nil, time.Time{}
				}
				s.want(true)(s.Schedules.PutSchedule(s.ctx, one))
			}
			for _, limit := range []int{1, 3, 4, 100} {
				var names []string
				for page := (workflow.Page{Limit: limit}); ; {
					l := must[workflow.List[spec.Schedule]](s)(s.Schedules.Schedules(s.ctx, s.tenant, page))
					for _, one := range l.Items {
						names = append(names, one.Name)
					}
					if page.Token = l.Next; page.Token == "" {
						break
					}
				}
				if diff := cmp.Diff([]string{"a/a", "a/z", "b/a", "b/b"}, names); diff != "" {
					s.Errorf("by %d: %s", limit, diff)
				}
			}
		},
		"what is due is found, the oldest first, and once it has moved no more": func(s *scene) {
			due := func(now time.Time, limit int) (names []string) {
				for shard := range topology.DueShards {
					at := time.Time{}
					for page := (workflow.Page{Limit: limit}); ; {
						l := must[workflow.List[spec.Schedule]](s)(s.Schedules.DueSchedules(s.ctx, shard, now, page))
						for _, one := range l.Items {
							if one.Tenant != s.tenant {
								continue // of another test
							}
							full := must[spec.Schedule](s)(s.Schedules.Schedule(s.ctx, s.tenant, one.Name))
							if full.NextAt.Before(at) {
								s.Errorf("%s comes out of turn", one.Name)
							}
							at = full.NextAt
							names = append(names, one.Name)
						}
						if page.Token = l.Next; page.Token == "" {
							break
						}
					}
				}
				return names
			}
			soon, later, off := s.schedule("a/soon", time.Minute), s.schedule("a/later", time.Hour), s.schedule("a/off", 0)
			off.NextAt = time.Time{}
			for _, one := range []spec.Schedule{soon, later, off} {
				s.want(true)(s.Schedules.PutSchedule(s.ctx, one))
			}
			for at, want := range map[time.Duration]int{0: 0, time.Minute: 1, time.Hour: 2} {
				if got := due(base.Add(at), 1); len(got) != want {
					s.Errorf("at %s %v are due, want %d", at, got, want)
				}
			}
			soon.Version, soon.NextAt = 1, base.Add(2*time.Hour)
			s.want(true)(s.Schedules.PutSchedule(s.ctx, soon))
			if diff := cmp.Diff([]string{"a/later"}, due(base.Add(time.Hour), 10)); diff != "" {
				s.Error(diff)
			}
		},
	})
}

func (s *scene) schedule(name string, in time.Duration) spec.Schedule {
	return spec.Schedule{
		Tenant: s.tenant, Name: name, Workflow: workflow.Ref{Package: "fleet", Name: "night", Version: "1.0.0"},
		Cron:   &spec.Cron{Schedule: "0 4 * * *", Zone: "Europe/Zurich", Parameters: json.RawMessage(`{"a":1}`)},
		NextAt: base.Add(in), SkippedAt: base, Skipped: 2,
	}
}
