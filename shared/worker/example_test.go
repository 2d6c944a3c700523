package worker_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/worker"
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
		Name: "fleet/upgrade", Version: "1.0.0", RunOn: "device", Idempotent: true,
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
