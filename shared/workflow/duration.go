package workflow

import (
	"fmt"
	"time"
)

// Duration is a time.Duration written as text in Go syntax, "90s" or "12m".
type Duration time.Duration

// Std is the value as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// MarshalText writes Go syntax.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads Go syntax.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("want a duration such as 90s or 12m, not %q", b)
	}
	*d = Duration(v)
	return nil
}
