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
)

var (
	minutes = flag.Float64("minutes", 0.15, "how long to kill")
	seed    = flag.Uint64("seed", 1, "what is run, and who is killed in which order")
)

// The size of it.
const (
	deviceCount   = 24
	operatorCount = 12
	meanGap       = 350 * time.Millisecond // the mean between two blows in the first round; then twice as long
)

// TestChaos_NoWorkIsLostOrRepeated lets operators start, cancel, retry and acknowledge runs over the
// same devices while every process of the system is killed again and again, and
// messages come twice, late and in any order. Then nobody kills any more,
// everything is given time to end, and the devices are asked.
func TestChaos_NoWorkIsLostOrRepeated(t *testing.T) {
	r := newFixture(t, *seed, deviceCount)
	ready, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if err := r.prepare(ready); err != nil {
		t.Fatal(err)
	}
	if err := r.fleet.SetBehaviour(slowBehaviour(normalDelay), r.fleet.IDs()...); err != nil {
		t.Fatal(err)
	}
	length := time.Duration(*minutes * float64(time.Minute))
	during, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	all, cancel := context.WithTimeout(t.Context(), length+3*testTimeout)
	defer cancel()

	var working sync.WaitGroup
	var number atomic.Int64
	for i := range operatorCount {
		o := &operator{fixture: r, random: rand.New(rand.NewPCG(*seed, uint64(i+1))), nextNumber: &number}
		working.Go(func() { o.work(during, all) })
	}
	atWork, over := context.WithCancel(all)
	defer over()
	tended := make(chan error, 1)
	go func() { tended <- r.acknowledgeLeftovers(all, atWork) }()
	k := &killer{fixture: r, random: rand.New(rand.NewPCG(*seed, 0)), kills: map[string]int{}}
	k.killUntilDone(during, meanGap)
	r.addFaultCounts()
	r.setFaults("{}")
	began := time.Now()
	working.Wait()
	over()
	if err := <-tended; err != nil {
		t.Error(err)
	}
	settled := time.Since(began)
	e, err := r.observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := findViolations(e)
	for _, f := range found {
		t.Error(f)
	}
	for _, what := range killRound {
		if k.kills[what] == 0 {
			t.Errorf("nobody was killed as %s: the test is too short to say anything", what)
		}
	}
	t.Log("\n" + report(r, k, e, length, settled, found))
}

// report is what is noted of a run of this test.
func report(r *fixture, k *killer, e observations, length, settled time.Duration, found []string) string {
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
	for _, run := range e.executions {
		states[string(run.State)]++
		if run.Cause != nil {
			causes[string(*run.Cause)]++
		}
		jobs += len(run.jobs)
		for _, j := range run.jobs {
			jobStates[j.State]++
		}
	}
	line("runs", len(e.executions))
	for _, state := range sortedKeys(states) {
		line("runs: "+state, states[state])
	}
	line("causes", causes)
	line("jobs", fmt.Sprint(jobs, " ", jobStates))
	entries, repeats, refused := 0, 0, 0
	for _, l := range e.logs {
		for _, entry := range l {
			entries++
			if entry.Repeat {
				repeats++
			}
			if entry.Code == "stale_fence" {
				refused++
			}
		}
	}
	line("device log entries", fmt.Sprintf("%d, %d repeats, %d refused by their fence", entries, repeats, refused))
	for _, what := range sortedKeys(r.faultTotals) {
		line("messages "+what, r.faultTotals[what])
	}
	line("longest restart", r.longestRestart.Round(time.Millisecond))
	if len(found) == 0 {
		line("verdict", "nothing lost, nothing twice")
	} else {
		line("verdict", fmt.Sprint(len(found), " violations"))
	}
	return s.String()
}

func faultCounts(url string) (map[string]int, error) {
	client := http.Client{Timeout: 2 * time.Second}
	reply, err := client.Get(url + "/_faults")
	if err != nil {
		return nil, err
	}
	defer func() { _ = reply.Body.Close() }() // it has been read
	var state struct{ Counts map[string]int }
	return state.Counts, json.NewDecoder(reply.Body).Decode(&state)
}
