package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/doctor"
	"github.com/lockstep-run/lockstep/shared/cloud"
)

func newDoctor(c *connection) *cobra.Command {
	return doctor.Verb(c.shell(), doctor.Setting{
		Version: version,
		Named:   named,
		Cloud:   func(ctx context.Context) (doctor.Cloud, error) { return cloud.Open(ctx, time.Now) },
		Now:     time.Now,
		Failed: func(down error) error {
			if down != nil {
				return &reportedError{called(down)}
			}
			return errSilent
		},
	})
}
