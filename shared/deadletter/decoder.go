package deadletter

import (
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Decoder reads the bodies of messages.
type Decoder struct {
	Wakeup func(body string) (workflow.Wakeup, error)
	Pack   func(body string) (*workflow.PackMessage, error)
}

// subject is what a message is about.
type subject struct {
	tenant, execution, step string
	jobs                    []string
}

// subjectOf reads a message of the queue. One that cannot be read is nobody's.
func (d Decoder) subjectOf(queue, body string) (subject, bool) {
	if queue == topology.QueueLifecycle {
		l, err := d.Wakeup(body)
		return subject{tenant: l.Tenant, execution: l.Execution}, err == nil
	}
	m, err := d.Pack(body)
	if err != nil {
		return subject{}, false
	}
	s := subject{tenant: m.Key.Tenant, execution: m.Key.Execution, step: m.Work.Step}
	for _, j := range m.Jobs {
		s.jobs = append(s.jobs, workflow.JobID(m.Key.Execution, m.Key.StepRunSeq, j.Index, m.Key.Attempt))
	}
	return s, true
}
