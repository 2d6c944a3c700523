package render

import (
	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/shared/client"
)

// Env is what the verbs have in common with all others: how the service is
// reached, and how answers and errors are told.
type Env struct {
	NewClient     func() (*client.Client, error)
	NewClientWith func(adjust func(*client.Options)) (*client.Client, error) // opens with other options
	ServiceError  func(error) error                                          // marks an error as the service's answer
	// FileError says that an error is about what a file holds, Unreadable why there is
	// nothing to read.
	FileError, ReadError func(path string, err error) error
	JSON                 func() bool // programs read the output
	PrintJSON            func(cmd *cobra.Command, v any) error
}
