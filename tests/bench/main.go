// Command bench prints the product's figures, one line `name value unit` each.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	binary := flag.String("lockstep", "bin/lockstep", "the command to measure")
	devices := flag.Int("devices", 1000, "devices of the fleet run")
	executions := flag.Int("runs", 1000, "single-device runs")
	atOnce := flag.Int("at-once", 4, "single-device runs at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := measure(ctx, *binary, *devices, *executions, *atOnce)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, binary string, devices, executions, atOnce int) error {
	s, err := startStack(ctx, binary)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.prepare(ctx, max(devices, executions)); err != nil {
		return err
	}
	if err := s.benchFleet(ctx, os.Stdout, devices); err != nil {
		return err
	}
	return s.benchSingle(ctx, os.Stdout, executions, atOnce)
}
