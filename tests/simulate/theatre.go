package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/simulate/workload"
)

// crew is how many processes of workers there are.
const crew = 3

// Theatre is the stage of one company. Its engine stays warm from play to play: a
// definition is read and compiled once. It serves one goroutine.
type Theatre struct {
	*stage.Stage
	company   *workload.Company
	base      *sim.World // in which all is published and nothing has been started
	published map[string]bool
}

// quiet is the testing.TB of a stage that plays outside of a test: what fails it is
// a mistake of this room, and ends the program.
type quiet struct{ testing.TB }

func (quiet) Helper()                   {}
func (quiet) Cleanup(func())            {}
func (quiet) Failed() bool              { return false }
func (quiet) Logf(string, ...any)       {}
func (quiet) Fatal(args ...any)         { panic(fmt.Sprint(args...)) }
func (quiet) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }
func (quiet) Error(args ...any)         { panic(fmt.Sprint(args...)) }
func (quiet) Errorf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

// NewTheatre opens the theatre of a company.
func NewTheatre(c *workload.Company) *Theatre {
	o := stage.Options()
	o.Policy.PackFrom = 2 // so that few devices make packs of several jobs
	t := &Theatre{Stage: stage.New(quiet{}, 0, o), company: c, published: map[string]bool{}}
	t.Crew(crew)
	t.Blocks()
	t.Block(workflow.Block{Name: "finder", Pure: true})
	t.importAll()
	t.base = t.World
	return t
}

func (t *Theatre) importAll() {
	for i, id := range stage.Names(workload.Devices) {
		e := workflow.Entity{Type: "device", ID: id, Groups: []string{"all"}}
		if i%2 == 1 {
			e.Groups = append(e.Groups, "odd")
		}
		e.Attributes = json.RawMessage(fmt.Sprintf(`{"name":%q,"ready":%v}`, id, i%3 == 0))
		if _, err := t.Catalog.PutEntity(context.Background(), stage.Caller, e); err != nil {
			t.Fatal(err)
		}
	}
}

// ready publishes a definition, without what is cut out of it, and lets it be run
// once in a world that is thrown away, so that what a play reads does not depend on the plays before it.
func (t *Theatre) ready(cut Cut, names ...string) {
	for _, name := range names {
		if t.published[name] {
			continue
		}
		t.published[name] = true
		d := t.company.Definition(name)
		if labels := cut.labels(name); len(labels) > 0 {
			d = t.company.Shorten(name, labels)
		}
		t.ready(cut, d.Others()...)
		t.World = t.base
		t.Publish(name, d.Text())
		t.World, t.Called = t.base.Sequel(0), nil
		t.Clock, t.Enter, t.Release, t.Script = nil, nil, nil, nil
		t.Start(name, stage.Names(1)...)
		t.World = t.base
	}
}
