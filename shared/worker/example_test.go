package worker_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// This block upgrades a device. It is idempotent, and Rollback undoes it.
func ExampleRegister() {
	type Parameters struct {
		Target string `json:"target"`
	}
	type Result struct {
		Before string `json:"before"`
	}
	firmware := map[string]string{"sw-1": "1.0"} // stands in for the devices

	w := worker.New(worker.Options{Name: "worker-1", Pool: "fleet"})
	worker.Register(w, worker.Block[Parameters, Result]{
		Name:       "fleet/upgrade",
		Version:    "1.0.0",
		RunOn:      "device",
		Idempotent: true,
		Execute: func(_ context.Context, job *worker.Job, p Parameters) (Result, error) {
			before, ok := firmware[job.Entity.ID]
			if !ok {
				return Result{}, worker.Terminal("NO_DEVICE", errors.New("no such device"))
			}
			firmware[job.Entity.ID] = p.Target // pass job.Fence to a real device
			return Result{before}, job.SetAttribute("firmware", p.Target)
		},
		Rollback: func(_ context.Context, job *worker.Job, _ Parameters, result *Result) error {
			if result != nil {
				firmware[job.Entity.ID] = result.Before
			}
			return nil
		},
	})

	for _, b := range w.Blocks() {
		fmt.Println(b.Ref(), "on", b.RunOn, "in pool", b.Pool, "reversible:", b.Reversible)
	}
	// Output: fleet/upgrade:1.0.0 on device in pool fleet reversible: true
}

// This block copies a file in parts. If its worker is lost, or the attempt fails, the next one
// continues behind the last part that was copied.
func ExampleJob_Checkpoint() {
	type Parameters struct {
		Parts int `json:"parts"`
	}
	copied := func(part int) error {
		fmt.Println("part", part)
		return nil
	}
	block := worker.Block[Parameters, int]{
		Name:       "fleet/copy",
		Version:    "1.0.0",
		RunOn:      "device",
		Idempotent: true,
		Execute: func(ctx context.Context, job *worker.Job, p Parameters) (int, error) {
			next := 0
			if _, err := job.LoadCheckpoint("next", &next); err != nil {
				return 0, err
			}
			for ; next < p.Parts; next++ {
				if err := copied(next); err != nil {
					return 0, err
				}
				job.Progress(100*float64(next+1)/float64(p.Parts), fmt.Sprintf("part %d of %d", next+1, p.Parts))
				if err := job.Checkpoint(ctx, "next", next+1); err != nil {
					return 0, err
				}
			}
			return p.Parts, nil
		},
	}

	// A unit test calls the block with a job. The job keeps what the block saves.
	job := &worker.Job{}
	_ = job.Checkpoint(context.Background(), "next", 2)
	parts, err := block.Execute(context.Background(), job, Parameters{Parts: 4})
	fmt.Println(parts, err)
	// Output:
	// part 2
	// part 3
	// 4 <nil>
}

// A block is a value with plain functions. A unit test can call them directly.
func ExampleTerminal() {
	reboot := worker.Block[struct{}, string]{
		Name:       "fleet/reboot",
		Version:    "1.0.0",
		RunOn:      "device",
		Idempotent: true,
		Execute: func(_ context.Context, job *worker.Job, _ struct{}) (string, error) {
			switch job.Entity.ID {
			case "sw-busy":
				return "", worker.Retryable("BUSY", errors.New("the device is upgrading")) // the step's retry policy decides
			case "sw-gone":
				return "", worker.Terminal("NO_DEVICE", errors.New("no such device")) // trying again would not help
			}
			return "rebooted", nil
		},
	}

	for _, id := range []string{"sw-1", "sw-busy", "sw-gone"} {
		job := &worker.Job{Entity: &workflow.EntityKey{Type: "device", ID: id}}
		result, err := reboot.Execute(context.Background(), job, struct{}{})
		fmt.Printf("%s: %q, error: %v\n", id, result, err)
	}
	// Output:
	// sw-1: "rebooted", error: <nil>
	// sw-busy: "", error: the device is upgrading
	// sw-gone: "", error: no such device
}

// Acquire finds the entities of an execution by the block's parameters.
func ExampleBlock_acquire() {
	type Parameters struct {
		Site string `json:"site"`
	}
	devices := map[string][]string{"berlin": {"sw-1", "sw-2"}} // stands in for an inventory

	upgrade := worker.Block[Parameters, string]{
		Name:    "fleet/upgrade_site",
		Version: "1.0.0",
		RunOn:   "device",
		Execute: func(context.Context, *worker.Job, Parameters) (string, error) { return "2.0", nil },
		Acquire: func(_ context.Context, _ *worker.Job, p Parameters) ([]workflow.EntityKey, error) {
			var found []workflow.EntityKey
			for _, id := range devices[p.Site] {
				found = append(found, workflow.EntityKey{Type: "device", ID: id})
			}
			return found, nil
		},
	}

	found, err := upgrade.Acquire(context.Background(), &worker.Job{}, Parameters{Site: "berlin"})
	fmt.Println(found, err)
	// Output: [device/sw-1 device/sw-2] <nil>
}

// Decode the attributes of the entity, skip the work if there is none, and change an
// attribute when the execution completes.
func ExampleJob() {
	type Parameters struct {
		Target string `json:"target"`
	}
	execute := func(_ context.Context, job *worker.Job, p Parameters) (string, error) {
		var device struct {
			Firmware string `json:"firmware"`
		}
		if err := job.DecodeAttributes(&device); err != nil {
			return "", worker.Terminal("ATTRIBUTES", err)
		}
		if device.Firmware == p.Target {
			job.NoOp()
			return "up to date", nil
		}
		return "upgraded from " + device.Firmware, job.SetAttribute("firmware", p.Target)
	}

	job := &worker.Job{Entity: &workflow.EntityKey{Type: "device", ID: "sw-1"}, Attributes: []byte(`{"firmware":"1.0"}`)}
	fmt.Println(execute(context.Background(), job, Parameters{Target: "2.0"}))
	fmt.Println(execute(context.Background(), job, Parameters{Target: "1.0"}))
	// Output:
	// upgraded from 1.0 <nil>
	// up to date <nil>
}
