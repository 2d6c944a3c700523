package httpapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// A step inserts a row, which the API lists with the types of its columns; one that does not fit
// fails the step with the field.
func TestInsertStep_RowsAreListed(t *testing.T) {
	f := newFixture(t, 1)
	f.mustDo(nil, "PUT", "/tables/payments", `{"columns":[{"name":"txn","type":"string","required":true},{"name":"amount","type":"number"}]}`)
	f.Publish("pay", "parameters: {type: object}\nsteps:\n  - {label: log, insert: {table: payments, row: {txn: '${parameters.txn}', amount: '${parameters.amount}'}}}\n")
	paid := f.execute(`{"workflow":"p/pay","parameters":{"txn":"a","amount":3.5}}`)
	other := f.execute(`{"workflow":"p/pay","parameters":{"txn":"b","amount":7}}`)
	wrong := f.execute(`{"workflow":"p/pay","parameters":{"txn":"c","amount":"much"}}`)
	if paid.State != "COMPLETED_ACK" || other.State != "COMPLETED_ACK" || wrong.State != "FAILED_SAFE_ACK" || wrong.Error == nil || !strings.Contains(wrong.Error.Message, "amount") {
		t.Errorf("%+v, %+v, %+v %+v", paid, other, wrong, wrong.Error)
	}
	type row struct {
		Execution, Workflow, Step string
		Values                    struct {
			Txn    string
			Amount float64
		}
	}
	var all, some struct{ Items []row }
	f.mustDo(&all, "GET", "/tables/payments/rows", "")
	f.mustDo(&some, "GET", "/tables/payments/rows?where=amount%20%3E%205.0", "")
	if len(all.Items) != 2 || len(some.Items) != 1 || some.Items[0].Execution != other.ID || some.Items[0].Step != "log" || some.Items[0].Workflow != "p/pay:1.0.0" || some.Items[0].Values.Txn != "b" || some.Items[0].Values.Amount != 7 {
		t.Errorf("%+v, %+v", all.Items, some.Items)
	}
}

// schedule is a schedule as the API shows it.
type schedule struct {
	Schedule, Cron, Zone string
	NextAt, Last         *string
	Executions           []struct{ ID, State string }
}

// A step makes a schedule, which starts executions and is listed, and another one removes it.
func TestScheduleStep_MakesAndRemovesASchedule(t *testing.T) {
	f := newFixture(t, 1)
	f.Publish("night", "parameters: {type: object}\nsteps:\n  - {label: one, functionBlock: p/pure:1, runOn: global, parameters: {who: '${parameters.user}'}}\n")
	f.Publish("make", "parameters: {type: object}\nsteps:\n  - label: plan\n    schedule: {name: 'of_${parameters.user}', workflow: 'p/night:1', cron: '0 4 * * *', zone: Europe/Zurich, parameters: {user: '${parameters.user}'}}\n")
	f.Publish("stop", "parameters: {type: object}\nsteps:\n  - {label: plan, schedule: {name: 'of_${parameters.user}', workflow: 'p/night:1', remove: true, replace: true}}\n")
	if x := f.execute(`{"workflow":"p/make","parameters":{"user":"ann"}}`); x.State != "COMPLETED_ACK" {
		t.Fatalf("%+v", x)
	}
	var list struct{ Items []schedule }
	f.mustDo(&list, "GET", "/schedules", "")
	if len(list.Items) != 1 || list.Items[0].Schedule != "p/night@of_ann" || list.Items[0].Cron != "0 4 * * *" || list.Items[0].Zone != "Europe/Zurich" || list.Items[0].NextAt == nil {
		t.Fatalf("%+v", list.Items)
	}
	f.runDays(1)
	var one schedule
	f.mustDo(&one, "GET", "/schedules/p/night@of_ann", "")
	if len(one.Executions) != 1 || one.Executions[0].State != "COMPLETED_ACK" {
		t.Fatalf("%+v", one)
	}
	var started struct{ Parameters struct{ User string } }
	if f.mustDo(&started, "GET", "/workflow-execution/id/"+one.Executions[0].ID, ""); started.Parameters.User != "ann" {
		t.Errorf("%+v", started)
	}
	if x := f.execute(`{"workflow":"p/stop","parameters":{"user":"ann"}}`); x.State != "COMPLETED_ACK" {
		t.Errorf("%+v", x)
	}
	f.runDays(2)
	if f.mustDo(&list, "GET", "/schedules", ""); len(list.Items) != 0 {
		t.Errorf("still listed: %+v", list.Items)
	}
	if n := len(f.listAll("workflow=p/night", 10)); n != 1 {
		t.Errorf("%d executions", n)
	}
}

