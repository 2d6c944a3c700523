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

// longLeaseConfig is a configuration for what needs no worker to die: leases are long
// enough for a busy machine, and the sweeper is quick.
const longLeaseConfig = `
sweepInterval: 500ms
poll: 1s
job: {lease: 10s, unclaimed: 40s}
lock: {wait: 60s}
log: {level: info}
`

// TestLifecycle_Scenarios runs the acceptance scenarios of the whole lifecycle and of the
// definition language side by side on one stack, each with entities, blocks and
// workflows of its own.
func TestLifecycle_Scenarios(t *testing.T) {
	t.Parallel()
	if os.Getenv("LOCKSTEP_E2E_RUN") == "" { // or else it is asked for by name
		requireEmbedded(t, "its sixty scenes are of the language, which no service of AWS reads, and take ten minutes")
	}
	s := startStack(t, stackOptions{config: longLeaseConfig})
	b := serveBlocks(t)
	for name, scenario := range map[string]func(*fixture){
		"N04_no_edge":                     illegalTransitions,
		"N04_no_edge_from_what_is_done":   illegalTransitionsUnderWay,
		"N10_versions_of_blocks":          blockVersions,
		"N11_published_once":              publishIsImmutable,
		"N11_published_at_once":           concurrentPublish,
		"N15_types_survive":               interpolationKeepsTypes,
		"N15_embedded_null":               embeddedNull,
		"N16_raw_parameters":              rawParameters,
		"N17_wrong_type":                  parameterTypeMismatch,
		"N18_barrier":                     barrier(""),
		"N18_barrier_of_pipelines":        barrier("config: {executionStrategy: {parallel: true}}\n"),
		"N19_nested_steps":                nestedSteps,
		"N20_embed":                       embedWorkflow,
		"N20_dispatch":                    dispatchWorkflow,
		"N20_dispatch_fails":              dispatchFails,
		"N22_in_step":                     stepByStep,
		"N22_pipelines":                   pipelines,
		"N33_no_lock_is_left":             locksReleased,
		"N36_no_update_of_a_failed_run":   failedExecutionUpdatesNothing,
		"N42_undone_once":                 rolledBackOnce,
		"N43_attempts":                    retryAttempts,
		"N43_retry_condition":             retryCondition,
		"N45_continue_on_error":           continueOnError,
		"N46_repeat":                      repeatStep,
		"N48_only_pure_work":              cancelPureJobs,
		"N50_cascade":                     cancelCascades,
		"N50_without_cascade":             cancelWithoutCascade,
		"N56_more_is_pending":             pendingAttemptIsNotTerminal,
		"N58_status_of_events":            statusMatchesEvents,
		"in_flight":                       maxInFlight(""),
		"in_flight_of_pipelines":          maxInFlight("executionStrategy: {parallel: true}, "),
		"tolerated":                       toleratedFailures,
		"archived":                        archivedWorkflow,
		"dry_run":                         dryRun,
		"rollback_as_said":                rollbackPolicies,
		"backoff":                         backoff,
		"acquired_by_a_step":              acquireByStep,
		"N39_pipelines_undone":            pipelinesRolledBack,
		"N48_N50_family_undone":           childrenRolledBack,
		"same_in_pipelines":               pipelinesGiveSameResult,
		"another_child":                   retryStartsNewChild,
		"waits_for_itself":                selfDeadlock,
		"forgotten_waits":                 fireAndForgetChildWaits,
		"embedded_twice":                  workflowEmbeddedTwice,
		"acquire_by_block":                acquireByBlock,
		"acquire_expanded":                acquireExpanded,
		"locked_entities_are_skipped":     skipLockedEntities,
		"shared_locks":                    sharedLocks,
		"retry_from_a_step":               retryFromAStep,
		"retry_failed_or_all":             retryFailedOrAll,
		"retry_in_pipelines":              retryInPipelines,
		"retry_of_what_is_undone":         retryRolledBackStep,
		"resume_a_delay":                  resumeADelay,
		"unlock":                          unlockExecution,
		"step_timeout":                    stepTimeout,
		"run_timeout":                     executionTimeout,
		"start_when_an_entity_says_so":    startWhenEntityIsPut,
		"updates_once_it_has_completed":   updatesApplyOnCompletion,
		"updates_of_what_is_not_held":     updateOfUnlockedEntity,
		"results_of_any_size":             largeResults,
		"fire_and_forget":                 fireAndForget,
		"cancelled_while_it_waits_a_turn": cancelWaitingExecution,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mine := *s
			mine.t = t
			scenario(&fixture{localStack: &mine, blocks: b, name: strings.ToLower(name)})
		})
	}
}

