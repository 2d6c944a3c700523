// Package demo runs the example from end to end. It starts the devices and the local stack
// with the fleet's worker, runs an upgrade that must succeed and one that must fail and
// roll back, and checks both on the devices themselves.
//
// setup.go starts everything, programs.go starts and stops programs, and fleet.go calls
// the devices and compares.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/views"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Demo runs the example once.
type Demo struct {
	Bin          string        // directory of the built programs
	Example      string        // directory with the inventory and the definition; Bin/../examples/fleet if empty
	Port         int           // of the HTTP API; 0 picks a free one
	UpgradeDelay time.Duration // time a device takes to change its version
	Keep         bool          // keep everything running until the context ends
	Serve        bool          // only start everything
	Out          io.Writer     // the report
	Progress     io.Writer     // progress bars; with Serve, the log of the stack

	logDir   string
	programs []*program
	url      string
	fleet    *fleet
	api      *client.Client
}

// The versions of the two upgrades, and the device that fails the second.
const (
	initialVersion, upgradeVersion, failingVersion = "1.0.0", "2.0.0", "3.0.0"
	refusingDevice                                 = "sw-042"
	workflowName                                   = "fleet/upgrade_firmware"
)

// ErrInterrupted means that the context ended before the demo did.
var ErrInterrupted = errors.New("interrupted before the end")

// Run runs the demo and stops everything that it started. An error says what is not as
// expected.
func (d *Demo) Run(ctx context.Context) error {
	err := d.runAll(ctx)
	if ctx.Err() != nil && err != nil {
		err = ErrInterrupted
	}
	d.stopPrograms()
	switch {
	case d.logDir == "": // nothing was started
	case err == nil, errors.Is(err, ErrInterrupted):
		_ = os.RemoveAll(d.logDir) // contains only logs
	default:
		err = fmt.Errorf("%w\nthe logs are in %s", err, d.logDir)
	}
	return err
}

// runAll starts everything, runs both upgrades, and waits if it must keep running.
func (d *Demo) runAll(ctx context.Context) error {
	started := time.Now()
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
		d.heading("Both executions ended as expected, in %s", time.Since(started).Round(100*time.Millisecond))
	} else if ctx.Err() == nil {
		d.heading("Not as expected: %v", err)
	}
	if d.Keep && ctx.Err() == nil {
		d.printNextSteps()
		<-ctx.Done()
	}
	return err
}

// runUpgrades runs both upgrades and checks their outcomes.
func (d *Demo) runUpgrades(ctx context.Context) error {
	if err := d.upgradeHealthyFleet(ctx); err != nil {
		return fmt.Errorf("the upgrade of a healthy fleet: %w", err)
	}
	if err := d.upgradeWithFailure(ctx); err != nil {
		return fmt.Errorf("the upgrade with a device that refuses: %w", err)
	}
	return nil
}

// upgradeHealthyFleet upgrades a fleet without faults.
func (d *Demo) upgradeHealthyFleet(ctx context.Context) error {
	d.heading("Execution 1: upgrade a healthy fleet from %s to %s", initialVersion, upgradeVersion)
	x, err := d.runUpgrade(ctx, upgradeVersion, sm.ExecutionCompletedAck, 0)
	if err != nil {
		return d.withDeviceReport(ctx, err, d.fleet.uniformVersions(upgradeVersion))
	}
	if err := d.verifyDevices(ctx, d.fleet.uniformVersions(upgradeVersion)); err != nil {
		return err
	}
	return d.printSummary(ctx, x)
}

// upgradeWithFailure upgrades a fleet in which one device refuses every retry. It reads
// the versions before the upgrade from the devices.
func (d *Demo) upgradeWithFailure(ctx context.Context) error {
	d.heading("Execution 2: %s refuses every upgrade, so %s must be rolled back everywhere", refusingDevice, failingVersion)
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
		return errors.New("the execution does not report a rollback")
	}
	if err := d.verifyDevices(ctx, former); err != nil {
		return err
	}
	n, err := d.fleet.countRolledBack(ctx, failingVersion)
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("no device had been upgraded to %s, so no rollback was shown", failingVersion)
	}
	d.printf("%d of them had already been upgraded to %s and were rolled back.", n, failingVersion)
	return d.printSummary(ctx, x)
}

