package locking_test

import (
	"fmt"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// setNoPlace makes x wait for a limit of which all places are taken.
func (f *fixture) setNoPlace(x *workflow.Execution, id string, holders ...*workflow.Execution) {
	f.Helper()
	b := workflow.BlockedBy{Entity: keys(id)[0], Execution: holders[0].ID, Epoch: holders[0].Epoch}
	for _, h := range holders[1:] {
		b.Others = append(b.Others, workflow.SlotHolder{Execution: h.ID, Epoch: h.Epoch})
	}
	f.update(x, func(x *workflow.Execution) { x.State, x.BlockedBy = sm.ExecutionScheduled, &b })
	for _, one := range b.Holders() {
		if _, _, err := f.ports.Store.AddHolderWaiter(f.ctx, "t", one, x.ID); err != nil {
			f.Fatal(err)
		}
	}
}

// Two executions have both places of a limit, and each waits for one that it has started and that wants one: nobody
// goes on. The youngest ends.
func TestDeadlocked_AllPlacesOfALimit(t *testing.T) {
	f := newFixture(t)
	one, two := f.newHolder("a"), f.newHolder("a2")
	ofOne, ofTwo := f.newChild(one), f.newChild(two)
	f.setNoPlace(ofOne, "a", one, two)
	f.wantVictim(ofOne, "")
	f.setNoPlace(ofTwo, "a", one, two)
	f.wantVictim(ofTwo, ofTwo.ID)
	f.wantVictim(ofOne, ofTwo.ID)
}

// The same with the largest limit: the search goes through all who have a place.
func TestDeadlocked_AllPlacesOfTheLargestLimit(t *testing.T) {
	f := newFixture(t)
	var holders, children []*workflow.Execution
	for n := range workflow.MaxConcurrency {
		holders = append(holders, f.newHolder(fmt.Sprintf("a%d", n)))
		children = append(children, f.newChild(holders[n]))
	}
	for n, c := range children {
		f.setNoPlace(c, "a", holders...)
		if n < len(children)-1 {
			f.wantVictim(c, "")
		}
	}
	f.wantVictim(children[len(children)-1], children[len(children)-1].ID)
}

// As long as one of those who have a place goes on, nobody is ended.
func TestDeadlocked_OnePlaceComesFree(t *testing.T) {
	f := newFixture(t)
	one, two, three := f.newHolder("a"), f.newHolder("a2"), f.newHolder("a3")
	ofOne, ofTwo := f.newChild(one), f.newChild(two)
	f.setNoPlace(ofOne, "a", one, two, three)
	f.setNoPlace(ofTwo, "a", two, one, three)
	f.wantVictim(ofOne, "")
	f.wantVictim(ofTwo, "")
	f.commitState(three, sm.ExecutionCompletedAck)
	f.wantVictim(ofTwo, "") // it has ended: its place is free, and they are about to be woken
}

// A place and a lock of an entity close a circle, too.
func TestDeadlocked_PlacesAndEntities(t *testing.T) {
	f := newFixture(t)
	one, two := f.newHolder("a"), f.newHolder("b")
	ofOne, ofTwo := f.newChild(one), f.newChild(two)
	f.setBlocked(ofOne, two, "b", false)
	f.setNoPlace(ofTwo, "a", one, two)
	f.wantVictim(ofTwo, ofTwo.ID)
	f.wantVictim(ofOne, ofTwo.ID)
}

// One execution alone with all places, through what it has started.
func TestDeadlocked_PlacesOfOneFamily(t *testing.T) {
	f := newFixture(t)
	root := f.newHolder("a")
	child := f.newChild(root)
	f.commitState(child, sm.ExecutionRunning)
	grandchild := f.newChild(child)
	f.setNoPlace(grandchild, "a", root, child)
	f.wantVictim(grandchild, grandchild.ID)
}
