package workflow

import "time"

// RateState is the state of a rate limit: the time at which everything so far will be made up for,
// and how often it has happened. It implements the generic cell rate algorithm.
type RateState struct {
	FreeAt   time.Time
	Sequence int64
}

// Take returns the state after one more use at now, and how long that use must wait. If that is
// longer than within, nothing is taken. Times have the resolution in which they are stored:
// microseconds.
func (s RateState) Take(r Rate, within time.Duration, now time.Time) (next RateState, wait time.Duration) {
	free := s.FreeAt
	if free.Before(now) {
		free = now
	}
	free = free.Add(r.Each())
	wait = max(0, free.Sub(now.Add(r.Per)))
	if wait > within {
		return s, wait
	}
	return RateState{free, s.Sequence + 1}, wait
}

// Use returns what is left of the rate at now, after a use that has to wait so long, or has not
// been taken.
func (s RateState) Use(r Rate, wait time.Duration, now time.Time) RateUse {
	u := RateUse{Rate: r, Sequence: s.Sequence, Wait: wait}
	spare := r.Per
	if s.FreeAt.After(now) {
		spare -= s.FreeAt.Sub(now)
	}
	if spare > 0 {
		u.Remaining = int(spare / r.Each())
	}
	u.Reset = time.Duration(u.Remaining+1)*r.Each() - spare
	return u
}

// RateUse is one use of a rate, and what is left of the rate after it.
type RateUse struct {
	Rate      Rate
	Sequence  int64         // number of uses so far; 0 if nothing was taken
	Wait      time.Duration // how long the use has to wait; if nothing was taken, until one more is free
	Remaining int           // how many more may be taken at once
	Reset     time.Duration // after which one more may be taken than Remaining
}