// Each of several schedules of a definition has its name and its parameters, and is paused, resumed
// and fired by itself.
func TestNamedCrons_AreIndependent(t *testing.T) {
	f := newFixture(t, 1)
	f.Publish("shifts", "parameters: {type: object}\ntriggers:\n  cron:\n    - {name: early, schedule: '0 6 * * *', parameters: {shift: early}}\n    - {name: late, schedule: '0 22 * * *', parameters: {shift: late}}\n"+
		"steps:\n  - {label: one, functionBlock: p/pure:1, runOn: global}\n")
	var list struct{ Items []schedule }
	f.mustDo(&list, "GET", "/schedules", "")
	if len(list.Items) != 2 || list.Items[0].Schedule != "p/shifts@early" || list.Items[1].Schedule != "p/shifts@late" {
		t.Fatalf("%+v", list.Items)
	}
	f.mustDo(nil, "POST", "/schedules/p/shifts@early/pause", `{"reason":"holiday"}`)
	f.runDays(2)
	count := func(name string) int {
		var one schedule
		f.mustDo(&one, "GET", "/schedules/p/shifts@"+name, "")
		return len(one.Executions)
	}
	if early, late := count("early"), count("late"); early != 0 || late != 2 {
		t.Errorf("%d and %d", early, late)
	}
	f.mustDo(nil, "POST", "/schedules/p/shifts@early/fire", "")
	f.mustDo(nil, "POST", "/schedules/p/shifts@early/resume", `{"reason":"back"}`)
	f.runDays(1)
	if early, late := count("early"), count("late"); early != 2 || late != 3 {
		t.Errorf("after the holiday %d and %d", early, late)
	}
	for _, id := range f.listAll("workflow=p/shifts&label=schedule%3Dp%2Fshifts%40late", 10) {
		var x struct{ Parameters struct{ Shift string } }
		if f.mustDo(&x, "GET", "/workflow-execution/id/"+id, ""); x.Parameters.Shift != "late" {
			t.Errorf("%s has the parameters %+v", id, x.Parameters)
		}
	}
	expectStatus(t, f.do("POST", "/schedules/p/shifts@noon/fire", ""), 404)
}

func expectStatus(t *testing.T, a answer, want int) {
	t.Helper()
	if a.status != want {
		t.Errorf("%s, want %d", a, want)
	}
}

// An execution and what its end has started name each other.
func TestOnEnd_IsShown(t *testing.T) {
	o := harness.Options()
	o.SubscriptionsAge = time.Minute
	f := newFixtureWith(t, 1, o)
	f.Publish("clean", "parameters: {type: object, properties: {of: {type: string}}, required: [of]}\nsteps:\n  - {label: one, functionBlock: p/pure:1, runOn: global}\n")
	f.Publish("work", "steps:\n  - {label: rest, wait: {for: 1h}}\nonEnd: {cancelled: {workflow: 'p/clean:1', parameters: {of: '${execution.id}'}}}\n")
	var x struct {
		ID, CreatedBy        string
		FollowUp, FollowUpOf *string
		Parameters           struct{ Of string }
	}
	f.mustDo(&x, "POST", "/workflow-execution", `{"workflow":"p/work"}`)
	id := x.ID
	f.RunFor(time.Minute)
	f.mustDo(nil, "POST", fmt.Sprintf("/workflow-execution/%s/cancel", id), `{"reason":"changed my mind"}`)
	f.RunFor(10 * time.Minute)
	if f.mustDo(&x, "GET", "/workflow-execution/id/"+id, ""); x.FollowUp == nil || x.FollowUpOf != nil {
		t.Fatalf("%+v", x)
	}
	next := *x.FollowUp
	if f.mustDo(&x, "GET", "/workflow-execution/id/"+next, ""); x.FollowUpOf == nil || *x.FollowUpOf != id || x.Parameters.Of != id || x.CreatedBy != "~onEnd" || x.FollowUp != nil {
		t.Errorf("%+v", x)
	}
}

// runDays lets so many days pass, hour by hour, so that each fire time is met.
func (f *fixture) runDays(n int) {
	for range 24 * n {
		f.RunFor(time.Hour)
		f.Sweep()
		f.RunFor(0)
	}
}
