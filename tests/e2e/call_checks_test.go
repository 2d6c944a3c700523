package e2e

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// checkCalls reads what the blocks were asked to do, in the order in which it
// arrived, and says what must not be: on one entity, a run that comes back after
// another has begun, a token that changes within a run or falls from run to run,
// a fence that falls, or a key that stands for two jobs. In a run that takes its
// locks anew for another try a token may rise.
//
// Calls of pure blocks change nothing and are not judged: a copy of one may come
// at any time.
func checkCalls(calls []call, pure, relocked map[string]bool) (wrong []string) {
	type hold struct {
		execution string
		token     int64
	}
	holder := map[string]hold{}
	superseded := map[string]map[string]bool{} // entity: runs that another has followed
	fence := map[string]string{}
	key := map[string]string{}
	for i, c := range calls {
		if ref, _ := workflow.ParseRef(c.Block); c.Entity == nil || pure[ref.Name] {
			continue
		}
		report := func(format string, args ...any) {
			wrong = append(wrong, fmt.Sprintf("call %d of %s on %s by %s: ", i, c.Block, c.entityID(), c.Job.Execution)+fmt.Sprintf(format, args...))
		}
		on := c.entityKey()
		if c.Token == nil {
			report("without a token")
			continue
		}
		was, held := holder[on]
		switch {
		case !held:
		case was.execution == c.Job.Execution && was.token != *c.Token && (was.token > *c.Token || !relocked[c.Job.Execution]):
			report("token %d after %d", *c.Token, was.token)
		case was.execution != c.Job.Execution && superseded[on][c.Job.Execution]:
			report("it comes back after %s", was.execution)
		case was.execution != c.Job.Execution && was.token >= *c.Token:
			report("token %d after %d of %s", *c.Token, was.token, was.execution)
		}
		if held && was.execution != c.Job.Execution {
			if superseded[on] == nil {
				superseded[on] = map[string]bool{}
			}
			superseded[on][was.execution] = true
		}
		holder[on] = hold{c.Job.Execution, *c.Token}
		if c.Fence < fence[on] {
			report("fence %s after %s", c.Fence, fence[on])
		}
		fence[on] = max(fence[on], c.Fence)
		job := fmt.Sprint(c.Operation, c.Job.Execution, c.Job.Step, on, c.Job.Attempt)
		if c.key != c.Job.ID {
			report("key %s of job %s", c.key, c.Job.ID)
		}
		if of, known := key[c.key]; known && of != job {
			report("key %s stands for %s and %s", c.key, of, job)
		}
		key[c.key] = job
	}
	return wrong
}
