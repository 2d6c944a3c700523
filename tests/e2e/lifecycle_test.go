package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// longLeaseConfig is for tests that kill no worker: leases are long enough for a busy
// machine, and the sweeper runs often.
const longLeaseConfig = `
sweepInterval: 500ms
poll: 1s
job: {lease: 10s, unclaimed: 40s}
lock: {wait: 60s}
log: {level: info}
`

// The acceptance scenarios of the lifecycle and of the definition language run in
// parallel on one stack, each with its own entities, blocks and workflows.
func TestLifecycle_Scenarios(t *testing.T) {
	t.Parallel()
	if os.Getenv("LOCKSTEP_E2E_RUN") == "" { // unless it is selected by name
		requireEmbedded(t, "its sixty scenarios test the language, which does not depend on AWS, and take ten minutes")
	}
	s := startStack(t, stackOptions{config: longLeaseConfig})
	b := serveBlocks(t)
	for name, scenario := range map[string]func(*fixture){
		"N04_illegal_transitions":               illegalTransitions,
		"N04_illegal_transitions_while_running": illegalTransitionsUnderWay,
		"N10_block_versions":                    blockVersions,
		"N11_publish_is_immutable":              publishIsImmutable,
		"N11_concurrent_publish":                concurrentPublish,
		"N15_interpolation_keeps_types":         interpolationKeepsTypes,
		"N15_embedded_null":                     embeddedNull,
		"N16_raw_parameters":                    rawParameters,
		"N17_parameter_type_mismatch":           parameterTypeMismatch,
		"N18_barrier":                           barrier(""),
		"N18_barrier_in_pipelines":              barrier("config: {executionStrategy: {parallel: true}}\n"),
		"N19_nested_steps":                      nestedSteps,
		"N20_embed":                             embedWorkflow,
		"N20_dispatch":                          dispatchWorkflow,
		"N20_dispatch_fails":                    dispatchFails,
		"N22_step_by_step":                      stepByStep,
		"N22_pipelines":                         pipelines,
		"N33_locks_are_released":                locksReleased,
		"N36_failed_execution_updates_nothing":  failedExecutionUpdatesNothing,
		"N42_rolled_back_once":                  rolledBackOnce,
		"N43_retry_attempts":                    retryAttempts,
		"N43_retry_condition":                   retryCondition,
		"N45_continue_on_error":                 continueOnError,
		"N46_repeat":                            repeatStep,
		"N48_cancel_pure_jobs":                  cancelPureJobs,
		"N50_cancel_cascades":                   cancelCascades,
		"N50_cancel_without_cascade":            cancelWithoutCascade,
		"N56_pending_attempt_is_not_terminal":   pendingAttemptIsNotTerminal,
		"N58_status_matches_events":             statusMatchesEvents,
		"max_in_flight":                         maxInFlight(""),
		"max_in_flight_in_pipelines":            maxInFlight("executionStrategy: {parallel: true}, "),
		"R31_thousand_items":                    thousandItems,
		"tolerated_failures":                    toleratedFailures,
		"archived_workflow":                     archivedWorkflow,
		"dry_run":                               dryRun,
		"rollback_policies":                     rollbackPolicies,
		"backoff":                               backoff,
		"acquire_by_step":                       acquireByStep,
		"N39_pipelines_rolled_back":             pipelinesRolledBack,
		"N48_N50_children_rolled_back":          childrenRolledBack,
		"pipelines_give_same_result":            pipelinesGiveSameResult,
		"retry_starts_new_child":                retryStartsNewChild,
		"self_deadlock":                         selfDeadlock,
		"fire_and_forget_child_waits":           fireAndForgetChildWaits,
		"workflow_embedded_twice":               workflowEmbeddedTwice,
		"acquire_by_block":                      acquireByBlock,
		"acquire_expanded":                      acquireExpanded,
		"inventory_changes_by_people":           inventoryChangesByPeople,
		"skip_locked_entities":                  skipLockedEntities,
		"shared_locks":                          sharedLocks,
		"retry_from_a_step":                     retryFromAStep,
		"retry_failed_or_all":                   retryFailedOrAll,
		"retry_in_pipelines":                    retryInPipelines,
		"retry_rolled_back_step":                retryRolledBackStep,
		"resume_a_delay":                        resumeADelay,
		"unlock":                                unlockExecution,
		"step_timeout":                          stepTimeout,
		"execution_timeout":                     executionTimeout,
		"start_when_entity_is_put":              startWhenEntityIsPut,
		"updates_apply_on_completion":           updatesApplyOnCompletion,
		"update_of_unlocked_entity":             updateOfUnlockedEntity,
		"large_results":                         largeResults,
		"fire_and_forget":                       fireAndForget,
		"cancel_waiting_execution":              cancelWaitingExecution,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if holdsSeveralCalls[name] {
				holding.Lock()
				defer holding.Unlock()
			}
			stack := *s
			stack.t = t
			scenario(&fixture{localStack: &stack, blocks: b, name: strings.ToLower(name)})
		})
	}
}

