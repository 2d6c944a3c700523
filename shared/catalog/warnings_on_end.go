package catalog

import (
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// checkFollowUp warns about a follow-up that cannot be started, or that starts itself until the
// limit.
func (w *warner) checkFollowUp(d *spec.Definition, f *spec.FollowUp, path string) error {
	ref, err := workflow.ParseRef(f.Workflow)
	if err != nil {
		return err
	}
	finder := cycleFinder{w.registry, w.tenant, d, nil}
	exact, found, err := finder.resolve(w.ctx, ref)
	if err != nil {
		return err
	}
	if !found {
		w.warn(path+".workflow", "unknown_workflow", "no published workflow matches %s; nothing is started until one is published", f.Workflow)
		return nil
	}
	started := d
	if exact == d.Ref() {
		w.warn(path+".workflow", "starts_itself", "the end starts the same workflow, %d times in a row at most", workflow.MaxDepth)
	} else if started, err = w.published(exact); err != nil {
		return err
	}
	for _, i := range parameterIssues(started.Parameters, f.Parameters, nil, path) {
		w.warn(i.Path, i.Code, "%s (workflow %s)", i.Message, exact)
	}
	for _, name := range workflow.SealedProperties(started.Parameters) {
		w.warn(path+".workflow", "sealed", "parameters.%s of %s is sealed: only a request can give it", name, exact)
	}
	return nil
}
