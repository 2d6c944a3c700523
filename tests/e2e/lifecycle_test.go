package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// lifecycle is a configuration for what needs no worker to die: leases are long
// enough for a busy machine, and the sweeper is quick.
const lifecycle = `
sweepInterval: 500ms
poll: 1s
job: {lease: 10s, unclaimed: 40s}
lock: {wait: 60s}
log: {level: info}
`

// TestLifecycle runs the acceptance scenarios of the whole lifecycle and of the
// definition language side by side on one stack, each with entities, blocks and
// workflows of its own.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	if os.Getenv("LOCKSTEP_E2E_RUN") == "" { // or else it is asked for by name
		embedded(t, "its sixty scenes are of the language, which no service of AWS reads, and take ten minutes")
	}
	s := start(t, setup{config: lifecycle})
	b := serveBlocks(t)
	for name, scenario := range map[string]func(*scene){
		"N04_no_edge":                     noEdge,
		"N04_no_edge_from_what_is_done":   noEdgeFromWhatIsDone,
		"N10_versions_of_blocks":          versionsOfBlocks,
		"N11_published_once":              publishedOnce,
		"N11_published_at_once":           publishedAtOnce,
		"N15_types_survive":               typesSurvive,
		"N15_embedded_null":               embeddedNull,
		"N16_raw_parameters":              rawParameters,
		"N17_wrong_type":                  wrongType,
		"N18_barrier":                     barrier(""),
		"N18_barrier_of_pipelines":        barrier("config: {executionStrategy: {parallel: true}}\n"),
		"N19_nested_steps":                nestedSteps,
		"N20_embed":                       embed,
		"N20_dispatch":                    dispatch,
		"N20_dispatch_fails":              dispatchFails,
		"N22_in_step":                     inStep,
		"N22_pipelines":                   pipelines,
		"N33_no_lock_is_left":             noLockIsLeft,
		"N36_no_update_of_a_failed_run":   noUpdateOfAFailedRun,
		"N42_undone_once":                 undoneOnce,
		"N43_attempts":                    attempts,
		"N43_retry_condition":             retryCondition,
		"N45_continue_on_error":           continueOnError,
		"N46_repeat":                      repeat,
		"N48_only_pure_work":              cancelledPure,
		"N50_cascade":                     cascade,
		"N50_without_cascade":             withoutCascade,
		"N56_more_is_pending":             moreIsPending,
		"N58_status_of_events":            statusOfEvents,
		"in_flight":                       inFlight(""),
		"in_flight_of_pipelines":          inFlight("executionStrategy: {parallel: true}, "),
		"tolerated":                       tolerated,
		"archived":                        archived,
		"dry_run":                         dryRun,
		"rollback_as_said":                rollbackAsSaid,
		"backoff":                         backoff,
		"acquired_by_a_step":              acquiredByAStep,
		"N39_pipelines_undone":            pipelinesUndone,
		"N48_N50_family_undone":           familyUndone,
		"same_in_pipelines":               sameInPipelines,
		"another_child":                   anotherChild,
		"waits_for_itself":                waitsForItself,
		"forgotten_waits":                 forgottenWaits,
		"embedded_twice":                  embeddedTwice,
		"acquire_by_block":                acquireByBlock,
		"acquire_expanded":                acquireExpanded,
		"locked_entities_are_skipped":     lockedSkipped,
		"shared_locks":                    sharedLocks,
		"retry_from_a_step":               retryFromAStep,
		"retry_failed_or_all":             retryFailedOrAll,
		"retry_in_pipelines":              retryInPipelines,
		"retry_of_what_is_undone":         retryOfWhatIsUndone,
		"resume_a_delay":                  resumeADelay,
		"unlock":                          unlock,
		"step_timeout":                    stepTimeout,
		"run_timeout":                     runTimeout,
		"start_when_an_entity_says_so":    startWhenPut,
		"updates_once_it_has_completed":   updatesOnCompletion,
		"updates_of_what_is_not_held":     updatesNotHeld,
		"results_of_any_size":             resultsOfAnySize,
		"fire_and_forget":                 fireAndForget,
		"cancelled_while_it_waits_a_turn": cancelledWhileItWaits,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mine := *s
			mine.t = t
			scenario(&scene{system: &mine, b: b, name: strings.ToLower(name)})
		})
	}
}

// also publishes a further workflow of the scene, as define does, and returns the
// reference to it.
func (c *scene) also(name, extra string, steps ...string) string {
	c.t.Helper()
	source := fmt.Sprintf("package: test\nname: w-%s-%s\nversion: 1.0.0\nseedEntity: %s\n%ssteps:\n", c.name, name, c.kind(), extra)
	for _, step := range steps {
		source += "  - {" + c.spelled(step) + "}\n"
	}
	c.publish(source)
	return "test/w-" + c.name + "-" + name
}

// spelled writes a step's short names out.
func (c *scene) spelled(step string) string {
	return strings.NewReplacer("KIND", c.kind(), "WF", "test/w-"+c.name, "block: ", "functionBlock: test/"+c.name+"-").Replace(step)
}

// launch starts any workflow over ids of the scene's type.
func (c *scene) launch(ref, parameters string, ids ...string) string {
	c.t.Helper()
	req := views.StartRequest{Workflow: ref, Parameters: json.RawMessage(parameters)}
	if len(ids) > 0 {
		req.ExecuteOnParameters = &workflow.Selector{Type: c.kind(), IDs: ids}
	}
	x, _, err := c.Start(c.t.Context(), req)
	if err != nil {
		c.t.Fatalf("start %s: %v", ref, err)
	}
	return x.ID
}

// look reads a run.
func (c *scene) look(id string) views.ExecutionView {
	c.t.Helper()
	x, err := c.Execution(c.t.Context(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	return x
}

// until polls a run until it is as wanted.
func (c *scene) until(id, what string, ok func(views.ExecutionView) bool) (x views.ExecutionView) {
	c.t.Helper()
	eventually(c.t, what, func() bool {
		x = c.look(id)
		return ok(x)
	})
	return x
}

// waitsFor polls a run until it waits for something of the kind.
func (c *scene) waitsFor(id string, kind views.WaitKind) views.ExecutionView {
	c.t.Helper()
	return c.until(id, fmt.Sprintf("%s waits for %s", id, kind), func(x views.ExecutionView) bool { return x.Waiting != nil && x.Waiting.Kind == kind })
}

// failedBy checks why a run has failed.
func (c *scene) failedBy(x views.ExecutionView, cause workflow.Cause, code, step string) {
	c.t.Helper()
	if x.Cause == nil || *x.Cause != cause || x.Reason == "" || x.Error == nil || x.Error.Code != code || value(x.Error.Step) != value(&step) {
		c.t.Errorf("cause %v, reason %q, error %+v; want %s, %s in step %s", value(x.Cause), x.Reason, x.Error, cause, code, step)
	}
}

// attributes are those of an entity of the scene now.
func (c *scene) attributes(id string) string {
	c.t.Helper()
	e, err := c.Entity(c.t.Context(), workflow.EntityKey{Type: c.kind(), ID: id})
	if err != nil {
		c.t.Fatal(err)
	}
	return string(e.Attributes)
}

// audited demands that the last event of the type names who asked, and why.
func (c *scene) audited(id string, event sm.Event, reason string) {
	c.t.Helper()
	var last *workflow.Event
	for _, e := range c.events(id) {
		if e.Type == string(event) {
			last = &e
		}
	}
	if last == nil || last.Actor != "local" || !strings.Contains(string(last.Data), reason) {
		c.t.Errorf("%s is not audited with %q: %+v", event, reason, last)
	}
}
