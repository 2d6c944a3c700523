package config_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/config"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func TestDefaults(t *testing.T) {
	c, err := config.Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(c.SweepInterval, c.Poll, c.Job.Heartbeat, c.Job.Stuck, c.Job.Unclaimed, c.Clock, c.Pack.MessageLife, c.Lock.Wait)
	if want := "1m0s 1m0s 20s 12m0s 1h0m0s {2s 5s 2s} 24h0m0s 1h0m0s"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestShortLease: what trusts clocks shrinks with the lease.
func TestShortLease(t *testing.T) {
	c, err := config.Parse([]byte("sweepInterval: 1s\njob: {lease: 3s}\nclock: {margin: 1s}\n"), []string{"LOCKSTEP_JOB_UNCLAIMED=20s", "LOCKSTEP_WORKER_ALLOW_HOSTS=a,b:80", "OTHER=1"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Clock != (config.Clock{Skew: 100 * time.Millisecond, Grace: 250 * time.Millisecond, Margin: time.Second}) || c.Poll != 3*time.Second {
		t.Errorf("%+v, poll %s", c.Clock, c.Poll)
	}
	if c.Job.Unclaimed != 20*time.Second || len(c.Worker.AllowHosts) != 2 {
		t.Errorf("variables are not read: %+v", c)
	}
}

// TestRefused: every mistake is told with its place.
func TestRefused(t *testing.T) {
	for source, want := range map[string]string{
		"jobs: {}\n":                   "1 jobs unknown_field",
		"job:\n  leese: 3s\n":          "2 leese unknown_field",
		"job: {lease: soon}\n":         "0  syntax",
		"job: {lease: 1s\n":            "1 { syntax",
		"job: {heartbeat: 50s}\n":      "0 job.heartbeat range",
		"pack: {size: 0}\n":            "0 pack.size range",
		"job: {maxTakeovers: 100}\n":   "0 job.maxTakeovers range",
		"log: {level: loud}\n":         "0 log.level range",
		"worker: {unreachable: 10s}\n": "0 worker.unreachable range",
	} {
		_, err := config.Parse([]byte(source), nil)
		var e *workflow.Error
		if !errors.As(err, &e) || e.Code != workflow.CodeInvalid {
			t.Errorf("%q: got %v", source, err)
			continue
		}
		i := e.Issues[0]
		if got := fmt.Sprintf("%d %s %s", i.Line, i.Path, i.Code); got != want {
			t.Errorf("%q: got %q, want %q (%s)", source, got, want, i.Message)
		}
	}
	if _, err := config.Parse(nil, []string{"LOCKSTEP_JOB_LEASE=soon"}); err == nil {
		t.Error("a bad variable is accepted")
	}
}
