package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// startStack starts the devices and the stack, and imports the devices and the definition.
func (d *Demo) startStack(ctx context.Context) error {
	if d.Example == "" {
		d.Example = filepath.Join(d.Bin, "..", "examples", "fleet")
	}
	inventory := filepath.Join(d.Example, "inventory.jsonl")
	ids, err := readDeviceIDs(inventory)
	if err != nil {
		return err
	}
	if err := checkPortFree(d.Port, d.Serve); err != nil {
		return err
	}
	if d.logDir, err = os.MkdirTemp("", "lockstep-demo-"); err != nil {
		return err
	}
	d.heading("Starting %d simulated devices and all of Lockstep on this machine", len(ids))
	devices, err := d.startProgram(ctx, programSpec{
		name: "fleet-devices",
		args: []string{"--port", "0", "--inventory", inventory, "--initial-version", initialVersion},
	})
	if err != nil {
		return err
	}
	d.fleet = newFleet(devices.url, ids)
	if d.UpgradeDelay > 0 {
		if err := d.fleet.setBehaviour(ctx, "", strings.TrimSuffix(d.behaviourPrefix(), ",")+"}"); err != nil {
			return err
		}
	}
	stack, err := d.startProgram(ctx, programSpec{
		name: "lockstep", env: []string{"FLEET_URL=" + d.fleet.url}, showLog: d.Serve,
		args: []string{"dev", "--port", strconv.Itoa(d.Port), "--worker", shellQuote(filepath.Join(d.Bin, "fleet-worker"))},
	})
	if err != nil {
		return err
	}
	d.url = stack.url
	if d.api, err = client.New(client.Options{URL: d.url, Actor: "demo"}); err != nil {
		return err
	}
	d.printf("Lockstep is ready; the monitor is at %s/", d.url)
	for _, args := range [][]string{
		{"entities", "import", inventory},
		{"publish", filepath.Join(d.Example, "upgrade_firmware.yaml")},
	} {
		if code, _, err := d.runLockstep(ctx, args...); err != nil {
			return err
		} else if code != 0 {
			return fmt.Errorf("lockstep %s: exit code %d", strings.Join(args, " "), code)
		}
	}
	if err := d.waitForWorker(ctx); err != nil {
		return err
	}
	if d.Serve {
		d.printf("ready %s", d.url)
	}
	return nil
}

// behaviourPrefix returns the start of every device's behaviour as JSON: its delay.
func (d *Demo) behaviourPrefix() string {
	if d.UpgradeDelay <= 0 {
		return "{"
	}
	return fmt.Sprintf(`{"slow":{"for":%q},`, d.UpgradeDelay)
}

// checkPortFree returns an error if the port is in use. The stack would fail too, but its
// error cannot name the flag of this program.
func checkPortFree(port int, serve bool) error {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		flag := ""
		if serve { // suggest the same command
			flag = " --serve"
		}
		return fmt.Errorf("port %d is in use, perhaps by another demo or lockstep dev.\n"+
			"Stop that one, or choose another port: bin/fleet-demo%s --port %d (0 picks a free one)", port, flag, port+1)
	}
	if err != nil {
		return err
	}
	return listener.Close()
}

// readDeviceIDs returns the ids of an inventory.
func readDeviceIDs(inventory string) ([]string, error) {
	file, err := os.Open(inventory)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // opened for reading
	devices, err := simulator.ReadInventory(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", inventory, err)
	}
	ids := make([]string, len(devices))
	for i, device := range devices {
		ids[i] = device.ID
	}
	return ids, nil
}

// waitForWorker waits until the worker has registered its blocks: an execution with an
// unregistered block fails at once.
func (d *Demo) waitForWorker(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		missing := map[string]bool{"show_version": true, "upgrade": true, "verify": true, "report": true}
		for b, err := range d.api.Blocks(ctx) {
			if err != nil {
				return fmt.Errorf("list the blocks: %w", err)
			}
			if b.Package == "fleet" {
				delete(missing, b.Name)
			}
		}
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the worker has not registered its blocks after %s", startTimeout)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// runUpgrade runs the upgrade with the command line, which shows the progress, and returns
// the execution as the service reports it.
func (d *Demo) runUpgrade(ctx context.Context, target string, want sm.ExecutionState, exit int) (views.ExecutionView, error) {
	args := []string{"run", workflowName, "--group", "core,distribution,access", "--set", "target=" + target}
	d.printf("$ lockstep %s\n", strings.Join(args, " "))
	code, output, err := d.runLockstep(ctx, args...)
	if err != nil {
		return views.ExecutionView{}, err
	}
	id, _, _ := strings.Cut(output, " ")
	if id == "" {
		return views.ExecutionView{}, fmt.Errorf("the command printed no execution; its exit code is %d", code)
	}
	x, err := d.api.Execution(ctx, id)
	switch {
	case err != nil:
		return x, err
	case x.State != want:
		return x, fmt.Errorf("the execution ended in %s, want %s", x.State, want)
	case code != exit:
		return x, fmt.Errorf("the command's exit code is %d, want %d", code, exit)
	}
	return x, nil
}
