package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Retry repeats failed jobs of a step. The delay grows by the factor Backoff with each
// attempt.
type Retry struct {
	MaxRetries int      `json:"maxRetries"`         // 0 to 98; the number of attempts is one more
	Delay      Duration `json:"delay,omitempty"`    // before the second attempt
	Backoff    float64  `json:"backoff,omitempty"`  // factor, 1 by default
	MaxDelay   Duration `json:"maxDelay,omitempty"` // 0 no cap
	Jitter     float64  `json:"jitter,omitempty"`   // 0 to 1, the random share of the delay
	On         []string `json:"on,omitempty"`       // codes of failures to retry; if empty, all retryable failures
	When       string   `json:"when,omitempty"`     // CEL over error, instead of On
	Fresh      bool     `json:"fresh,omitempty"`    // the next attempt gets no checkpoints from the previous one
}

// Retries reports whether On allows a retry of the failure.
func (r *Retry) Retries(f *Failure) bool {
	if r == nil || len(r.On) == 0 {
		return f.Retryable
	}
	return slices.Contains(r.On, f.Code)
}

// MaxRetries is the largest retry.maxRetries: the fence has two digits for the attempt.
const MaxRetries = 98

// DelayBefore returns the delay before an attempt, from 2, without jitter.
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

// MaxRetryAfter is the longest pause that a response can ask for.
const MaxRetryAfter = time.Hour

// RetryAfter returns the pause that an HTTP server has asked for with its failure: retryAfter in
// the details, in seconds.
func (f *Failure) RetryAfter() time.Duration {
	if f == nil || !strings.HasPrefix(f.Code, "HTTP_") || len(f.Details) == 0 {
		return 0
	}
	var details struct {
		RetryAfter float64 `json:"retryAfter"`
	}
	if json.Unmarshal(f.Details, &details) != nil || !(details.RetryAfter > 0) {
		return 0
	}
	return time.Duration(min(details.RetryAfter, MaxRetryAfter.Seconds()) * float64(time.Second))
}

// RetryAfter returns the longest pause that the responses to the jobs at the indexes have asked
// for.
func (p *Pack) RetryAfter(indexes []int) (longest time.Duration) {
	for i := range p.Jobs {
		if slices.Contains(indexes, p.Jobs[i].Index) {
			longest = max(longest, p.Jobs[i].Failure.RetryAfter())
		}
	}
	return longest
}

// Duration is a time.Duration written as text in Go syntax, "90s" or "12m".
type Duration time.Duration

// Std returns the value as a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// MarshalText writes the duration in Go syntax.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads a duration in Go syntax.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("want a duration such as 90s or 12m, not %q", b)
	}
	*d = Duration(v)
	return nil
}
