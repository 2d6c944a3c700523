package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	sdk "github.com/lockstep-run/lockstep/shared/worker"
)

// Parameters and results of the blocks.
type (
	// None is a block without parameters.
	None struct{}

	// Version is what a device runs.
	Version struct {
		Version   string `json:"version"`
		BootCount int    `json:"bootCount"`
	}

	// Upgrade asks for a version; Former is what a rollback brings back.
	Upgrade struct {
		Target string `json:"target"`
		Former string `json:"former"`
	}

	// Target is the version that is expected.
	Target struct {
		Target string `json:"target"`
	}

	// Report is what the whole run has done.
	Report struct {
		Target   string `json:"target"`
		Upgraded int    `json:"upgraded"`
	}
)

// The schemas that are registered with the blocks: parameters that do not fit end
// the step before any device is asked anything.
const (
	noneSchema    = `{"type":"object","additionalProperties":false}`
	upgradeSchema = `{"type":"object","additionalProperties":false,"required":["target","former"],"properties":{"target":{"type":"string","minLength":1},"former":{"type":"string","minLength":1}}}`
	targetSchema  = `{"type":"object","additionalProperties":false,"required":["target"],"properties":{"target":{"type":"string","minLength":1}}}`
	reportSchema  = `{"type":"object","additionalProperties":false,"required":["target","upgraded"],"properties":{"target":{"type":"string"},"upgraded":{"type":"integer","minimum":0}}}`
	versionSchema = `{"type":"object","required":["version","bootCount"],"properties":{"version":{"type":"string"},"bootCount":{"type":"integer"}}}`
)

// UpgradeTimeout bounds one attempt to change a device.
const UpgradeTimeout = 20 * time.Second

// Add adds the fleet's blocks to a worker, for devices that are reached through
// the address given.
func Add(w *sdk.Worker, devices string) {
	fleet := newDeviceClient(devices)
	sdk.Register(w, sdk.Block[None, Version]{
		Name: "fleet/show_version", Version: "1.0.0", RunOn: "device", Pure: true,
		Description:     "Ask a device what it runs.",
		ParameterSchema: json.RawMessage(noneSchema),
		ResultSchema:    json.RawMessage(versionSchema),
		Execute: func(ctx context.Context, job *sdk.Job, _ None) (Version, error) {
			return fleet.version(ctx, job.Entity.ID)
		},
	})
	sdk.Register(w, sdk.Block[Upgrade, Version]{
		Name: "fleet/upgrade", Version: "1.0.0", RunOn: "device", Idempotent: true, UndoHarmless: true, Timeout: UpgradeTimeout,
		Description:     "Bring a device to a version; the undo brings back the former one.",
		ParameterSchema: json.RawMessage(upgradeSchema),
		ResultSchema:    json.RawMessage(versionSchema),
		Execute: func(ctx context.Context, job *sdk.Job, p Upgrade) (Version, error) {
			return fleet.change(ctx, job, "upgrade", map[string]string{"target": p.Target})
		},
		// Whatever the upgrade has come to, a device that runs its former version is
		// as it was: the result of the upgrade is not needed.
		Rollback: func(ctx context.Context, job *sdk.Job, p Upgrade, _ *Version) error {
			_, err := fleet.change(ctx, job, "rollback", map[string]string{"version": p.Former})
			return err
		},
	})
	sdk.Register(w, sdk.Block[Target, Version]{
		Name: "fleet/verify", Version: "1.0.0", RunOn: "device", Pure: true,
		Description:     "Fail unless a device reports the version it should run.",
		ParameterSchema: json.RawMessage(targetSchema),
		ResultSchema:    json.RawMessage(versionSchema),
		Execute: func(ctx context.Context, job *sdk.Job, p Target) (Version, error) {
			v, err := fleet.version(ctx, job.Entity.ID)
			if err == nil && v.Version != p.Target {
				err = sdk.Terminal("WRONG_VERSION", fmt.Errorf("%s runs %s, not %s", job.Entity.ID, v.Version, p.Target))
			}
			return v, err
		},
	})
	sdk.Register(w, sdk.Block[Report, Report]{
		Name: "fleet/report", Version: "1.0.0", RunOn: "global", Pure: true,
		Description:     "Sum up a run.",
		ParameterSchema: json.RawMessage(reportSchema),
		ResultSchema:    json.RawMessage(reportSchema),
		Execute:         func(_ context.Context, _ *sdk.Job, p Report) (Report, error) { return p, nil },
	})
}
