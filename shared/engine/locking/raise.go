package locking

import "context"

// raise is for a lock item that was written last before the tables were set back,
// or never: every token from now on is greater than the floor, and so greater than
// any that was given out before and that the tables have forgotten.
//
// Nobody who is at work now has written the item. So it is no lock of the run's
// own, whatever it says, and its owner's state was not read too early: the tables
// were not set back to the very same moment. What is held by somebody stays held.
func (a *attempt) raise(ctx context.Context, r *reading) error {
	if r.verdict == conflict {
		return nil
	}
	ok, err := a.Locks.Raise(ctx, a.Tenant, r.lock.Entity, a.Floor, r.lock.Rev)
	if err != nil {
		return err
	}
	if r.verdict = unsure; ok {
		r.verdict, r.lock.Rev = free, a.Floor
	}
	return nil
}
