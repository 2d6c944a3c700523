package definitions_test

import (
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fixture is a process that keeps indexes, and a catalog elsewhere.
type fixture struct {
	*testing.T
	*sim.World
	cache   *definitions.Cache
	catalog *catalog.Catalog
}

func newFixture(t *testing.T) *fixture {
	w := sim.New(1)
	return &fixture{t, w, &definitions.Cache{}, catalog.New(func() catalog.Ports {
		v := w.Open()
		return catalog.Ports{Registry: v.Registry, Schedules: v.Schedules, Sender: v.Sender}
	}, w.Now)}
}

func (f *fixture) register(version string) error {
	_, err := f.catalog.RegisterBlock(f.Context(), workflow.Caller{Tenant: "t"}, workflow.Block{Package: "p", Name: "b", Version: version})
	return err
}

// found returns the newest version that a new piece of work finds.
func (f *fixture) found() string {
	f.Helper()
	newest, err := catalog.NewestVersion(f.Context(), f.cache.Reader(f.Open().Registry, f.Now), "t", workflow.BlockVersions, workflow.Ref{Package: "p", Name: "b"})
	if err != nil {
		f.Fatal(err)
	}
	return newest.Version
}

// A version is found as soon as its publication was answered, wherever it comes between the reads of
// those who look for it.
func TestReader_FindsWhatWasPublished(t *testing.T) {
	for made := 0; ; made++ { // calls of a reader before the publication
		f := newFixture(t)
		for range 3 {
			if err := f.register("1.0.0"); err != nil {
				t.Fatal(err)
			}
			f.found()
		}
		f.Advance(time.Minute) // so that the index is read again
		reader := f.StartTask("reader", func() { f.found() })
		for range made {
			if !reader.Done() {
				reader.Step()
			}
		}
		if err := f.register("1.1.0"); err != nil {
			t.Fatal(err)
		}
		done := reader.Done()
		reader.Finish()
		for range 3 {
			if got := f.found(); got != "1.1.0" {
				t.Errorf("after %d calls of another reader: found %s", made, got)
			}
		}
		if done {
			return
		}
	}
}

// One read is enough for all names as long as nobody publishes.
func TestReader_ReadsOneItem(t *testing.T) {
	f := newFixture(t)
	if err := f.register("1.0.0"); err != nil {
		t.Fatal(err)
	}
	for n, want := range []float64{2, 1, 1} {
		before := f.Consumed().ReadUnits["registry"]
		f.found()
		if got := f.Consumed().ReadUnits["registry"] - before; got != want {
			t.Errorf("time %d: %v units, want %v", n, got, want)
		}
	}
}

// A publication that was never answered is found after a while. If it is repeated, it is found at once.
func TestReader_FindsWhatWasNotAnswered(t *testing.T) {
	for _, repeats := range []bool{false, true} {
		f := newFixture(t)
		if err := f.register("1.0.0"); err != nil {
			t.Fatal(err)
		}
		f.found()
		f.Faults = faults.Next("registry.raise_versions_revision", faults.Throttled)
		if err := f.register("1.1.0"); !workflow.Is(err, workflow.CodeUnavailable) {
			t.Fatalf("registered: %v", err)
		}
		f.Faults = nil
		if repeats {
			if err := f.register("1.1.0"); err != nil {
				t.Fatal(err)
			}
		} else {
			f.Advance(time.Minute)
		}
		if got := f.found(); got != "1.1.0" {
			t.Errorf("repeated %v: found %s", repeats, got)
		}
	}
}
