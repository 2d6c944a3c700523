package workflow

import "time"

// Retry repeats failed jobs of a step. Delays grow by Backoff each attempt.
type Retry struct {
	MaxRetries int      `json:"maxRetries"`         // 0 to 98; attempts are one more
	Delay      Duration `json:"delay,omitempty"`    // before the first repetition
	Backoff    float64  `json:"backoff,omitempty"`  // factor, 1 by default
	MaxDelay   Duration `json:"maxDelay,omitempty"` // 0 no cap
	Jitter     float64  `json:"jitter,omitempty"`   // 0 to 1, share of the delay that is random
	When       string   `json:"when,omitempty"`     // CEL over error; absent repeats retryable errors
}

// MaxRetries is the largest retry.maxRetries: the fence has two digits for the
// attempt.
const MaxRetries = 98

// DelayBefore is the delay before the given attempt (from 2), without jitter.
func (r *Retry) DelayBefore(attempt int) time.Duration {
	if r == nil || attempt < 2 {
		return 0
	}
	d, factor := float64(r.Delay), max(r.Backoff, 1)
	for range attempt - 2 {
		d *= factor
		if r.MaxDelay > 0 && d > float64(r.MaxDelay) {
			break
		}
		if d > float64(24*time.Hour) {
			return 24 * time.Hour
		}
	}
	if r.MaxDelay > 0 {
		d = min(d, float64(r.MaxDelay))
	}
	return time.Duration(d)
}
