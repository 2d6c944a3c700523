// Package worker has the function blocks of the example fleet, written with the public
// worker SDK: what each step of upgrade_firmware.yaml does to one device.
//
// blocks.go declares the blocks and their types. device_client.go calls a device: every
// change carries the job's fence, which the device remembers, and the job's id as its
// Idempotency-Key.
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
	// None is the type of no parameters.
	None struct{}

	// Version is the version of a device.
	Version struct {
		Version   string `json:"version"`
		BootCount int    `json:"bootCount"`
	}

	// Upgrade is the version to install; Former is the version that a rollback restores.
	Upgrade struct {
		Target string `json:"target"`
		Former string `json:"former"`
	}

	// Target is the expected version.
	Target struct {
		Target string `json:"target"`
	}

	// Report summarises an execution.
	Report struct {
		Target   string `json:"target"`
		Upgraded int    `json:"upgraded"`
	}
)

// The JSON schemas of the blocks. Invalid parameters end the step before any device is
// called.
const (
	noneSchema    = `{"type":"object","additionalProperties":false}`
	upgradeSchema = `{"type":"object","additionalProperties":false,"required":["target","former"],"properties":{"target":{"type":"string","minLength":1},"former":{"type":"string","minLength":1}}}`
	targetSchema  = `{"type":"object","additionalProperties":false,"required":["target"],"properties":{"target":{"type":"string","minLength":1}}}`
	reportSchema  = `{"type":"object","additionalProperties":false,"required":["target","upgraded"],"properties":{"target":{"type":"string"},"upgraded":{"type":"integer","minimum":0}}}`
	versionSchema = `{"type":"object","required":["version","bootCount"],"properties":{"version":{"type":"string"},"bootCount":{"type":"integer"}}}`
)

// UpgradeTimeout bounds one attempt to change a device.
const UpgradeTimeout = 20 * time.Second

// Add adds the fleet's blocks to a worker. devices is the base URL of the devices.
func Add(w *sdk.Worker, devices string) {
	fleet := newDeviceClient(devices)
	sdk.Register(w, sdk.Block[None, Version]{
		Name: "fleet/show_version", Version: "1.0.0", RunOn: "device", Pure: true,
		Description:     "Read the version of a device.",
		ParameterSchema: json.RawMessage(noneSchema),
		ResultSchema:    json.RawMessage(versionSchema),
		Execute: func(ctx context.Context, job *sdk.Job, _ None) (Version, error) {
			return fleet.version(ctx, job.Entity.ID)
		},
	})
	sdk.Register(w, sdk.Block[Upgrade, Version]{
		Name: "fleet/upgrade", Version: "1.0.0", RunOn: "device", Idempotent: true, UndoHarmless: true, Timeout: UpgradeTimeout,
		Description:     "Install a version on a device; the rollback restores the former one.",
		ParameterSchema: json.RawMessage(upgradeSchema),
		ResultSchema:    json.RawMessage(versionSchema),
		Execute: func(ctx context.Context, job *sdk.Job, p Upgrade) (Version, error) {
			return fleet.change(ctx, job, "upgrade", map[string]string{"target": p.Target})
		},
		// The rollback needs no result of the upgrade: it installs the former version
		// whatever the upgrade did.
		Rollback: func(ctx context.Context, job *sdk.Job, p Upgrade, _ *Version) error {
			_, err := fleet.change(ctx, job, "rollback", map[string]string{"version": p.Former})
			return err
		},
	})
	sdk.Register(w, sdk.Block[Target, Version]{
		Name: "fleet/verify", Version: "1.0.0", RunOn: "device", Pure: true,
		Description:     "Fail unless a device has the expected version.",
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
		Description:     "Summarise an execution.",
		ParameterSchema: json.RawMessage(reportSchema),
		ResultSchema:    json.RawMessage(reportSchema),
		Execute:         func(_ context.Context, _ *sdk.Job, p Report) (Report, error) { return p, nil },
	})
}
