package architecture

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// What DynamoDB takes of one partition key in a second.
const (
	keyWrites = 1000
	keyReads  = 3000
)

// thousands is a number as the pages write it.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// The ceilings of hot keys that docs/limits.md names follow from the shards of the indexes.
func TestLimitsPage_HotKeysFollowFromTheShards(t *testing.T) {
	page := string(readFile(t, "docs/limits.md"))
	_, page, _ = strings.Cut(page, "## Hot keys")
	page, _, _ = strings.Cut(page, "\n## ")
	hundreds := func(n int) int { return n / 100 * 100 }
	const moves, timers = 2, 6 // units of an entry that moves; commits of an execution that move its timer
	due, status := topology.DueShards*keyWrites, topology.StatusShards*keyWrites
	indexes := 0
	for _, of := range topology.Indexes {
		for _, index := range of {
			if index.Name != topology.IndexByStatus.Name {
				indexes++
			}
		}
	}
	const ( // the state item of a holder with a full waiter set
		weakRead     = 1.25 // units
		firstPolls   = 7.5  // seconds over which the first polls of those spread that begin to wait together
		pauseOfPolls = 37.5 // seconds, later, with a poll of a minute
	)
	for what, says := range map[string]string{
		"a key":              fmt.Sprintf("takes %s write units and %s read units a second of one partition key", thousands(keyWrites), thousands(keyReads)),
		"index due":          fmt.Sprintf("index `due` (%d, by a hash of the execution's id): %s write units a second", topology.DueShards, thousands(due)),
		"moving timers":      fmt.Sprintf("about %s executions a second start and end", thousands(hundreds(due/moves/timers))),
		"one device":         fmt.Sprintf("enters it and leaves it, once each: %s a second", thousands(due/moves)),
		"index by-status":    fmt.Sprintf("index `by-status` (%d for each tenant and state): %s write units a second", topology.StatusShards, thousands(status)),
		"passing a state":    fmt.Sprintf("about %s executions a second of one tenant pass a state", thousands(status/moves)),
		"workers and cron":   fmt.Sprintf("indexes `workers-due`, `scheduled` (%d each): %s heartbeats or firings a second", topology.DueShards, thousands(due)),
		"waiters":            fmt.Sprintf("fewer than %d are registered", workflow.MaxWaiters),
		"waiters that poll":  fmt.Sprintf("%s that have begun together, or %s after two minutes, are as many as one item can bear", thousands(int(keyReads/weakRead*firstPolls)), thousands(int(keyReads/weakRead*pauseOfPolls))),
		"waiters that start": fmt.Sprintf("%.2f read units, so %d a second can start to wait for one holder", 3*weakRead, int(keyReads/weakRead/3)),
		"a sweep":            fmt.Sprintf("One sweep a minute reads %d index shards (%d of each of three indexes)", indexes*topology.DueShards, topology.DueShards),
	} {
		if !strings.Contains(page, says) {
			t.Errorf("%s: docs/limits.md does not say %q", what, says)
		}
	}
}
