// Package chaos kills the real processes on the local stack at random, one or all of
// them, while executions that share devices run, and checks the result against what the
// devices have logged.
//
//   - chaos_test.go: the whole test, its length, its seed and its report.
//   - fixture_test.go: starts DynamoDB, the stack and the devices, and restarts what
//     was killed. killer_test.go: decides what is killed next.
//   - blocks_test.go: the definitions, and the blocks that are called over HTTP.
//     subscriber_test.go: a webhook that is told of all events.
//     operators_test.go: starts executions. verbs_test.go: what operators do with them.
//   - checker_test.go: the rules; calls_test.go: those about the calls of blocks. checker_rules_test.go: shows that each rule can be
//     violated.
//   - durability_test.go: checks that the local DynamoDB keeps acknowledged writes when
//     it is killed; otherwise killing it would prove nothing.
//
// The seed decides the executions and the order of the kills; what a process does at
// that moment depends on the machine. make test runs it briefly, make chaos MINUTES=5
// for longer.
package chaos

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

var (
	minutes = flag.Float64("minutes", 0.15, "for how long processes are killed")
	crowded = flag.Int("crowd", 100, "how many executions wait for one device")
	told    = flag.Bool("events", false, "whether a webhook is told of all events, and the function that tells is killed too")
	seed    = flag.Uint64("seed", 1, "decides the executions and the order of the kills")
)

const (
	deviceCount   = 24 // that the operators' executions change; one more has a crowd
	operatorCount = 12
	meanGap       = 350 * time.Millisecond // mean time between kills in the first round; later twice as long
)

// Operators start, cancel, answer, retry, unlock and acknowledge executions over the same devices, and
// a crowd waits for one device, while every process is killed repeatedly and messages are duplicated, delayed and reordered.
// Then the kills stop, all executions get time to end, and the devices' logs are
// checked, and with -events that the webhook was told of every event in the histories.
func TestChaos_NoWorkIsLostOrRepeated(t *testing.T) {
	f := newFixture(t, *seed, deviceCount+1)
	ready, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if err := f.prepare(ready); err != nil {
		t.Fatal(err)
	}
	if err := f.fleet.SetBehaviour(slowBehaviour(normalDelay), f.fleet.IDs()...); err != nil {
		t.Fatal(err)
	}
	length := time.Duration(*minutes * float64(time.Minute))
	during, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	all, cancel := context.WithTimeout(t.Context(), length+3*testTimeout)
	defer cancel()

	var operators sync.WaitGroup
	var number atomic.Int64
	for i := range operatorCount {
		o := &operator{fixture: f, random: rand.New(rand.NewPCG(*seed, uint64(i+1))), nextNumber: &number}
		operators.Go(func() { o.work(during, all) })
	}
	operating, operatorsDone := context.WithCancel(all)
	defer operatorsDone()
	acknowledged := make(chan error, 1)
	go func() { acknowledged <- f.acknowledgeLeftovers(all, operating) }()
	crowd := make(chan error, 1)
	go func() {
		err := f.startCrowd(all, *crowded)
		<-during.Done()
		if err == nil {
			err = f.cancelCrowd(all)
		}
		crowd <- err
	}()
	k := &killer{fixture: f, random: rand.New(rand.NewPCG(*seed, 0)), kills: map[string]int{}}
	k.killUntilDone(during, meanGap)
	f.addFaultCounts()
	f.setFaults("{}")
	start := time.Now()
	operators.Wait()
	if err := <-crowd; err != nil {
		t.Error(err)
	}
	operatorsDone()
	if err := <-acknowledged; err != nil {
		t.Error(err)
	}
	settled := time.Since(start)
	observed, err := f.observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	violations := findViolations(observed)
	if *told {
		testkit.EventuallyWithin(t, 10*time.Minute, 200*time.Millisecond, "the subscriber is told of every event", func() bool { return len(f.subscriber.missing(observed.executions)) == 0 })
		violations = append(violations, f.subscriber.missing(observed.executions)...)
		violations = append(violations, f.subscriber.problems...)
	}
	toldAfter := time.Since(start)
	for _, v := range violations {
		t.Error(v)
	}
	for _, x := range observed.executions {
		if strings.Contains(strings.Join(violations, "\n"), x.ID) {
			t.Log(x.describe())
		}
	}
	for _, what := range killRound {
		if k.kills[what] == 0 {
			t.Errorf("no kill of kind %s: the test is too short to prove anything", what)
		}
	}
	t.Log("\n" + report(f, k, observed, length, settled, toldAfter, violations))
}

// report is the summary of this test.
func report(f *fixture, k *killer, observed observations, length, settled, toldAfter time.Duration, violations []string) string {
	var s strings.Builder
	line := func(name string, value any) { fmt.Fprintf(&s, "%-28s %v\n", name, value) }
	line("seed", *seed)
	line("minutes", fmt.Sprintf("%.1f, and %.0f s to settle", length.Minutes(), settled.Seconds()))
	total := 0
	for _, what := range sortedKeys(k.kills) {
		line("kills: "+what, k.kills[what])
		total += k.kills[what]
	}
	line("kills", total)
	causes := map[string]int{}
	states, jobs, jobStates := map[string]int{}, 0, map[sm.JobState]int{}
	for _, x := range observed.executions {
		states[string(x.State)]++
		if x.Cause != nil {
			causes[string(*x.Cause)]++
		}
		jobs += len(x.jobs)
		for _, j := range x.jobs {
			jobStates[j.State]++
		}
	}
	line("executions", len(observed.executions))
	for _, state := range sortedKeys(states) {
		line("executions: "+state, states[state])
	}
	line("causes", causes)
	line("jobs", fmt.Sprint(jobs, " ", jobStates))
	line("calls of blocks", len(observed.calls))
	line("verbs", f.verbs)
	entries, repeats, rejected := 0, 0, 0
	for _, l := range observed.logs {
		for _, entry := range l {
			entries++
			if entry.Repeat {
				repeats++
			}
			if entry.Code == "stale_fence" {
				rejected++
			}
		}
	}
	line("device log entries", fmt.Sprintf("%d, %d repeats, %d rejected by their fence", entries, repeats, rejected))
	for _, what := range sortedKeys(f.faultTotals) {
		line("messages "+what, f.faultTotals[what])
	}
	if *told {
		events := 0
		for _, x := range observed.executions {
			events += len(x.events)
		}
		line("events", fmt.Sprintf("%d in histories, told in %d requests, of which %d were refused; %d were told again; the last %.0f s after the kills", events, f.subscriber.requests, f.subscriber.refused, f.subscriber.duplicates, toldAfter.Seconds()))
	}
	line("longest restart", f.longestRestart.Round(time.Millisecond))
	if len(violations) == 0 {
		line("verdict", "no work lost, no work repeated")
	} else {
		line("verdict", fmt.Sprint(len(violations), " violations"))
	}
	return s.String()
}

func faultCounts(url string) (map[string]int, error) {
	client := http.Client{Timeout: 2 * time.Second}
	reply, err := client.Get(url + "/_faults")
	if err != nil {
		return nil, err
	}
	defer func() { _ = reply.Body.Close() }() // already read
	var state struct{ Counts map[string]int }
	return state.Counts, json.NewDecoder(reply.Body).Decode(&state)
}
