package httpapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// A worker that polls gets the packs of the region that it names, and no others. What it claims belongs to
// that pool, so a later poll, heartbeat and result find it again.
func TestPoll_GetsPacksOfItsRegion(t *testing.T) {
	f := newPollFixture(t, 1, 2)
	f.PoolQueue("edge@eu")
	var x struct{ ID string }
	f.mustDo(&x, "POST", "/workflow-execution", `{"region":"eu",`+strings.TrimPrefix(fmt.Sprintf(startFormat, "slow", `"d001"`), "{"))
	f.Drain()
	f.start("d002")
	poll := func(worker, region string) string {
		a := f.do("POST", "/blackboard/job", `{"worker":"`+worker+`","blocks":["p/slow:1"],"wait":"0s"`+region+`}`)
		return string(a.body)
	}
	if got := poll("w-us", `,"region":"us"`); got != "" {
		t.Errorf("a worker of another region gets %s", got)
	}
	if got := poll("w-eu", `,"region":"eu"`); !strings.Contains(got, x.ID) || !strings.Contains(got, "d001") {
		t.Errorf("the worker of the region gets %q", got)
	}
	if got := poll("w-eu", `,"region":"eu"`); got != "" {
		t.Errorf("the worker of the region gets %s, too", got)
	}
	if got := poll("w-none", ""); !strings.Contains(got, "d002") {
		t.Errorf("a worker without a region gets %q", got)
	}
	var workers struct {
		Items []struct{ ID, Pool string }
	}
	f.mustDo(&workers, "GET", "/workers", "")
	for _, w := range workers.Items {
		if want := topology.PoolInRegion("edge", strings.TrimPrefix(strings.TrimPrefix(w.ID, "w-"), "none")); w.Pool != want {
			t.Errorf("%s is of the pool %s, want %s", w.ID, w.Pool, want)
		}
	}
	var pools struct{ Items []struct{ Pool string } }
	f.mustDo(&pools, "GET", "/blackboard/jobs", "")
	names := ""
	for _, p := range pools.Items {
		names += p.Pool + " "
	}
	if names != "default edge edge@eu edge@us " {
		t.Errorf("the pools are %s", names)
	}
}
