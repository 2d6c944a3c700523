package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/lockstep-run/lockstep/shared/client"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Demo is one run of the example.
type Demo struct {
	Bin          string        // directory of the built programs
	Example      string        // directory with the inventory and the definition; beside Bin if empty
	Port         int           // of the HTTP API; 0 takes a free one
	UpgradeDelay time.Duration // how long a device takes to change
	Keep         bool          // leave everything running until the context ends
	Serve        bool          // only bring everything up
	Out          io.Writer     // the story
	Progress     io.Writer     // progress bars; with Serve, the log of the stack

	logDir   string // logs
	programs []*program
	url      string
	fleet    *fleet
	api      *client.Client
}

// The versions of the story, and the device that fails in its second part.
const (
	initialVersion, upgradeVersion, failingVersion = "1.0.0", "2.0.0", "3.0.0"
	refusingDevice                                 = "sw-042"
	workflowName                                   = "fleet/upgrade_firmware"
)

// ErrInterrupted says that the context ended before the story did.
var ErrInterrupted = errors.New("interrupted before the end")

// Run tells the story and ends everything that it has started. An error says
// what is not as promised.
func (d *Demo) Run(ctx context.Context) error {
	err := d.runAll(ctx)
	if ctx.Err() != nil && err != nil {
		err = ErrInterrupted
	}
	d.stopPrograms()
	switch {
	case d.logDir == "": // nothing was started
	case err == nil, errors.Is(err, ErrInterrupted):
		_ = os.RemoveAll(d.logDir) // only logs
	default:
		err = fmt.Errorf("%w\nthe logs are in %s", err, d.logDir)
	}
	return err
}

// runAll is the story, and the wait after it.
func (d *Demo) runAll(ctx context.Context) error {
	began := time.Now()
	if err := d.startStack(ctx); err != nil {
		return err
	}
	if d.Serve {
		d.printNextSteps()
		<-ctx.Done()
		return nil
	}
	err := d.runUpgrades(ctx)
	if err == nil {
		d.heading("Both runs ended as promised, in %s altogether", time.Since(began).Round(100*time.Millisecond))
	} else if ctx.Err() == nil {
		d.heading("Not as promised: %v", err)
	}
	if d.Keep && ctx.Err() == nil {
		d.printNextSteps()
		<-ctx.Done()
	}
	return err
}

// runUpgrades runs both upgrades and holds them to what they promise.
func (d *Demo) runUpgrades(ctx context.Context) error {
	if err := d.upgradeHealthyFleet(ctx); err != nil {
		return fmt.Errorf("the upgrade of a good fleet: %w", err)
	}
	if err := d.upgradeWithFailure(ctx); err != nil {
		return fmt.Errorf("the upgrade with a device that refuses: %w", err)
	}
	return nil
}

// upgradeHealthyFleet upgrades a good fleet.
func (d *Demo) upgradeHealthyFleet(ctx context.Context) error {
	d.heading("Run 1: a good fleet, every device goes from %s to %s", initialVersion, upgradeVersion)
	x, err := d.runUpgrade(ctx, upgradeVersion, sm.ExecutionCompletedAck, 0)
	if err != nil {
		return d.withDeviceReport(ctx, err, d.fleet.uniformVersions(upgradeVersion))
	}
	if err := d.verifyDevices(ctx, d.fleet.uniformVersions(upgradeVersion)); err != nil {
		return err
	}
	return d.printSummary(ctx, x)
}

// upgradeWithFailure upgrades a fleet in which one device refuses beyond its retries.
// What the devices run before is asked of them, not assumed.
func (d *Demo) upgradeWithFailure(ctx context.Context) error {
	d.heading("Run 2: %s refuses every upgrade, so %s must be rolled back everywhere", refusingDevice, failingVersion)
	former, err := d.fleet.versions(ctx)
	if err != nil {
		return err
	}
	behaviour := d.behaviourPrefix() + `"refuse":{"operations":["upgrade"]}}`
	if err := d.fleet.setBehaviour(ctx, "/"+refusingDevice, behaviour); err != nil {
		return err
	}
	x, err := d.runUpgrade(ctx, failingVersion, sm.ExecutionFailedSafeAck, 1)
	if err != nil {
		return d.withDeviceReport(ctx, err, former)
	}
	if !x.RolledBack {
		return errors.New("it does not say that it was rolled back")
	}
	if err := d.verifyDevices(ctx, former); err != nil {
		return err
	}
	there, err := d.fleet.countRolledBack(ctx, failingVersion)
	if err != nil {
		return err
	}
	if there == 0 {
		return fmt.Errorf("no device had been at %s, so that nothing was shown", failingVersion)
	}
	d.printf("%d of them had been at %s already and were brought back.", there, failingVersion)
	return d.printSummary(ctx, x)
}

// withDeviceReport adds to a run that ended otherwise than promised which devices do not
// report what they should.
func (d *Demo) withDeviceReport(ctx context.Context, err error, want map[string]string) error {
	if wrong := d.fleet.verifyVersions(ctx, want); wrong != nil {
		return fmt.Errorf("%w; %w", err, wrong)
	}
	return err
}

// verifyDevices holds the devices to the versions they should report, and their logs
// to the rules of a correct run.
func (d *Demo) verifyDevices(ctx context.Context, want map[string]string) error {
	if err := d.fleet.verifyVersions(ctx, want); err != nil {
		return err
	}
	if err := d.fleet.verifyLogs(ctx); err != nil {
		return err
	}
	counts := map[string]int{}
	for _, v := range want {
		counts[v]++
	}
	d.printf("\nEach of the %d devices was asked what it runs: %s, as promised.", len(want), countText(counts))
	d.printf("The judge of their own logs found no change twice, overlapping or under a stale fence.")
	return nil
}

// printNextSteps says what can be done while everything runs.
func (d *Demo) printNextSteps() {
	d.printf("\nEverything runs until Ctrl-C. In another terminal:\n")
	d.printf("  %s --url %s run %s --group core --set target=4.0.0", filepath.Join(d.Bin, "lockstep"), d.url, workflowName)
	d.printf("  %s --url %s list", filepath.Join(d.Bin, "lockstep"), d.url)
	d.printf("  curl -d '{\"refuse\":{\"operations\":[\"upgrade\"]}}' %s/control/sw-007\n", d.fleet.url)
	d.printf("  monitor   %s/", d.url)
	d.printf("  devices   %s/devices", d.fleet.url)
}
