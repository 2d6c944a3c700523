package engine

import "context"

// fetchHandedOn answers NeedHandedOn: up to which event the history of the execution has been
// handed on to its subscribers.
func (w *workspace) fetchHandedOn(ctx context.Context) error {
	o, err := w.ports.Store.ObservedThrough(ctx, w.tenant, w.id)
	if err != nil {
		w.facts.HandedOn = nil
		return err
	}
	w.facts.HandedOn, w.handedOnRead = &o.Sequence, true
	return nil
}
