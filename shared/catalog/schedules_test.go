package catalog_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

type scheduleStore = catalog.Schedules // a field of its name would hide its method

// scheduleCalls counts the reads of the version index and of schedules, and lets a test step in before a write.
type scheduleCalls struct {
	catalog.Registry
	scheduleStore
	indexReads, scheduleReads int
	beforePut                 func(spec.Schedule)
}

func (s *scheduleCalls) VersionIndex(ctx context.Context, tenant string, kind workflow.VersionKind, name string) (workflow.VersionIndex, error) {
	s.indexReads++
	return s.Registry.VersionIndex(ctx, tenant, kind, name)
}

func (s *scheduleCalls) Schedule(ctx context.Context, tenant, name string) (spec.Schedule, error) {
	s.scheduleReads++
	return s.scheduleStore.Schedule(ctx, tenant, name)
}

func (s *scheduleCalls) PutSchedule(ctx context.Context, one spec.Schedule) (bool, error) {
	if s.beforePut != nil {
		s.beforePut(one)
	}
	return s.scheduleStore.PutSchedule(ctx, one)
}

// scheduledCatalog is a catalog whose calls about schedules are counted, and a second one beside it.
type scheduledCatalog struct {
	*testing.T
	*catalog.Catalog
	calls  *scheduleCalls
	beside *catalog.Catalog
}

func newScheduledCatalog(t *testing.T) *scheduledCatalog {
	w := sim.New(1)
	s := &scheduledCatalog{T: t, calls: &scheduleCalls{}}
	s.Catalog = catalog.New(func() catalog.Ports {
		v := w.Open()
		s.calls.Registry, s.calls.scheduleStore = v.Registry, v.Schedules
		return catalog.Ports{Registry: s.calls, Schedules: s.calls, Sender: v.Sender}
	}, w.Now)
	s.beside = catalog.New(func() catalog.Ports {
		v := w.Open()
		return catalog.Ports{Registry: v.Registry, Schedules: v.Schedules, Sender: v.Sender}
	}, w.Now)
	return s
}

// publishCrons publishes a version of p/w with schedules of these names.
func (s *scheduledCatalog) publishCrons(version string, names ...string) {
	s.Helper()
	source := string(definition(version, version))
	for i, name := range names {
		if i == 0 {
			source += "triggers:\n  cron:\n"
		}
		source += fmt.Sprintf("    - {name: %s, schedule: \"%d 4 * * *\"}\n", name, i)
	}
	if _, _, err := s.Publish(context.Background(), ann, []byte(source), false); err != nil {
		s.Fatal(err)
	}
}

func (s *scheduledCatalog) schedule(name string) spec.Schedule {
	s.Helper()
	one, err := s.calls.scheduleStore.Schedule(context.Background(), ann.Tenant, name)
	if err != nil {
		s.Fatal(err)
	}
	return one
}

func (s *scheduledCatalog) archive(version string) {
	s.Helper()
	if err := s.Archive(context.Background(), ann, workflow.Ref{Package: "p", Name: "w", Version: version}); err != nil {
		s.Fatal(err)
	}
}

// Publishing reads the version index a few times, however many names schedules have, and does not read the schedules
// of all names that there ever were.
func TestSchedules_PublishingDoesNotGrowWithNames(t *testing.T) {
	s := newScheduledCatalog(t)
	for i := range 30 {
		s.publishCrons(fmt.Sprintf("1.%d.0", i), fmt.Sprint("n", i), fmt.Sprint("m", i), "every")
		if on := s.schedule(fmt.Sprint("p/w@n", i)); on.Off() || on.Workflow.Version != fmt.Sprintf("1.%d.0", i) {
			t.Fatalf("version %d: %+v", i, on)
		}
		if i > 0 && !ptr(s.schedule(fmt.Sprint("p/w@n", i-1))).Off() {
			t.Fatalf("version %d: the schedule of the one before is on", i)
		}
	}
	if got := s.schedule("p/w").Named; !slices.Equal(got, []string{"every", "m29", "n29"}) {
		t.Errorf("%d names are remembered: %v", len(got), got)
	}
	s.calls.indexReads, s.calls.scheduleReads = 0, 0
	s.publishCrons("2.0.0", "a", "b", "c", "d", "e", "f")
	if s.calls.indexReads > 8 || s.calls.scheduleReads > 40 {
		t.Errorf("%d reads of the version index and %d of schedules", s.calls.indexReads, s.calls.scheduleReads)
	}
	s.calls.indexReads, s.calls.scheduleReads = 0, 0
	s.publishCrons("2.0.1")
	s.publishCrons("2.0.2")
	s.calls.indexReads, s.calls.scheduleReads = 0, 0
	s.publishCrons("2.0.3")
	if s.calls.scheduleReads > 2 {
		t.Errorf("%d reads of schedules for a version that has none", s.calls.scheduleReads)
	}
}

func ptr[T any](v T) *T { return &v }

// A name that was forgotten is remembered again when archiving brings back a version with it. As nobody has asked
// to start its work again, it is paused; also if newer versions than it ever followed were archived.
func TestSchedules_ForgottenNameComesBackPaused(t *testing.T) {
	s := newScheduledCatalog(t)
	s.publishCrons("1.0.0", "night")
	s.publishCrons("2.0.0")
	s.publishCrons("4.0.0")
	s.publishCrons("3.0.0", "night")
	if got := s.schedule("p/w").Named; len(got) > 0 {
		t.Errorf("remembered %v", got)
	}
	s.archive("4.0.0")
	if one := s.schedule("p/w@night"); one.Off() || one.Paused == nil || one.Workflow.Version != "3.0.0" || !one.NextAt.IsZero() {
		t.Errorf("%+v", one)
	}
	s.publishCrons("5.0.0", "night")
	if one := s.schedule("p/w@night"); one.Off() || one.Paused != nil || one.NextAt.IsZero() {
		t.Errorf("%+v", one)
	}
}

// Who forgets a name must not miss that another call switches it on in between, not even if it
// dies at once.
func TestSchedules_ForgettingANameIsNoRace(t *testing.T) {
	s := newScheduledCatalog(t)
	s.publishCrons("1.0.0", "night")
	s.calls.beforePut = func(one spec.Schedule) {
		if one.Name != "p/w" || len(one.Named) > 0 {
			return
		}
		s.calls.beforePut = func(one spec.Schedule) {
			if one.Name == "p/w" && len(one.Named) == 0 {
				s.Error("the name is forgotten although its schedule is on")
			}
		}
		if err := s.beside.Archive(context.Background(), ann, workflow.Ref{Package: "p", Name: "w", Version: "2.0.0"}); err != nil {
			s.Error(err)
		}
	}
	s.publishCrons("2.0.0")
	if one, all := s.schedule("p/w@night"), s.schedule("p/w"); one.Off() || !slices.Equal(all.Named, []string{"night"}) {
		t.Errorf("%+v\nremembered: %v", one, all.Named)
	}
}