// withDeviceReport adds to the error of an execution the devices whose version is not as
// expected.
func (d *Demo) withDeviceReport(ctx context.Context, err error, want map[string]string) error {
	if wrong := d.fleet.verifyVersions(ctx, want); wrong != nil {
		return fmt.Errorf("%w; %w", err, wrong)
	}
	return err
}

// verifyDevices checks the versions of the devices, and their logs against the rules of a
// correct execution.
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
	d.printf("\nEach of the %d devices reports its version: %s, as expected.", len(want), countText(counts))
	d.printf("Their own logs show no change made twice, overlapping or with a stale fence.")
	return nil
}

// printNextSteps prints commands to try while everything runs.
func (d *Demo) printNextSteps() {
	d.printf("\nEverything runs until Ctrl-C. In another terminal:\n")
	d.printf("  %s --url %s run %s --group core --set target=4.0.0", filepath.Join(d.Bin, "lockstep"), d.url, workflowName)
	d.printf("  %s --url %s list", filepath.Join(d.Bin, "lockstep"), d.url)
	d.printf("  curl -d '{\"refuse\":{\"operations\":[\"upgrade\"]}}' %s/control/sw-007\n", d.fleet.url)
	d.printf("  monitor   %s/", d.url)
	d.printf("  devices   %s/devices", d.fleet.url)
}

// printf prints a line of the report. A failed write does not change the outcome.
func (d *Demo) printf(format string, a ...any) { fmt.Fprintf(d.Out, format+"\n", a...) }

// heading starts a section of the report.
func (d *Demo) heading(format string, a ...any) { d.printf("\n== "+format+"\n", a...) }

// countText formats the number of devices by version, such as "100 x 2.0.0".
func countText(counts map[string]int) string {
	var texts []string
	for _, v := range slices.Sorted(maps.Keys(counts)) {
		texts = append(texts, fmt.Sprintf("%d x %s", counts[v], v))
	}
	return strings.Join(texts, ", ")
}

// printSummary prints the steps of an execution and what it consumed.
func (d *Demo) printSummary(ctx context.Context, x views.ExecutionView) error {
	d.printf("\n$ lockstep steps %s\n", x.ID)
	if code, _, err := d.runLockstep(ctx, "steps", x.ID); err != nil {
		return err
	} else if code != 0 {
		return fmt.Errorf("lockstep steps %s: exit code %d", x.ID, code)
	}
	bill, err := d.api.Cost(ctx, x.ID)
	if err != nil {
		return err
	}
	jobs := 0
	for s, err := range d.api.Steps(ctx, x.ID) {
		if err != nil {
			return err
		}
		jobs += s.Jobs.Total
	}
	d.printf("\n%s", costSummary(bill, jobs)) // does not suggest "lockstep cost": the execution is gone when the demo ends
	return nil
}

// costSummary sums up a bill.
func costSummary(bill views.CostView, jobs int) string {
	sum := func(units map[string]float64) (n float64) {
		for _, v := range units {
			n += v
		}
		return n
	}
	return fmt.Sprintf(
		"counted: %.1f write units and %.1f read units in %d requests to DynamoDB, %.0f requests to SQS, for %d jobs\n"+
			"on AWS:  %s this execution, %s per million such executions, %s per million jobs",
		sum(bill.WriteUnits), sum(bill.ReadUnits), bill.DynamoRequests, bill.QueueRequests, jobs,
		cost.Format(bill.Dollars), cost.Format(cost.PerMillion(bill.Dollars, 1)), cost.Format(cost.PerMillion(bill.Dollars, jobs)))
}
