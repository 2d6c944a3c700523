package engine

import "context"

// fetchHandedOn answers NeedHandedOn: how far the events of the execution have been handed on to
// those who observe it.
func (w *workspace) fetchHandedOn(ctx context.Context) error {
	o, err := w.ports.Store.ObservedThrough(ctx, w.tenant, w.id)
	if err != nil {
		w.facts.HandedOn = nil
		return err
	}
	w.facts.HandedOn, w.handedOnRead = &o.Sequence, true
	return nil
}
