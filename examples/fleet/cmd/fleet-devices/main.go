// Command fleet-devices serves the simulated devices of package simulator.
//
//	fleet-devices --port 4040 --inventory examples/fleet/inventory.jsonl
//	fleet-devices --port 0 --devices 1000 --initial-version 1.0.0
//	fleet-devices --devices 1000 --print-inventory > inventory.jsonl
//
// It prints one line "ready http://127.0.0.1:PORT" on standard output when it accepts
// requests, and ends with exit code 0 on Ctrl-C or SIGTERM. Exit code 1 is a failure, 2
// wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator"
)

// defaultPort is where fleet-worker expects the devices, unless FLEET_URL says otherwise.
const defaultPort = 4040

// shutdownTimeout bounds the time for responses in progress at the end.
const shutdownTimeout = 3 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program without the process, so that tests can start it. It ends when the
// context does.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("fleet-devices", flag.ContinueOnError)
	flags.SetOutput(stderr)
	host := flags.String("host", "127.0.0.1", "address to listen on")
	port := flags.Int("port", defaultPort, "port to listen on; 0 picks a free one")
	inventory := flags.String("inventory", "", "file of devices as JSON lines")
	count := flags.Int("devices", 100, "number of devices, if there is no inventory")
	version := flags.String("initial-version", "1.0.0", "first version of every device")
	state := flags.String("state", "", "file with which the devices survive this process")
	printOnly := flags.Bool("print-inventory", false, "print the devices as JSON lines and exit")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "fleet-devices: unexpected argument %q\n", flags.Arg(0))
		return 2
	case *count < 1 || *count > 100_000:
		fmt.Fprintf(stderr, "fleet-devices: --devices is %d, want 1 to 100000\n", *count)
		return 2
	}
	if *port != defaultPort && *port != 0 && !*printOnly {
		fmt.Fprintf(stderr, "fleet-devices: tell the worker where these devices are: FLEET_URL=http://%s\n", net.JoinHostPort(*host, strconv.Itoa(*port)))
	}
	if err := serve(ctx, stdout, *inventory, *count, *version, *state, *printOnly, net.JoinHostPort(*host, strconv.Itoa(*port))); err != nil {
		fmt.Fprintf(stderr, "fleet-devices: %v\n", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, stdout io.Writer, inventory string, count int, version, state string, printOnly bool, address string) (err error) {
	devices := simulator.NumberedDevices(count)
	if inventory != "" {
		if devices, err = readInventory(inventory); err != nil {
			return err
		}
	}
	if printOnly {
		return simulator.WriteInventory(stdout, devices)
	}
	// Listen before opening the state file: a second process started by mistake fails on
	// the port and does not touch the file of the first.
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is in use: stop the program that listens there, or choose another --port", address)
	}
	if err != nil {
		return err
	}
	fleet := simulator.New(simulator.Options{Devices: devices, InitialVersion: version})
	defer func() { err = errors.Join(err, fleet.Close()) }()
	if state != "" {
		if err := fleet.Persist(state); err != nil {
			return errors.Join(err, listener.Close())
		}
	}
	server := &http.Server{Handler: fleet.Handler(), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if _, err := fmt.Fprintf(stdout, "ready http://%s\n", listener.Addr()); err != nil {
		return errors.Join(err, server.Close())
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	// Switch the devices off first, so that no request waits for a slow one.
	if err := fleet.Close(); err != nil {
		return errors.Join(err, server.Close())
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	switch err := server.Shutdown(ending); {
	case errors.Is(err, context.DeadlineExceeded):
		// Shutdown also waits for connections that clients have opened and not used. All
		// requests have their response.
		return server.Close()
	case err != nil:
		return errors.Join(err, server.Close())
	}
	return nil
}

func readInventory(path string) ([]simulator.Device, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	devices, err := simulator.ReadInventory(file)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	} else if len(devices) == 0 {
		err = fmt.Errorf("%s: no device", path)
	}
	return devices, errors.Join(err, file.Close())
}
