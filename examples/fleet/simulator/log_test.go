package simulator_test

import (
	"testing"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator"
)

// acceptedEntry returns an entry as a device without faults writes it.
func acceptedEntry(seq int, o simulator.Operation, requested, fence, key string, effective bool) simulator.LogEntry {
	return simulator.LogEntry{
		Seq: seq, Operation: o, Requested: requested, Fence: fence, Token: simulator.FenceLockToken(fence), IdempotencyKey: key,
		Accepted: true, Applied: true, Effective: effective, Outcome: simulator.OutcomeAnswered,
	}
}

func withOverlap(e simulator.LogEntry, other int, callerGone bool) simulator.LogEntry {
	e.Overlap, e.Overlaps, e.CallerGone = true, other, callerGone
	return e
}

func withStaleFence(e simulator.LogEntry) simulator.LogEntry {
	e.Accepted, e.Applied, e.Effective, e.Outcome, e.Code = false, false, false, simulator.OutcomeRefused, simulator.CodeStaleFence
	return e
}

func TestCheckLog_FindsViolations(t *testing.T) {
	const up, back, touch = simulator.OpUpgrade, simulator.OpRollback, simulator.OpTouch
	first := acceptedEntry(1, up, "2", "17-03-01", "a", true)
	for name, c := range map[string]struct {
		log  []simulator.LogEntry
		want []simulator.Rule
	}{
		"nothing happened":             {nil, nil},
		"upgrade and rollback":         {[]simulator.LogEntry{first, acceptedEntry(2, back, "1", "17-04-01", "b", true)}, nil},
		"takeover":                     {[]simulator.LogEntry{first, acceptedEntry(2, up, "2", "17-03-02", "a", false)}, nil},
		"late worker refused":          {[]simulator.LogEntry{acceptedEntry(1, up, "2", "18-01", "a", true), withStaleFence(acceptedEntry(2, up, "3", "17-01", "b", true))}, nil},
		"late touch refused":           {[]simulator.LogEntry{acceptedEntry(1, touch, "", "17-03-02", "a", true), withStaleFence(acceptedEntry(2, touch, "", "17-03-01", "a", true))}, nil},
		"fence decreased":              {[]simulator.LogEntry{acceptedEntry(1, up, "2", "18-01", "a", true), acceptedEntry(2, up, "3", "17-01", "b", true)}, []simulator.Rule{simulator.RuleFenceDecreased}},
		"applied twice":                {[]simulator.LogEntry{first, acceptedEntry(2, back, "1", "17-04-01", "b", true), acceptedEntry(3, up, "2", "17-04-02", "a", true)}, []simulator.Rule{simulator.RuleAppliedTwice}},
		"touched twice":                {[]simulator.LogEntry{acceptedEntry(1, touch, "", "17-01", "a", true), acceptedEntry(2, touch, "", "17-02", "a", true)}, []simulator.Rule{simulator.RuleStartedTwice, simulator.RuleAppliedTwice}},
		"touched under two keys":       {[]simulator.LogEntry{acceptedEntry(1, touch, "", "17-01", "a", true), acceptedEntry(2, touch, "", "17-02", "b", true)}, nil},
		"one key, two tokens":          {[]simulator.LogEntry{first, acceptedEntry(2, up, "2", "18-01", "a", false)}, []simulator.Rule{simulator.RuleTokenChanged}},
		"one key, two targets":         {[]simulator.LogEntry{first, acceptedEntry(2, up, "3", "17-03-02", "a", false)}, []simulator.Rule{simulator.RuleKeyReused}},
		"one key, two operations":      {[]simulator.LogEntry{first, acceptedEntry(2, back, "2", "17-03-02", "a", false)}, []simulator.Rule{simulator.RuleKeyReused}},
		"overlap of two runs":          {[]simulator.LogEntry{first, withOverlap(acceptedEntry(2, up, "3", "18-01", "b", true), 1, false)}, []simulator.Rule{simulator.RuleOverlapped}},
		"overlap of runs, caller gone": {[]simulator.LogEntry{first, withOverlap(acceptedEntry(2, up, "3", "18-01", "b", true), 1, true)}, []simulator.Rule{simulator.RuleOverlapped}},
		"overlap, same execution":      {[]simulator.LogEntry{first, withOverlap(acceptedEntry(2, back, "1", "17-04-01", "b", true), 1, false)}, []simulator.Rule{simulator.RuleOverlapped}},
		"retry after a timeout":        {[]simulator.LogEntry{first, withOverlap(acceptedEntry(2, up, "2", "17-03-02", "b", false), 1, true)}, nil},
		"takeover of a slow one":       {[]simulator.LogEntry{first, withOverlap(acceptedEntry(2, up, "2", "17-03-02", "a", false), 1, false)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			found := simulator.CheckLog("sw-001", c.log)
			if len(found) != len(c.want) {
				t.Fatalf("found %v, want %v", found, c.want)
			}
			for i, v := range found {
				if v.Rule != c.want[i] || v.Device != "sw-001" || v.Second != len(c.log) || v.First >= v.Second || v.Detail == "" {
					t.Errorf("found %s, want %s", v, c.want[i])
				}
			}
		})
	}
}

func TestFenceLockToken_ParsesFirstField(t *testing.T) {
	for fence, want := range map[string]uint64{
		"0000000017-000003-01-02": 17, "0000000018": 18, "": 0, "later": 0, "-1": 0,
	} {
		if got := simulator.FenceLockToken(fence); got != want {
			t.Errorf("token of %q is %d, want %d", fence, got, want)
		}
	}
}