// holdsSeveralCalls names the scenarios that keep calls of blocks waiting until other calls have been made.
// The local worker has four processes, and each such call occupies one. So these scenarios run one after
// the other: several at a time could occupy all of them, and each wait for the others.
var holdsSeveralCalls = map[string]bool{
	"N04_illegal_transitions": true, "N04_illegal_transitions_while_running": true, "N18_barrier": true, "N18_barrier_in_pipelines": true,
	"N39_pipelines_rolled_back": true, "retry_in_pipelines": true, "rollback_policies": true,
}

var holding sync.Mutex

// publishExtra publishes another workflow of the fixture, as publishWorkflow does, and
// returns its reference.
func (c *fixture) publishExtra(name, extra string, steps ...string) string {
	c.t.Helper()
	source := fmt.Sprintf("package: test\nname: w-%s-%s\nversion: 1.0.0\nseedEntity: %s\n%ssteps:\n", c.name, name, c.entityType(), extra)
	for _, step := range steps {
		source += "  - {" + c.expandNames(step) + "}\n"
	}
	c.publish(source)
	return "test/w-" + c.name + "-" + name
}

// expandNames replaces the short names in a step.
func (c *fixture) expandNames(step string) string {
	return strings.NewReplacer("KIND", c.entityType(), "WF", "test/w-"+c.name, "block: ", "functionBlock: test/"+c.name+"-").Replace(step)
}

// startRef starts any workflow over ids of the fixture's type.
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

func (c *fixture) getExecution(id string) views.ExecutionView {
	c.t.Helper()
	x, err := c.Execution(c.t.Context(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	return x
}

// waitUntil polls an execution until a condition holds.
func (c *fixture) waitUntil(id, what string, ok func(views.ExecutionView) bool) (x views.ExecutionView) {
	c.t.Helper()
	eventually(c.t, what, func() bool {
		x = c.getExecution(id)
		return ok(x)
	})
	return x
}

// waitForKind polls an execution until it waits for something of the kind.
func (c *fixture) waitForKind(id string, kind workflow.WaitKind) views.ExecutionView {
	c.t.Helper()
	return c.waitUntil(id, fmt.Sprintf("%s waits for %s", id, kind), func(x views.ExecutionView) bool { return x.Waiting != nil && x.Waiting.Kind == kind })
}

// wantFailure checks why an execution has failed.
func (c *fixture) wantFailure(x views.ExecutionView, cause workflow.Cause, code, step string) {
	c.t.Helper()
	if x.Cause == nil || *x.Cause != cause || x.Reason == "" || x.Error == nil || x.Error.Code != code || deref(x.Error.Step) != deref(&step) {
		c.t.Errorf("cause %v, reason %q, error %+v; want %s, %s in step %s", deref(x.Cause), x.Reason, x.Error, cause, code, step)
	}
}

// entityAttributes reads the attributes of an entity of the fixture's type.
func (c *fixture) entityAttributes(id string) string {
	c.t.Helper()
	e, err := c.Entity(c.t.Context(), workflow.EntityKey{Type: c.entityType(), ID: id})
	if err != nil {
		c.t.Fatal(err)
	}
	return string(e.Attributes)
}

// wantAudit checks that the last event of a type names the actor and the reason.
func (c *fixture) wantAudit(id string, event sm.Event, reason string) {
	c.t.Helper()
	var last *workflow.Event
	for _, e := range c.history(id) {
		if e.Type == string(event) {
			last = &e
		}
	}
	if last == nil || last.Actor != "local" || !strings.Contains(string(last.Data), reason) {
		c.t.Errorf("%s has no audit entry with %q: %+v", event, reason, last)
	}
}
