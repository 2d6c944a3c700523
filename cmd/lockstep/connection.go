package main

import (
	"cmp"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/client/auth"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// connection holds the flags that every client verb shares.
type connection struct {
	url, tenant, actor, roles string
	output                    string
}

func (c *connection) addFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&c.url, "url", cmp.Or(os.Getenv(topology.EnvURL), "http://localhost:3030"), "address of the service (or LOCKSTEP_URL)")
	f.StringVar(&c.tenant, "tenant", os.Getenv(topology.EnvTenant), "tenant, if the service trusts headers (or LOCKSTEP_TENANT)")
	f.StringVar(&c.actor, "actor", os.Getenv(topology.EnvActor), "name of the caller, for the history (or LOCKSTEP_ACTOR)")
	f.StringVar(&c.roles, "roles", os.Getenv(topology.EnvRoles), "roles of the caller, with commas between them, if the service trusts headers (or LOCKSTEP_ROLES)")
	f.StringVarP(&c.output, "output", "o", "table", "table for people, json for programs")
}

// newClient returns a client for the service; it sends nothing. Requests to a
// service on AWS carry a token, or a signature with the credentials that AWS's own
// tools would use.
func (c *connection) newClient(adjust ...func(*client.Options)) (*client.Client, error) {
	o := client.Options{URL: c.url, Tenant: c.tenant, Actor: c.actor, Roles: c.roles, HTTP: auth.NewClient(auth.DefaultCredentials(), time.Now)}
	for _, f := range adjust {
		f(&o)
	}
	return client.New(o)
}

func (c *connection) json() bool { return c.output == "json" }

// env returns what the verbs of packages doctor and transfer need.
func (c *connection) env() render.Env {
	return render.Env{NewClient: c.newClient, JSON: c.json}
}

// urlIsSet reports whether the caller named the service's address.
func urlIsSet(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("url") || os.Getenv(topology.EnvURL) != ""
}
