package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// countingStore counts which executions are read.
type countingStore struct {
	port.Store
	read *[][]string // executions, by call
}

func (c countingStore) LoadMany(ctx context.Context, tenant string, ids []string) ([]*workflow.Execution, []string, error) {
	*c.read = append(*c.read, slices.Clone(ids))
	return c.Store.LoadMany(ctx, tenant, ids)
}

// Only as many previous holders of an entity are read as needed to decide whether it was changed:
// up to the first one that has changed something, and never more than ten whole executions at once.
// Holders before that one, which changed nothing, are not named.
func TestRetry_ReadsHoldersUpToTheFirstThatChangedSomething(t *testing.T) {
	const devices = 12
	for name, test := range map[string]struct {
		others []string // the workflows that have the devices after it, each of its own execution
		most   int      // executions read, for each device
		named  int      // the first other holder that is named; -1 for none: the retry continues
	}{
		"the first one":    {[]string{"other", "look", "other", "look"}, 1, 0},
		"the third one":    {[]string{"look", "look", "other", "other"}, 3, 2},
		"only one looked":  {[]string{"look"}, 1, -1},
		"nobody was there": {nil, 0, -1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, devices)
			mended := false
			s.Script = failUntil("check", "d000", &mended)
			s.Publish("w", stepsYAML("read pure device", "check pure device"))
			s.Publish("other", changeOnly)
			s.Publish("look", stepsYAML("look pure device"))
			var ids []string
			for i := range devices {
				ids = append(ids, fmt.Sprintf("d%03d", i))
			}
			id := s.Start("w", ids...)
			settle(s)
			s.ExpectState(id, sm.ExecutionFailedSafeAck)
			var first string
			for n, flow := range test.others {
				for i, device := range ids {
					other := s.Start(flow, device)
					settle(s)
					s.ExpectState(other, sm.ExecutionCompletedAck)
					if n == test.named && i == 0 {
						first = other
					}
				}
			}
			var read [][]string
			open := s.Engine.OpenPorts
			s.Engine.OpenPorts = func() port.Ports {
				p := open()
				p.Store = countingStore{p.Store, &read}
				return p
			}
			if first != "" {
				err := retryError(s, id, views.RetryRequest{Entities: views.RetryAll, From: "check"})
				var coded *workflow.Error
				if !errors.As(err, &coded) || len(coded.Issues) != 10 || !strings.HasPrefix(coded.Issues[0].Message, "device/d000: executions "+first) {
					t.Errorf("want %s to be the first: %v", first, err)
				}
			} else {
				retry(s, id, views.RetryRequest{Entities: views.RetryAll, From: "check"})
			}
			total := map[string]bool{}
			for _, call := range read {
				if len(call) > 10 {
					t.Errorf("%d executions are read at once", len(call))
				}
				for _, one := range call {
					total[one] = true
				}
			}
			if len(total) > min(20, test.most*devices) {
				t.Errorf("%d executions are read", len(total))
			}
		})
	}
}