// publishExtra publishes a further workflow of the scene, as define does, and returns the
// reference to it.
func (c *fixture) publishExtra(name, extra string, steps ...string) string {
	c.t.Helper()
	source := fmt.Sprintf("package: test\nname: w-%s-%s\nversion: 1.0.0\nseedEntity: %s\n%ssteps:\n", c.name, name, c.entityType(), extra)
	for _, step := range steps {
		source += "  - {" + c.expandNames(step) + "}\n"
	}
	c.publish(source)
	return "test/w-" + c.name + "-" + name
}

// expandNames writes a step's short names out.
func (c *fixture) expandNames(step string) string {
	return strings.NewReplacer("KIND", c.entityType(), "WF", "test/w-"+c.name, "block: ", "functionBlock: test/"+c.name+"-").Replace(step)
}

// startRef starts any workflow over ids of the scene's type.
func (c *fixture) startRef(ref, parameters string, ids ...string) string {
	c.t.Helper()
	req := views.StartRequest{Workflow: ref, Parameters: json.RawMessage(parameters)}
	if len(ids) > 0 {
		req.ExecuteOnParameters = &workflow.Selector{Type: c.entityType(), IDs: ids}
	}
	x, _, err := c.Start(c.t.Context(), req)
	if err != nil {
		c.t.Fatalf("start %s: %v", ref, err)
	}
	return x.ID
}

// getExecution reads a run.
func (c *fixture) getExecution(id string) views.ExecutionView {
	c.t.Helper()
	x, err := c.Execution(c.t.Context(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	return x
}

// waitUntil polls a run until it is as wanted.
func (c *fixture) waitUntil(id, what string, ok func(views.ExecutionView) bool) (x views.ExecutionView) {
	c.t.Helper()
	eventually(c.t, what, func() bool {
		x = c.getExecution(id)
		return ok(x)
	})
	return x
}

// waitForKind polls a run until it waits for something of the kind.
func (c *fixture) waitForKind(id string, kind workflow.WaitKind) views.ExecutionView {
	c.t.Helper()
	return c.waitUntil(id, fmt.Sprintf("%s waits for %s", id, kind), func(x views.ExecutionView) bool { return x.Waiting != nil && x.Waiting.Kind == kind })
}

// wantFailure checks why a run has failed.
func (c *fixture) wantFailure(x views.ExecutionView, cause workflow.Cause, code, step string) {
	c.t.Helper()
	if x.Cause == nil || *x.Cause != cause || x.Reason == "" || x.Error == nil || x.Error.Code != code || deref(x.Error.Step) != deref(&step) {
		c.t.Errorf("cause %v, reason %q, error %+v; want %s, %s in step %s", deref(x.Cause), x.Reason, x.Error, cause, code, step)
	}
}

// entityAttributes are those of an entity of the scene now.
func (c *fixture) entityAttributes(id string) string {
	c.t.Helper()
	e, err := c.Entity(c.t.Context(), workflow.EntityKey{Type: c.entityType(), ID: id})
	if err != nil {
		c.t.Fatal(err)
	}
	return string(e.Attributes)
}

// wantAudit demands that the last event of the type names who asked, and why.
func (c *fixture) wantAudit(id string, event sm.Event, reason string) {
	c.t.Helper()
	var last *workflow.Event
	for _, e := range c.history(id) {
		if e.Type == string(event) {
			last = &e
		}
	}
	if last == nil || last.Actor != "local" || !strings.Contains(string(last.Data), reason) {
		c.t.Errorf("%s is not audited with %q: %+v", event, reason, last)
	}
}
