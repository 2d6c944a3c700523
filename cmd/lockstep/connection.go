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

// connection is the flags that every client verb shares.
type connection struct {
	url, tenant, actor string
	output             string
}

func (c *connection) addFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&c.url, "url", cmp.Or(os.Getenv(topology.EnvURL), "http://localhost:3030"), "address of the service (or LOCKSTEP_URL)")
	f.StringVar(&c.tenant, "tenant", os.Getenv(topology.EnvTenant), "tenant, where the service trusts headers (or LOCKSTEP_TENANT)")
	f.StringVar(&c.actor, "actor", os.Getenv("LOCKSTEP_ACTOR"), "who is asking, for the audit (or LOCKSTEP_ACTOR)")
	f.StringVarP(&c.output, "output", "o", "table", "table for people, json for programs")
}

// newClient makes the client; it sends nothing. A service on AWS is shown a token or a
// signature, of what the tools of AWS would use.
func (c *connection) newClient() (*client.Client, error) {
	return c.newClientWith(func(*client.Options) {})
}

// newClientWith is open with options that are not those of everybody.
func (c *connection) newClientWith(adjust func(*client.Options)) (*client.Client, error) {
	o := client.Options{URL: c.url, Tenant: c.tenant, Actor: c.actor, HTTP: auth.NewClient(auth.DefaultCredentials(), time.Now)}
	adjust(&o)
	return client.New(o)
}

// urlIsSet reports whether the caller has said where the service is.
func urlIsSet(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("url") || os.Getenv(topology.EnvURL) != ""
}

// asServiceError marks an error as the service's answer.
func asServiceError(err error) error {
	if err == nil {
		return nil
	}
	return serviceError{err}
}

// env is what verbs of another room share with those of this one.
func (c *connection) env() render.Env {
	return render.Env{
		NewClient: c.newClient, NewClientWith: c.newClientWith, ServiceError: asServiceError,
		FileError: func(path string, err error) error { return &fileError{path, err} },
		ReadError: readError,
		JSON:      func() bool { return c.output == "json" }, PrintJSON: printJSON,
	}
}
