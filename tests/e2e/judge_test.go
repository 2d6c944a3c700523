package e2e

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// judge reads what the blocks were asked to do, in the order in which it
// arrived, and says what must not be: on one entity, a run that comes back after
// another has begun, a token that changes within a run or falls from run to run,
// a fence that falls, or a key that stands for two jobs. In a run that takes its
// locks anew for another try a token may rise.
//
// Calls of pure blocks change nothing and are not judged: a copy of one may come
// at any time.
func judge(calls []call, pure, anew map[string]bool) (wrong []string) {
	type hold struct {
		execution string
		token     int64
	}
	holder := map[string]hold{}
	over := map[string]map[string]bool{} // entity: runs that another has followed
	fence := map[string]string{}
	key := map[string]string{}
	for i, c := range calls {
		if ref, _ := workflow.ParseRef(c.Block); c.Entity == nil || pure[ref.Name] {
			continue
		}
		bad := func(format string, args ...any) {
			wrong = append(wrong, fmt.Sprintf("call %d of %s on %s by %s: ", i, c.Block, c.on(), c.Job.Execution)+fmt.Sprintf(format, args...))
		}
		on := c.place()
		if c.Token == nil {
			bad("without a token")
			continue
		}
		was, held := holder[on]
		switch {
		case !held:
		case was.execution == c.Job.Execution && was.token != *c.Token && (was.token > *c.Token || !anew[c.Job.Execution]):
			bad("token %d after %d", *c.Token, was.token)
		case was.execution != c.Job.Execution && over[on][c.Job.Execution]:
			bad("it comes back after %s", was.execution)
		case was.execution != c.Job.Execution && was.token >= *c.Token:
			bad("token %d after %d of %s", *c.Token, was.token, was.execution)
		}
		if held && was.execution != c.Job.Execution {
			if over[on] == nil {
				over[on] = map[string]bool{}
			}
			over[on][was.execution] = true
		}
		holder[on] = hold{c.Job.Execution, *c.Token}
		if c.Fence < fence[on] {
			bad("fence %s after %s", c.Fence, fence[on])
		}
		fence[on] = max(fence[on], c.Fence)
		job := fmt.Sprint(c.Operation, c.Job.Execution, c.Job.Step, on, c.Job.Attempt)
		if c.key != c.Job.ID {
			bad("key %s of job %s", c.key, c.Job.ID)
		}
		if of, known := key[c.key]; known && of != job {
			bad("key %s stands for %s and %s", c.key, of, job)
		}
		key[c.key] = job
	}
	return wrong
}
