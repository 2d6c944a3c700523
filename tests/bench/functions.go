package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	localstack "github.com/lockstep-run/lockstep/localstack/stack"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

const (
	coldStarts        = 20   // of each function
	functionWarmups   = 30   // executions before those that are measured
	functionsMeasured = 300  // executions
	functionFleet     = 1000 // devices of one execution, in packs of ten
)

// benchFunctions prints how long the functions take to start, and what executions take of them:
// processor time, and the time that Lambda bills, which includes the waiting for answers.
func benchFunctions(ctx context.Context, out io.Writer, binary string, latency time.Duration) error {
	for _, name := range topology.Functions {
		if err := benchColdStart(ctx, out, name, filepath.Join(filepath.Dir(binary), "functions", name, "bootstrap")); err != nil {
			return err
		}
	}
	p, err := startProxied(ctx, binary)
	if err != nil {
		return err
	}
	defer p.close()
	for _, variable := range p.env { // the stack reads them
		name, value, _ := strings.Cut(variable, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	local, err := localstack.Start(ctx, localstack.Options{BinDir: filepath.Dir(binary), Log: io.Discard})
	if err != nil {
		return err
	}
	defer local.Close()
	s, err := serveBlocks()
	if err != nil {
		return err
	}
	defer func() { _ = s.blocks.Close() }()
	if s.Client, err = client.New(client.Options{URL: local.URL()}); err != nil {
		return err
	}
	if err := s.prepare(ctx, functionFleet, max(functionFleet, functionWarmups+functionsMeasured)); err != nil {
		return err
	}
	p.delay(latency, latency)
	// The proxy sees the end of an execution, so that no request asks for it.
	execute := func(selector workflow.Selector) error {
		p.recorder.start()
		x, _, err := s.Start(ctx, views.StartRequest{Workflow: "bench/work", ExecuteOnParameters: &selector})
		if err != nil {
			return err
		}
		if err := p.recorder.waitFor(ctx, func(calls []call) bool { return slices.ContainsFunc(calls, func(c call) bool { return c.ends(x.ID) }) }); err != nil {
			return fmt.Errorf("execution %s does not end: %w", x.ID, err)
		}
		return nil
	}
	next := 0
	single := func(n int) func() error {
		return func() error { // one after the other, so that each invocation serves one
			for range n {
				if err := execute(workflow.Selector{IDs: []string{deviceID(next)}}); err != nil {
					return err
				}
				next++
			}
			return nil
		}
	}
	if _, err := useDuring(local, single(functionWarmups)); err != nil {
		return err
	}
	used, err := useDuring(local, single(functionsMeasured))
	if err != nil {
		return err
	}
	printUse(out, "single", used, functionsMeasured, "execution")
	if used, err = useDuring(local, func() error { return execute(workflow.Selector{Groups: []string{"fleet"}}) }); err != nil {
		return err
	}
	printUse(out, "fleet", used, functionFleet, "job")
	return nil
}

// functionUse is what a function has used.
type functionUse struct {
	invocations int64
	billed      time.Duration // from the delivery of an event to the next request for one
	cpu         time.Duration // of its processes that run
}

// useDuring returns what functions have used during some work, by function.
func useDuring(local *localstack.Stack, work func() error) (map[string]functionUse, error) {
	all := map[string]functionUse{}
	add := func(sign int64) error {
		for _, name := range []string{topology.FunctionAPI, topology.FunctionWorker, topology.FunctionLifecycle} {
			counts, used := local.Counts(name), all[name]
			used.invocations += sign * counts.Invocations
			used.billed += time.Duration(sign) * counts.Busy
			for _, pid := range local.Processes(name) {
				d, err := processorTime(pid)
				if err != nil {
					return err
				}
				used.cpu += time.Duration(sign) * d
			}
			all[name] = used
		}
		return nil
	}
	if err := add(-1); err != nil {
		return nil, err
	}
	if err := work(); err != nil {
		return nil, err
	}
	time.Sleep(300 * time.Millisecond) // for what follows the end
	return all, add(+1)
}

// printUse prints what functions have used for n units of work, and for an invocation.
func printUse(out io.Writer, what string, all map[string]functionUse, n float64, unit string) {
	var sum functionUse
	for _, name := range slices.Sorted(maps.Keys(all)) {
		used := all[name]
		printFigure(out, what+"_"+name+"_invocations", float64(used.invocations)/n, "per "+unit)
		printFigure(out, what+"_"+name+"_cpu", milliseconds(used.cpu)/n, "ms per "+unit)
		printFigure(out, what+"_"+name+"_time", milliseconds(used.billed)/n, "ms per "+unit)
		sum = functionUse{sum.invocations + used.invocations, sum.billed + used.billed, sum.cpu + used.cpu}
	}
	printFigure(out, what+"_function_cpu", milliseconds(sum.cpu)/n, "ms per "+unit)
	printFigure(out, what+"_function_time", milliseconds(sum.billed)/n, "ms per "+unit)
	printFigure(out, what+"_invocation_cpu", milliseconds(sum.cpu)/float64(sum.invocations), "ms")
	printFigure(out, what+"_invocation_time", milliseconds(sum.billed)/float64(sum.invocations), "ms")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// processorTime is the processor time of a process so far, of its kernel's share too, to 10 ms.
func processorTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // from the third on: a name may have spaces
	var ticks int64
	for _, i := range []int{11, 12} { // utime, stime: proc(5) counts from 1
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// benchColdStart starts a function as Lambda does, several times one after the other, and prints
// how long it takes until it asks for its first event, and what it has used by then.
func benchColdStart(ctx context.Context, out io.Writer, name, program string) error {
	info, err := os.Stat(program)
	if err != nil {
		return fmt.Errorf("%w: run make build", err)
	}
	var times, cpus []time.Duration
	var memory int64
	for range coldStarts {
		d, used, err := startCold(ctx, name, program)
		if err != nil {
			return err
		}
		times, cpus, memory = append(times, d), append(cpus, time.Duration(used.Utime.Nano()+used.Stime.Nano())), max(memory, used.Maxrss)
	}
	slices.Sort(times)
	slices.Sort(cpus)
	printFigure(out, "cold_"+name+"_p50", milliseconds(times[coldStarts/2]), "ms")
	printFigure(out, "cold_"+name+"_max", milliseconds(times[coldStarts-1]), "ms")
	printFigure(out, "cold_"+name+"_cpu", milliseconds(cpus[coldStarts/2]), "ms")
	printFigure(out, "cold_"+name+"_memory", float64(memory)/1024, "MB")
	printFigure(out, "cold_"+name+"_program", float64(info.Size())/(1<<20), "MB")
	return nil
}

// startCold starts a function and ends it when it has asked for its first event.
func startCold(ctx context.Context, name, program string) (time.Duration, *syscall.Rusage, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, nil, err
	}
	asked := make(chan time.Time, 1)
	var once sync.Once
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", func(_ http.ResponseWriter, r *http.Request) {
		once.Do(func() { asked <- time.Now() })
		<-r.Context().Done()
	})
	mux.HandleFunc("POST /2020-01-01/extension/register", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Lambda-Extension-Identifier", "bench")
	})
	mux.HandleFunc("GET /2020-01-01/extension/event/next", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // ends with Close
	defer func() { _ = server.Close() }()

	cmd := exec.CommandContext(ctx, program)
	cmd.Env = coldEnv(name, listener.Addr().String())
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed
		close(ended)
	}()
	var took time.Duration
	select {
	case at := <-asked:
		took = at.Sub(began)
	case <-ended:
		return 0, nil, fmt.Errorf("the function %s ended before it asked for an event: %s", name, log.String())
	}
	_ = cmd.Process.Kill() // it may have ended
	<-ended
	used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, nil, fmt.Errorf("this system does not say what a process has used")
	}
	return took, used, nil
}

// coldEnv is the environment of a function in Lambda. Nothing of it is called before the first event.
func coldEnv(name, api string) []string {
	env := []string{
		"AWS_LAMBDA_RUNTIME_API=" + api, "AWS_LAMBDA_FUNCTION_NAME=" + name, "AWS_LAMBDA_FUNCTION_MEMORY_SIZE=512", "AWS_LAMBDA_FUNCTION_VERSION=1", "_HANDLER=bootstrap",
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=none", "AWS_SECRET_ACCESS_KEY=none", topology.EnvQueueJobsPrefix + "=bench-" + topology.QueueJobsPrefix,
	}
	for role, variable := range topology.TableEnv {
		env = append(env, variable+"=bench-"+role)
	}
	for variable, queue := range map[string]string{
		topology.EnvQueueLifecycle: topology.QueueLifecycle, topology.EnvQueueEvents: topology.QueueEvents,
		topology.EnvQueueHooksOut: topology.QueueHooksOut, topology.EnvQueueHooksIn: topology.QueueHooksIn,
	} {
		env = append(env, variable+"=https://sqs.us-east-1.amazonaws.com/123456789012/bench-"+queue)
	}
	return env
}
