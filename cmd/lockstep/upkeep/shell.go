package upkeep

import (
	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/shared/client"
)

// Shell is what the verbs have in common with all others: how the service is
// reached, and how answers and errors are told.
type Shell struct {
	Open    func() (*client.Client, error)
	Connect func(adjust func(*client.Options)) (*client.Client, error) // opens with other options
	Called  func(error) error                                          // marks an error as the service's answer
	// File says that an error is about what a file holds, Unreadable why there is
	// nothing to read.
	File, Unreadable func(path string, err error) error
	JSON             func() bool // programs read the output
	Print            func(cmd *cobra.Command, v any) error
}
