package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Demo is one run of the example.
type Demo struct {
	Bin      string    // directory of the built programs
	Example  string    // directory with the inventory and the definition
	Port     int       // of the HTTP API
	Keep     bool      // leave everything running until the context ends
	Serve    bool      // only bring everything up
	Out      io.Writer // the story
	Progress io.Writer // progress bars

	dir      string // logs
	programs []*program
	url      string
	devices  string
	count    int // devices
	api      *client.Client
}

// The versions of the story, and the device that fails in its second part.
const (
	first, second, third = "1.0.0", "2.0.0", "3.0.0"
	refuser              = "sw-042"
	workflowName         = "fleet/upgrade_firmware"
)

// Run tells the story. An error says what was not as promised.
func (d *Demo) Run(ctx context.Context) (err error) {
	began := time.Now()
	if d.dir, err = os.MkdirTemp("", "lockstep-demo-"); err != nil {
		return err
	}
	defer func() {
		d.stop()
		if err == nil || errors.Is(err, context.Canceled) {
			_ = os.RemoveAll(d.dir) // only logs
		} else {
			err = fmt.Errorf("%w\nthe logs are in %s", err, d.dir)
		}
	}()
	if err := d.bringUp(ctx); err != nil {
		return err
	}
	if d.Serve {
		fmt.Fprintf(d.Out, "\nEverything runs until Ctrl-C. Try:\n  bin/lockstep --url %s run %s --group core --set target=2.0.0\n", d.url, workflowName)
		<-ctx.Done()
		return nil
	}
	if err := d.succeeds(ctx); err != nil {
		return fmt.Errorf("the upgrade of a good fleet: %w", err)
	}
	if err := d.rollsBack(ctx); err != nil {
		return fmt.Errorf("the upgrade with a device that refuses: %w", err)
	}
	fmt.Fprintf(d.Out, "\nBoth runs ended as promised, in %s altogether. The monitor is at %s/\n", time.Since(began).Round(100*time.Millisecond), d.url)
	if d.Keep {
		fmt.Fprintln(d.Out, "Everything runs until Ctrl-C.")
		<-ctx.Done()
	}
	return nil
}

// bringUp starts the devices and the stack, and tells the service about them.
func (d *Demo) bringUp(ctx context.Context) error {
	d.heading("Starting 100 simulated devices and the whole of Lockstep on this machine")
	inventory := filepath.Join(d.Example, "inventory.jsonl")
	fleet, err := d.start(ctx, "fleet-devices", nil, "--port", "0", "--inventory", inventory, "--initial-version", first)
	if err != nil {
		return err
	}
	d.devices = fleet.url
	stack, err := d.start(ctx, "lockstep", []string{"FLEET_URL=" + fleet.url},
		"dev", "--port", strconv.Itoa(d.Port), "--worker", strconv.Quote(filepath.Join(d.Bin, "fleet-worker")))
	if err != nil {
		return err
	}
	d.url = stack.url
	if d.api, err = client.New(client.Options{URL: d.url, Actor: "demo"}); err != nil {
		return err
	}
	fmt.Fprintf(d.Out, "Lockstep is at %s, with a status page at %s/\n", d.url, d.url)
	lines, err := os.Open(inventory)
	if err != nil {
		return err
	}
	defer func() { _ = lines.Close() }() // it was only read
	if d.count, err = d.api.ImportEntities(ctx, lines); err != nil {
		return fmt.Errorf("import the inventory: %w", err)
	}
	source, err := os.ReadFile(filepath.Join(d.Example, "upgrade_firmware.yaml"))
	if err != nil {
		return err
	}
	if _, _, err := d.api.Publish(ctx, source, false); err != nil {
		return fmt.Errorf("publish the definition: %w", err)
	}
	fmt.Fprintf(d.Out, "Imported %d devices and published %s.\n", d.count, workflowName)
	return d.awaitWorker(ctx)
}

// awaitWorker waits until the worker has registered its blocks: a run that names
// a block nobody has registered is refused.
func (d *Demo) awaitWorker(ctx context.Context) error {
	limit := time.Now().Add(startLimit)
	for {
		found := 0
		for _, err := range d.api.Blocks(ctx) {
			if err != nil {
				return err
			}
			found++
		}
		if found >= 4 {
			return nil
		}
		if time.Now().After(limit) {
			return errors.New("the worker has not registered its blocks")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// run runs the upgrade with the command line, which shows its progress, and
// returns how it ended.
func (d *Demo) run(ctx context.Context, target string, want sm.ExecutionState, exit int) (views.ExecutionView, error) {
	args := []string{"run", workflowName, "--group", "core,distribution,access", "--set", "target=" + target, "--label", "target=" + target}
	fmt.Fprintf(d.Out, "$ lockstep %s\n", strings.Join(args, " "))
	code, err := d.lockstep(ctx, d.Out, args...)
	if err != nil {
		return views.ExecutionView{}, err
	}
	for x, err := range d.api.Executions(ctx, views.ExecutionFilter{Labels: map[string]string{"target": target}}) {
		if err != nil {
			return x, err
		}
		if x.State != want {
			return x, fmt.Errorf("it ended in %s, not in %s", x.State, want)
		}
		if code != exit {
			return x, fmt.Errorf("the command's exit code is %d, not %d", code, exit)
		}
		return x, nil
	}
	return views.ExecutionView{}, workflow.Errorf(workflow.CodeNotFound, "the run to %s is not listed (exit code %d)", target, code)
}

// succeeds upgrades a good fleet.
func (d *Demo) succeeds(ctx context.Context) error {
	d.heading("A good fleet: every device goes to " + second)
	x, err := d.run(ctx, second, sm.ExecutionCompletedAck, 0)
	if err != nil {
		return err
	}
	if err := d.allRun(ctx, second); err != nil {
		return err
	}
	return d.summary(ctx, x)
}

// rollsBack upgrades a fleet in which one device refuses beyond its retries.
func (d *Demo) rollsBack(ctx context.Context) error {
	d.heading(fmt.Sprintf("%s refuses upgrades: the run to %s must be rolled back", refuser, third))
	if err := d.misbehave(ctx, refuser, `{"refuse":{"operations":["upgrade"]}}`); err != nil {
		return err
	}
	x, err := d.run(ctx, third, sm.ExecutionFailedSafeAck, 1)
	if err != nil {
		return err
	}
	if !x.RolledBack {
		return errors.New("nothing was rolled back")
	}
	if err := d.allRun(ctx, second); err != nil {
		return err
	}
	return d.summary(ctx, x)
}
