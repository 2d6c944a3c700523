package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/doctor"
	"github.com/lockstep-run/lockstep/cmd/lockstep/doctor/aws"
)

func newDoctor(c *connection) *cobra.Command {
	return doctor.NewCommand(c.env(), doctor.Options{
		Version: version,
		URLSet:  urlIsSet,
		OpenAWS: func(ctx context.Context) (doctor.AWS, error) { return aws.Open(ctx) },
		Now:     time.Now,
		ExitError: func(down error) error {
			if down != nil {
				return &reportedError{asServiceError(down)}
			}
			return errSilent
		},
	})
}
