// Command bench measures the product on the local stack: the real programs, with a block
// that answers at once, so that the engine is what is measured. It prints one line
// `name value unit` for each figure.
//
// Units and requests are counted by the services and are the same on AWS. Times are those
// of this machine, whose local DynamoDB writes to memory. Prices come from shared/cost.
//
//   - fleet: one execution of one step over 1,000 devices, in packs of 10 by default.
//   - next: an execution over devices fails unsafely for one of them, and another waits for the rest.
//   - foreach: one execution of one step over 1,000 items, which have no locks.
//   - single: 1,000 executions over one device each, a few at a time.
//
// With a latency, each request to DynamoDB and SQS takes that much longer, and it also counts how
// many of them an execution over one device makes one after the other. With -calls it prints the
// requests of one execution over a device, and nothing else. With -functions it measures the
// functions alone, and with -peers it does the same work in turn with another engine. With -starts it
// measures the start of executions over that many devices each, and the memory of the functions. With
// -failures it measures what executions read whose jobs fail in part, with
// -step-runs how long the step runs of one execution take, and with -cancel an execution
// over many devices that is cancelled half-way and rolled back. -attributes says how large these devices are.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	binary := flag.String("lockstep", "bin/lockstep", "the program lockstep")
	devices := flag.Int("devices", 1000, "devices of the fleet execution")
	items := flag.Int("items", 1000, "items of the execution over items")
	executions := flag.Int("executions", 1000, "executions over a single device")
	atOnce := flag.Int("at-once", 4, "executions over a single device at a time")
	latency := flag.Duration("latency", 0, "delay of each request to DynamoDB and SQS; AWS's are 2 ms to 10 ms away")
	calls := flag.Bool("calls", false, "print the requests of one execution over a device, and nothing else")
	functions := flag.Bool("functions", false, "measure the functions alone: their start, and what an execution over a device takes of them")
	peers := flag.String("peers", "", "the folder of other engines: measure beside them alone, over the devices")
	starts := flag.String("starts", "", "measure executions over these numbers of devices, as 10000,30000,100000, and nothing else")
	attributes := flag.Int("attributes", 0, "bytes of attributes of each device with -starts, 30 by default, and with -cancel, 1000")
	cancelled := flag.Int("cancel", 0, "measure an execution over so many devices that is cancelled half-way, and nothing else")
	failures := flag.Int("failures", 0, "measure what executions over so many devices read if some of them fail, and nothing else")
	stepRuns := flag.Int("step-runs", 0, "measure an execution with so many step runs, and nothing else")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var err error
	switch {
	case *functions:
		err = benchFunctions(ctx, os.Stdout, *binary, *latency)
	case *peers != "":
		err = benchPeers(ctx, os.Stdout, *binary, *peers, *devices)
	case *cancelled > 0:
		err = benchCancel(ctx, os.Stdout, *binary, *cancelled, cmp.Or(*attributes, 1000))
	case *starts != "":
		err = benchStarts(ctx, os.Stdout, *binary, *starts, *attributes)
	default:
		err = measure(ctx, *binary, max(*devices, *failures), *items, *executions, *atOnce, *stepRuns, *failures, *latency, *calls)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, binary string, devices, items, executions, atOnce, stepRuns, failures int, latency time.Duration, calls bool) error {
	var env []string
	var proxied *proxiedServices
	if latency > 0 || calls {
		var err error
		if proxied, err = startProxied(ctx, binary); err != nil {
			return err
		}
		defer proxied.close()
		env = proxied.env
	}
	s, err := startStack(ctx, binary, "", env...)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.prepare(ctx, devices, max(executions, roundTripExecutions)); err != nil {
		return err
	}
	if failures > 0 {
		return s.benchFailures(ctx, os.Stdout, failures)
	}
	if stepRuns > 0 {
		return s.benchStepRuns(ctx, os.Stdout, stepRuns)
	}
	if calls {
		proxied.delay(latency, latency)
		return s.benchCalls(ctx, os.Stdout, proxied)
	}
	if proxied != nil {
		if err := s.benchRoundTrips(ctx, os.Stdout, proxied, latency); err != nil {
			return err
		}
	}
	if err := s.benchFleet(ctx, os.Stdout, devices); err != nil {
		return err
	}
	if err := s.benchNext(ctx, os.Stdout); err != nil {
		return err
	}
	if err := s.benchItems(ctx, os.Stdout, items); err != nil {
		return err
	}
	return s.benchSingle(ctx, os.Stdout, executions, atOnce)
}
