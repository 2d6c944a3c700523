package engine

import "context"

// fetchPublished answers NeedPublished: up to which event the history of the execution has been
// published to its subscribers.
func (w *workspace) fetchPublished(ctx context.Context) error {
	o, err := w.ports.Store.ObservedThrough(ctx, w.tenant, w.id)
	if err != nil {
		w.facts.Published = nil
		return err
	}
	w.facts.Published, w.publishedRead = &o.Sequence, true
	return nil
}
