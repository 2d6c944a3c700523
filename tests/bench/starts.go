package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	localstack "github.com/lockstep-run/lockstep/localstack/stack"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// An execution is watched until it ends, and for startWatched at most, but until its first job has
// completed for startTimeout.
const (
	startWatched = 2 * time.Minute
	startTimeout = 15 * time.Minute
)

// benchStarts prints how long executions over many entities with so many bytes of attributes take to start, in both
// strategies, and the most memory that a process of a function has taken for each. Each has a stack of its own: a
// process keeps the memory that it once had.
func benchStarts(ctx context.Context, out io.Writer, binary, sizes string, attributes int) error {
	for size := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.Atoi(size)
		if err != nil {
			return err
		}
		for _, parallel := range []bool{false, true} {
			if err := benchStart(ctx, out, binary, n, attributes, parallel); err != nil {
				return err
			}
		}
	}
	return nil
}

func benchStart(ctx context.Context, out io.Writer, binary string, n, attributes int, parallel bool) error {
	local, s, err := startWatchedStack(ctx, binary)
	if err != nil {
		return err
	}
	defer local.Close()
	defer func() { _ = s.blocks.Close() }()
	if err := s.prepare(ctx, 1, 1); err != nil {
		return err
	}
	if err := s.importDevices(ctx, n, attributes); err != nil {
		return err
	}
	_, _, err = s.Publish(ctx, fmt.Appendf(nil, "package: bench\nname: start\nversion: 1.0.0\nseedEntity: device\nconfig: {executionStrategy: {parallel: %t}}\n"+
		"steps:\n  - {label: one, functionBlock: 'bench/work:1', runOn: device, parameters: {site: '${entity.site}'}}\n"+
		"  - {label: two, functionBlock: 'bench/work:1', runOn: device, parameters: {was: '${one.result.version}'}}\n", parallel), false)
	if err != nil {
		return err
	}
	began := time.Now()
	started, _, err := s.Start(ctx, views.StartRequest{Workflow: "bench/start", ExecuteOnParameters: &workflow.Selector{Groups: []string{"fleet"}}})
	if err != nil {
		return err
	}
	watched, stop := context.WithTimeout(ctx, startTimeout)
	defer stop()
	var first time.Duration // until a job has completed
	x, err := s.Wait(watched, started.ID, 10*pollInterval, func(x views.ExecutionView) {
		if first == 0 && x.Progress.Jobs.Completed > 0 {
			first = time.Since(began)
		}
		if first > 0 && time.Since(began) > startWatched {
			stop()
		}
	})
	if watched.Err() != nil && ctx.Err() == nil { // it goes on, and its start was long ago
		x, err = s.Execution(ctx, started.ID)
	}
	if err != nil {
		return err
	}
	if x.StartedAt == nil || first == 0 || x.EndedAt != nil && (x.State != sm.ExecutionCompletedAck || x.Progress.Jobs.Completed != 2*n) {
		return fmt.Errorf("the execution over %d devices is in %s with %d jobs completed", n, x.State, x.Progress.Jobs.Completed)
	}
	strategy := "steps"
	if parallel {
		strategy = "parallel"
	}
	name := fmt.Sprintf("start_%s_%d", strategy, n)
	printFigure(out, name, x.StartedAt.Sub(x.CreatedAt).Seconds(), "s")
	printFigure(out, name+"_first_job", first.Seconds(), "s")
	printFigure(out, name+"_watched", time.Since(began).Seconds(), "s")
	printFigure(out, name+"_jobs_completed", float64(x.Progress.Jobs.Completed), "jobs")
	_, err = printMemory(out, local, name)
	return err
}

// startWatchedStack starts a local stack in this process, whose functions can be watched.
func startWatchedStack(ctx context.Context, binary string) (*localstack.Stack, *stack, error) {
	local, err := localstack.Start(ctx, localstack.Options{BinDir: filepath.Dir(binary), Log: io.Discard})
	if err != nil {
		return nil, nil, err
	}
	s, err := serveBlocks()
	if err == nil {
		s.Client, err = client.New(client.Options{URL: local.URL()})
	}
	if err != nil {
		local.Close()
	}
	return local, s, err
}

// printMemory prints the most memory that a process of each function has had, and returns the most of all.
func printMemory(out io.Writer, local *localstack.Stack, name string) (all float64, err error) {
	for _, function := range []string{topology.FunctionAPI, topology.FunctionLifecycle, topology.FunctionWorker} {
		most := 0.0
		for _, pid := range local.Processes(function) {
			used, err := peakMemory(pid)
			if err != nil {
				return 0, err
			}
			most = max(most, used)
		}
		printFigure(out, name+"_"+function+"_memory", most, "MB")
		all = max(all, most)
	}
	return all, nil
}

// peakMemory is the most memory in MB that a process has had, its program included.
func peakMemory(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			return float64(kb) / 1024, err
		}
	}
	return 0, fmt.Errorf("this system does not say how much memory a process has had")
}
