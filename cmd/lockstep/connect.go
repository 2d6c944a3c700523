package main

import (
	"cmp"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/upkeep"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/signed"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// connection is the flags that every client verb shares.
type connection struct {
	url, tenant, actor string
	output             string
}

func (c *connection) flags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&c.url, "url", cmp.Or(os.Getenv(topology.EnvURL), "http://localhost:3030"), "address of the service (or LOCKSTEP_URL)")
	f.StringVar(&c.tenant, "tenant", os.Getenv(topology.EnvTenant), "tenant, where the service trusts headers (or LOCKSTEP_TENANT)")
	f.StringVar(&c.actor, "actor", os.Getenv("LOCKSTEP_ACTOR"), "who is asking, for the audit (or LOCKSTEP_ACTOR)")
	f.StringVarP(&c.output, "output", "o", "table", "table for people, json for programs")
}

// open makes the client; it sends nothing. A service on AWS is shown a token or a
// signature, of what the tools of AWS would use.
func (c *connection) open() (*client.Client, error) {
	return c.connect(func(*client.Options) {})
}

// connect is open with options that are not those of everybody.
func (c *connection) connect(adjust func(*client.Options)) (*client.Client, error) {
	o := client.Options{URL: c.url, Tenant: c.tenant, Actor: c.actor, HTTP: signed.Client(signed.Found(), time.Now)}
	adjust(&o)
	return client.New(o)
}

// named reports whether the caller has said where the service is.
func named(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("url") || os.Getenv(topology.EnvURL) != ""
}

// called marks an error as the service's answer.
func called(err error) error {
	if err == nil {
		return nil
	}
	return serviceError{err}
}

// shell is what verbs of another room share with those of this one.
func (c *connection) shell() upkeep.Shell {
	return upkeep.Shell{
		Open: c.open, Connect: c.connect, Called: called,
		File:       func(path string, err error) error { return &fileError{path, err} },
		Unreadable: unreadable,
		JSON:       func() bool { return c.output == "json" }, Print: printJSON,
	}
}
