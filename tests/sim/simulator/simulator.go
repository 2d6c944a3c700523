package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// workerCount is how many processes of workers there are.
const workerCount = 3

// Simulator is the stage of one company. Its engine stays warm from play to play: a
// definition is read and compiled once. It serves one goroutine.
type Simulator struct {
	*harness.Harness
	corpus    *corpus
	base      *sim.World // in which all is published and nothing has been started
	published map[string]bool
}

// panickingTB is the testing.TB of a stage that plays outside of a test: what fails it is
// a mistake of this room, and ends the program.
type panickingTB struct{ testing.TB }

func (panickingTB) Helper()                   {}
func (panickingTB) Cleanup(func())            {}
func (panickingTB) Failed() bool              { return false }
func (panickingTB) Logf(string, ...any)       {}
func (panickingTB) Fatal(args ...any)         { panic(fmt.Sprint(args...)) }
func (panickingTB) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }
func (panickingTB) Error(args ...any)         { panic(fmt.Sprint(args...)) }
func (panickingTB) Errorf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

// New opens the theatre of a company.
func New(c *corpus) *Simulator {
	o := harness.Options()
	o.Policy.MinPackedJobs = 2 // so that few devices make packs of several jobs
	t := &Simulator{Harness: harness.New(panickingTB{}, 0, o), corpus: c, published: map[string]bool{}}
	t.SetWorkerCount(workerCount)
	t.RegisterBlocks()
	t.RegisterBlock(workflow.Block{Name: "finder", Pure: true})
	t.importAllDevices()
	t.base = t.World
	return t
}

func (t *Simulator) importAllDevices() {
	for i, id := range harness.DeviceIDs(deviceCount) {
		e := workflow.Entity{Type: "device", ID: id, Groups: []string{"all"}}
		if i%2 == 1 {
			e.Groups = append(e.Groups, "odd")
		}
		e.Attributes = json.RawMessage(fmt.Sprintf(`{"name":%q,"ready":%v}`, id, i%3 == 0))
		if _, err := t.Catalog.PutEntity(context.Background(), harness.Caller, e); err != nil {
			t.Fatal(err)
		}
	}
}

// publishOnce publishes a definition, without what is cut out of it, and lets it be run
// once in a world that is thrown away, so that what a play reads does not depend on the plays before it.
func (t *Simulator) publishOnce(cut Cut, names ...string) {
	for _, name := range names {
		if t.published[name] {
			continue
		}
		t.published[name] = true
		d := t.corpus.definition(name)
		if labels := cut.cutSteps(name); len(labels) > 0 {
			d = t.corpus.shorten(name, labels)
		}
		t.publishOnce(cut, d.References()...)
		t.World = t.base
		t.Publish(name, d.YAML())
		t.World, t.BlockCalls = t.base.CloneRegistry(0), nil
		t.Clock, t.BeforeBlock, t.ProgramVersion, t.Script = nil, nil, nil, nil
		t.Start(name, harness.DeviceIDs(1)...)
		t.World = t.base
	}
}
