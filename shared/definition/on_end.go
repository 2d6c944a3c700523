package definition

import (
	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// onEnd reads what the ends of an execution start.
func (r *reader) onEnd(o *spec.OnEnd) yamldoc.Field {
	followUp := func(into **spec.FollowUp) yamldoc.Field {
		return yamldoc.Optional(into, func(f *spec.FollowUp) yamldoc.Field {
			return yamldoc.Named("followUp", r.Object(yamldoc.Fields{
				"workflow":   r.reference(&f.Workflow).Required("name the workflow"),
				"parameters": r.Raw(&f.Parameters, true),
			}))
		})
	}
	return r.Object(yamldoc.Fields{
		"completed": followUp(&o.Completed),
		"failed":    followUp(&o.Failed),
		"cancelled": followUp(&o.Cancelled),
	})
}
