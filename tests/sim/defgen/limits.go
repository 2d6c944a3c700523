package defgen

import (
	"fmt"
	"time"
)

// Limits bound how many executions of a definition are live at a time, and how often one begins.
type Limits struct {
	Live   int  // 0 for no limit
	ByKey  bool // of those with the same parameter n
	Starts int  // in a burst, then one in each part of a minute; 0 for no limit
}

// Each returns the time after which one more execution may begin.
func (l *Limits) Each() time.Duration { return time.Minute / time.Duration(l.Starts) }

// GenerateSets generates a definition as [GenerateLimited] does, with a step that starts an execution for each
// of some devices.
func GenerateSets(choose Choose, references []string) *Definition {
	d := GenerateLimited(choose, references)
	if set := drawChildSet(choose, references); set != nil {
		d.Steps, d.StartsSets = append(d.Steps, set), true
	}
	return d
}

// GenerateLimited generates a definition with limits. Some of its steps have a pace.
func GenerateLimited(choose Choose, references []string) *Definition {
	d := GenerateAny(choose, references)
	d.Limits, d.Unpredictable = &Limits{ByKey: choose.oneIn("by key", 2)}, true
	key := ""
	if d.Limits.ByKey {
		key = `, key: "${parameters.n}"`
	}
	if choose("limit", 3) > 0 {
		d.Limits.Live = 1 + choose("live", 2)
		d.ConfigFields = append(d.ConfigFields, fmt.Sprintf("concurrency: {limit: %d%s, onLimit: %s}", d.Limits.Live, key, pick(choose, "on limit", "wait", "wait", "fail")))
	}
	if choose.oneIn("rate", 2) {
		d.Limits.Starts = 1 + choose("starts", 3)
		d.ConfigFields = append(d.ConfigFields, fmt.Sprintf("rate: {limit: %d/1m%s}", d.Limits.Starts, key))
	}
	walkSteps(d.Steps, false, func(s *Step, _ bool) {
		if _, ok := s.Body.(*Block); ok && choose.oneIn("pace", 3) {
			s.Pace = pick(choose, "of", 3*time.Second, 12*time.Second)
			s.addField("pace: %d/1m", time.Minute/s.Pace)
		}
	})
	return d
}
