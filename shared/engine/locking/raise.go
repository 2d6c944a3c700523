package locking

import "context"

// raise is for a lock item that was written last before the tables were set back,
// or never: every token from now on is greater than the floor, and so greater than
// any that was given out before and that the tables have forgotten.
//
// Nobody who is at work now has written the item. So it is no lock of the run's
// own, whatever it says, and its owner's state was not read too early: the tables
// were not set back to the very same moment. What is held by somebody stays held.
func (a *acquisition) raise(ctx context.Context, r *evaluatedLock) error {
	if r.status == lockConflict {
		return nil
	}
	ok, err := a.Locks.RaiseRevision(ctx, a.Tenant, r.lock.Entity, a.MinFencingToken, r.lock.Revision)
	if err != nil {
		return err
	}
	if r.status = lockUncertain; ok {
		r.status, r.lock.Revision = lockFree, a.MinFencingToken
	}
	return nil
}
