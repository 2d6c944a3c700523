package pool

import "github.com/lockstep-run/lockstep/shared/workflow"

// costOfShare is what receiving one message costs before anything is done with
// it: a share of an invocation, if there is one, and of the requests that receive
// and delete it. A polling worker receives and deletes one by one at worst.
func costOfShare(share float64) workflow.Cost {
	if share == 0 {
		return workflow.Cost{Queue: 2}
	}
	return workflow.Cost{Functions: share, Queue: 2 * share}
}
