// Command fleet-demo runs the example fleet from end to end and judges it on the
// devices themselves. It exits 0 only if every device is as promised.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/lockstep-run/lockstep/examples/fleet/demo"
)

func main() {
	d := demo.Demo{Out: os.Stdout, Progress: os.Stderr}
	flag.StringVar(&d.Bin, "bin", "bin", "directory of the built programs")
	flag.StringVar(&d.Example, "example", "examples/fleet", "directory with the inventory and the definition")
	flag.IntVar(&d.Port, "port", 3030, "port of the HTTP API; 0 picks a free one")
	flag.BoolVar(&d.Keep, "keep", false, "leave everything running until Ctrl-C")
	flag.BoolVar(&d.Serve, "serve", false, "only bring everything up, until Ctrl-C")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := d.Run(ctx)
	stop()
	if err != nil && !(ctx.Err() != nil && errors.Is(err, context.Canceled)) {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}
