// Command bench prints the product's figures, one line `name value unit` each.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/lockstep-run/lockstep/tests/bench"
)

func main() {
	binary := flag.String("lockstep", "bin/lockstep", "the command to measure")
	devices := flag.Int("devices", 1000, "devices of the fleet run")
	runs := flag.Int("runs", 1000, "single-device runs")
	atOnce := flag.Int("at-once", 4, "single-device runs at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *binary, *devices, *runs, *atOnce)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binary string, devices, runs, atOnce int) error {
	s, err := bench.Start(ctx, binary)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Prepare(ctx, max(devices, runs)); err != nil {
		return err
	}
	if err := s.Fleet(ctx, os.Stdout, devices); err != nil {
		return err
	}
	return s.Single(ctx, os.Stdout, runs, atOnce)
}
