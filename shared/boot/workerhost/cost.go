package workerhost

import "github.com/lockstep-run/lockstep/shared/workflow"

// receiveCost is what receiving one message costs before anything is done with
// it: a share of an invocation, if there is one, and of the requests that receive
// and delete it. A polling worker receives and deletes one by one at worst.
func receiveCost(share float64) workflow.Cost {
	if share == 0 {
		return workflow.Cost{QueueRequests: 2}
	}
	return workflow.Cost{Invocations: share, QueueRequests: 2 * share}
}
