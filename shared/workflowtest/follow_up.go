package workflowtest

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// FollowUp is an execution that an end of the execution has started, as onEnd of the definition says.
type FollowUp struct {
	Execution  string          `json:"execution"`
	Workflow   workflow.Ref    `json:"workflow"` // exact
	Parameters json.RawMessage `json:"parameters"`
}

func (f FollowUp) String() string { return f.Workflow.String() + " " + string(f.Parameters) }

// followUp is an expected one. Without parameters it may have any.
type followUp struct {
	name       string // of the workflow
	workflow   workflow.Ref
	parameters json.RawMessage
}

func (r reader) followUp(f *followUp) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"workflow": r.Text(&f.name).Required("say which workflow is started: PACKAGE/NAME, or PACKAGE/NAME:VERSION").Then(r.Reader, func(n ast.Node, path string) {
			var err error
			if f.workflow, err = workflow.ParseRef(f.name); err != nil {
				r.Report(n, path, "format", "want PACKAGE/NAME or PACKAGE/NAME:VERSION")
			}
		}),
		"parameters": r.object(&f.parameters),
	})
}

// observe is how long a process of a test may overlook a subscription. There are none: it makes the
// engine tell of ends.
const observe = time.Second

// deliverEnd lets the engine publish the events of an execution, and start what its end starts. It
// reports whether there was a message about one.
func (w *world) deliverEnd(ctx context.Context) bool {
	if m, ok := w.EventsQueue().Receive(visibilityTimeout); ok {
		if _, err := w.engine.PublishEvents(ctx, m.Announcement()); err != nil {
			w.failure = err
		}
		w.EventsQueue().Delete(m)
		return true
	}
	m, ok := w.HooksQueue().Receive(visibilityTimeout)
	if ok {
		w.startFollowUp(ctx, m)
	}
	return ok
}

// startFollowUp starts an execution at the end of another. What cannot be started is not tried
// again, as it is in a service for a day: in a test nobody publishes a definition meanwhile. The
// rows of pipes are dropped, because a test file has no tables for them.
func (w *world) startFollowUp(ctx context.Context, m sim.Message) {
	d := m.Delivery()
	w.HooksQueue().Delete(m)
	if d.Rows != nil {
		return
	}
	if _, err := w.engine.Deliver(ctx, nil, d, m.Receives); err != nil {
		w.notStarted[d.Execution] = append(w.notStarted[d.Execution], err)
	}
}

// followUps returns what the ends of the execution have started, in this order.
func (p *play) followUps(ctx context.Context) ([]FollowUp, error) {
	all := []FollowUp{}
	for page := (workflow.Page{Limit: workflow.MaxPageSize}); ; {
		list, err := p.query.Executions(ctx, author, views.ExecutionFilter{Order: workflow.OrderOldest}, page)
		if err != nil {
			return nil, err
		}
		for _, x := range list.Items {
			if x.FollowUpOf == nil || *x.FollowUpOf != p.id {
				continue
			}
			whole, err := p.query.Execution(ctx, author, x.ID) // a list may leave out parameters
			if err != nil {
				return nil, err
			}
			all = append(all, FollowUp{Execution: x.ID, Workflow: x.Workflow, Parameters: whole.Parameters})
		}
		if page.Token = list.NextToken; page.Token == "" {
			return all, nil
		}
	}
}

// checkFollowUps compares what the ends of the execution have started.
func (p *play) checkFollowUps(got []FollowUp) {
	if !p.test.expect.given["followUps"] {
		return
	}
	for _, err := range p.notStarted[p.id] {
		p.fail("expect.followUps", "what begins at the end cannot be started: %s", described(err))
	}
	want := p.test.expect.followUps
	for i := range max(len(want), len(got)) {
		path := fmt.Sprintf("expect.followUps[%d]", i)
		switch {
		case i >= len(want):
			p.fail("expect.followUps", "want %d, got %d: after the last also %s", len(want), len(got), got[i])
			return
		case i >= len(got):
			p.fail(path, "want %s, got nothing more", want[i].name)
			return
		case got[i].Workflow.FullName() != want[i].workflow.FullName() || !want[i].workflow.Matches(got[i].Workflow.Version):
			p.fail(path+".workflow", "want %s, got %s", want[i].name, got[i])
			return
		case want[i].parameters != nil:
			p.compareValues(path+".parameters", want[i].parameters, got[i].Parameters)
		}
	}
}
