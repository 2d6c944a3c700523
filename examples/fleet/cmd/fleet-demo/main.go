// Command fleet-demo runs the example fleet from end to end on this machine and checks
// the outcome on the devices themselves.
//
//	fleet-demo                runs both upgrades, then stops everything
//	fleet-demo --keep         the same, but keeps everything running until Ctrl-C
//	fleet-demo --serve        no upgrades: devices, stack and worker until Ctrl-C
//	fleet-demo --port 3131    if port 3030 is in use; 0 picks a free one
//
// Exit code 0: every device is as expected. 1: one is not, or something could not be
// started. 2: wrong usage. 130: interrupted before the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lockstep-run/lockstep/examples/fleet/demo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program without the process, so that tests can start it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	d := demo.Demo{Out: stdout, Progress: stderr}
	flags := flag.NewFlagSet("fleet-demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&d.Bin, "bin", "", "directory of the built programs; by default that of this program")
	flags.StringVar(&d.Example, "example", "", "directory with the inventory and the definition; by default BIN/../examples/fleet")
	flags.IntVar(&d.Port, "port", 3030, "port of the HTTP API on 127.0.0.1; 0 picks a free one")
	flags.DurationVar(&d.UpgradeDelay, "pace", 250*time.Millisecond, "how long a device takes to change its version")
	flags.BoolVar(&d.Keep, "keep", false, "keep everything running until Ctrl-C")
	flags.BoolVar(&d.Serve, "serve", false, "only start everything, until Ctrl-C")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "fleet-demo: unexpected argument %q\n", flags.Arg(0))
		return 2
	case d.Port < 0 || d.Port > 65535:
		fmt.Fprintf(stderr, "fleet-demo: --port %d is not a port\n", d.Port)
		return 2
	}
	if d.Bin == "" {
		self, err := os.Executable()
		if err != nil {
			fmt.Fprintln(stderr, "fleet-demo:", err)
			return 1
		}
		d.Bin = filepath.Dir(self)
	}
	err := d.Run(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, demo.ErrInterrupted):
		fmt.Fprintln(stderr, "\nfleet-demo: interrupted; everything it started has ended")
		return 130
	}
	fmt.Fprintln(stderr, "fleet-demo:", err)
	return 1
}
