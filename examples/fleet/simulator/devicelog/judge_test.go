package devicelog_test

import (
	"testing"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator/devicelog"
)

// accepted is an entry as a good device writes it.
func accepted(seq int, o devicelog.Operation, requested, fence, key string, effective bool) devicelog.Entry {
	return devicelog.Entry{
		Seq: seq, Operation: o, Requested: requested, Fence: fence, Token: devicelog.LockToken(fence), IdempotencyKey: key,
		Accepted: true, Applied: true, Effective: effective, Outcome: devicelog.Answered,
	}
}

func overlapping(e devicelog.Entry, other int, callerGone bool) devicelog.Entry {
	e.Overlap, e.Overlaps, e.CallerGone = true, other, callerGone
	return e
}

func stale(e devicelog.Entry) devicelog.Entry {
	e.Accepted, e.Applied, e.Effective, e.Outcome, e.Code = false, false, false, devicelog.Refused, devicelog.CodeStaleFence
	return e
}

func TestJudge(t *testing.T) {
	const up, back, touch = devicelog.Upgrade, devicelog.Rollback, devicelog.Touch
	first := accepted(1, up, "2", "17-03-01", "a", true)
	for name, c := range map[string]struct {
		log  []devicelog.Entry
		want []devicelog.Rule
	}{
		"nothing happened":             {nil, nil},
		"upgrade and rollback":         {[]devicelog.Entry{first, accepted(2, back, "1", "17-04-01", "b", true)}, nil},
		"takeover":                     {[]devicelog.Entry{first, accepted(2, up, "2", "17-03-02", "a", false)}, nil},
		"late worker refused":          {[]devicelog.Entry{accepted(1, up, "2", "18-01", "a", true), stale(accepted(2, up, "3", "17-01", "b", true))}, nil},
		"late touch refused":           {[]devicelog.Entry{accepted(1, touch, "", "17-03-02", "a", true), stale(accepted(2, touch, "", "17-03-01", "a", true))}, nil},
		"fence decreased":              {[]devicelog.Entry{accepted(1, up, "2", "18-01", "a", true), accepted(2, up, "3", "17-01", "b", true)}, []devicelog.Rule{devicelog.FenceDecreased}},
		"applied twice":                {[]devicelog.Entry{first, accepted(2, back, "1", "17-04-01", "b", true), accepted(3, up, "2", "17-04-02", "a", true)}, []devicelog.Rule{devicelog.AppliedTwice}},
		"touched twice":                {[]devicelog.Entry{accepted(1, touch, "", "17-01", "a", true), accepted(2, touch, "", "17-02", "a", true)}, []devicelog.Rule{devicelog.StartedTwice, devicelog.AppliedTwice}},
		"touched under two keys":       {[]devicelog.Entry{accepted(1, touch, "", "17-01", "a", true), accepted(2, touch, "", "17-02", "b", true)}, nil},
		"one key, two tokens":          {[]devicelog.Entry{first, accepted(2, up, "2", "18-01", "a", false)}, []devicelog.Rule{devicelog.TokenChanged}},
		"one key, two targets":         {[]devicelog.Entry{first, accepted(2, up, "3", "17-03-02", "a", false)}, []devicelog.Rule{devicelog.KeyReused}},
		"one key, two operations":      {[]devicelog.Entry{first, accepted(2, back, "2", "17-03-02", "a", false)}, []devicelog.Rule{devicelog.KeyReused}},
		"overlap of two runs":          {[]devicelog.Entry{first, overlapping(accepted(2, up, "3", "18-01", "b", true), 1, false)}, []devicelog.Rule{devicelog.Overlapped}},
		"overlap of runs, caller gone": {[]devicelog.Entry{first, overlapping(accepted(2, up, "3", "18-01", "b", true), 1, true)}, []devicelog.Rule{devicelog.Overlapped}},
		"overlap within a run":         {[]devicelog.Entry{first, overlapping(accepted(2, back, "1", "17-04-01", "b", true), 1, false)}, []devicelog.Rule{devicelog.Overlapped}},
		"retry after a time-out":       {[]devicelog.Entry{first, overlapping(accepted(2, up, "2", "17-03-02", "b", false), 1, true)}, nil},
		"takeover of a slow one":       {[]devicelog.Entry{first, overlapping(accepted(2, up, "2", "17-03-02", "a", false), 1, false)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			found := devicelog.Judge("sw-001", c.log)
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

func TestLockToken(t *testing.T) {
	for fence, want := range map[string]uint64{
		"0000000017-0003-01-02": 17, "0000000018": 18, "": 0, "later": 0, "-1": 0,
	} {
		if got := devicelog.LockToken(fence); got != want {
			t.Errorf("token of %q is %d, want %d", fence, got, want)
		}
	}
}
