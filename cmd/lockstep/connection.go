package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/client/auth"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// connection finds the service of a command line. Each setting comes from a flag, else a variable,
// else the profile, else a default.
type connection struct {
	output string

	flags  *pflag.FlagSet
	stderr func() io.Writer // for programs that give tokens
	found  *service         // nil until it is needed

	// temporary means that the service is gone once the verb has ended, so that no command about
	// its executions works afterwards.
	temporary bool

	// noPrograms refuses requests whose token a program would supply. A shell that completes a word
	// must not run programs, because one might ask the user something or open a browser.
	noPrograms bool
}

var errNoProgram = workflow.Errorf(workflow.CodeUnauthorized, "no program is executed for a token here")

const defaultURL = "http://localhost:3030"

func (c *connection) addFlags(root *cobra.Command) {
	c.flags = root.PersistentFlags()
	c.stderr = root.ErrOrStderr
	c.flags.String("url", defaultURL, "address of the service (or LOCKSTEP_URL)")
	c.flags.String("tenant", "", "tenant, if the service trusts headers (or LOCKSTEP_TENANT)")
	c.flags.String("actor", "", "name of the caller, for the history (or LOCKSTEP_ACTOR)")
	c.flags.String("roles", "", "roles of the caller, with commas between them, if the service trusts headers (or LOCKSTEP_ROLES)")
	c.flags.String("profile", "", "profile of \"lockstep config\" that names the service (or LOCKSTEP_PROFILE)")
	c.flags.StringVarP(&c.output, "output", "o", "table", "table for people, json for programs")
}

// setting is a value and its source.
type setting struct {
	Value string `json:"value"`
	From  string `json:"from"`
}

// fromDefault is the source of a setting that nobody has set.
const fromDefault = "default"

// service holds what a command line says about the service and the caller.
type service struct {
	profile, url, tenant, actor, roles, region, auth setting

	credentials auth.Credentials
	file        profileFile
	ignored     string // why the profile's authorization is not used; "" if it is
}

// service finds the service. It reads the file with the profiles, and sends nothing.
func (c *connection) service() (*service, error) {
	if c.found != nil {
		return c.found, nil
	}
	s := &service{}
	path, pathErr := profilePath(os.Getenv)
	s.profile = c.setting("profile", topology.EnvProfile, "", "")
	if pathErr == nil {
		var err error
		if s.file, err = readProfiles(path); err != nil {
			return nil, err
		}
		if s.profile.Value == "" && s.file.Current != "" {
			s.profile = setting{s.file.Current, path}
		}
	} else if s.profile.Value != "" {
		return nil, pathErr
	}
	var p userProfile
	if name := s.profile.Value; name != "" {
		var err error
		if p, err = s.file.profile(name); err != nil {
			return nil, err
		}
	}
	from := "profile " + s.profile.Value
	s.url = c.setting("url", topology.EnvURL, p.URL, from)
	if s.url.Value == "" {
		s.url = setting{defaultURL, fromDefault}
	}
	s.tenant = c.setting("tenant", topology.EnvTenant, p.Tenant, from)
	s.actor = c.setting("actor", topology.EnvActor, p.Actor, from)
	s.roles = c.setting("roles", topology.EnvRoles, p.Roles, from)
	if !sameOrigin(p.URL, s.url.Value) {
		// Do not send credentials for one service to another.
		if p.Region != "" || p.Describe() != "" {
			s.ignored = fmt.Sprintf("the address is from the %s: the credentials of the profile %s are for %s, and are not used", s.url.From, s.profile.Value, p.URL)
		}
		p = userProfile{}
	}
	s.region = c.setting("", topology.EnvRegion, p.Region, from)
	s.auth = setting{p.Describe(), from}
	s.credentials = auth.Credentials{Region: s.region.Value, IAM: auth.AWSProfile(p.AWSProfile)}
	switch token := os.Getenv(topology.EnvToken); {
	case token != "":
		s.credentials.Token, s.auth = token, setting{"token", "variable " + topology.EnvToken}
	case p.TokenEnv != "" || len(p.TokenCommand) > 0:
		s.credentials.TokenFrom, s.credentials.IAM = s.file.Token(s.profile.Value, os.Getenv, time.Now, c.stderr()), nil
		if c.noPrograms && len(p.TokenCommand) > 0 {
			s.credentials.TokenFrom = func(context.Context) (string, error) { return "", errNoProgram }
		}
	case p.Auth == authNone:
		s.credentials.IAM = nil
	case p.Auth == authIAM && !auth.CanSign(s.url.Value, s.region.Value):
		return nil, fmt.Errorf("the profile %s signs requests with IAM, which %s cannot check: its url is neither one of API Gateway nor by https with a region", s.profile.Value, s.url.Value)
	case s.auth.Value == "":
		s.auth = setting{"signed where API Gateway asks for it", fromDefault}
	}
	c.found = s
	return s, nil
}

// setting takes a value from the flag, else the variable, else the profile. An empty flag counts as
// unset.
func (c *connection) setting(flag, env, inProfile, from string) setting {
	if flag != "" && c.flags.Changed(flag) {
		return setting{c.flags.Lookup(flag).Value.String(), "flag --" + flag}
	}
	if v := os.Getenv(env); v != "" {
		return setting{v, "variable " + env}
	}
	if inProfile != "" {
		return setting{inProfile, from}
	}
	return setting{"", fromDefault}
}

// sameOrigin reports whether two addresses belong to the same server.
func sameOrigin(a, b string) bool {
	x, errX := url.Parse(a)
	y, errY := url.Parse(b)
	return errX == nil && errY == nil && x.Scheme == y.Scheme && strings.EqualFold(x.Host, y.Host)
}

// newClient returns a client for the service; it sends nothing. Requests to a
// service on AWS carry a token, or a signature with the credentials that AWS's own
// tools would use.
func (c *connection) newClient(adjust ...func(*client.Options)) (*client.Client, error) {
	s, err := c.service()
	if err != nil {
		return nil, err
	}
	if s.ignored != "" {
		fmt.Fprintf(c.stderr(), "note: %s\n", s.ignored)
	}
	if c.flags.Changed("profile") && strings.HasPrefix(s.url.From, "variable ") && s.file.Profiles[s.profile.Value].URL != "" {
		fmt.Fprintf(c.stderr(), "note: the address is %s, from the %s, which precedes the profile's\n", s.url.Value, s.url.From)
	}
	o := client.Options{URL: s.url.Value, Tenant: s.tenant.Value, Actor: s.actor.Value, Roles: s.roles.Value, HTTP: auth.NewClient(s.credentials, time.Now)}
	for _, f := range adjust {
		f(&o)
	}
	return client.New(o)
}

// page returns what the verb page needs to forward requests to the service.
func (c *connection) page() (address, tenant string, send http.RoundTripper, err error) {
	s, err := c.service()
	if err != nil {
		return "", "", nil, err
	}
	return s.url.Value, s.tenant.Value, auth.NewTransport(s.credentials, time.Now), nil
}

func (c *connection) json() bool { return c.output == "json" }

// env returns what the verbs of packages doctor and transfer need.
func (c *connection) env() render.Env {
	return render.Env{NewClient: c.newClient, JSON: c.json}
}

// urlIsSet reports whether the caller named the service's address. It ignores an error in the file
// with the profiles; making a client reports that.
func (c *connection) urlIsSet(*cobra.Command) bool {
	s, err := c.service()
	return err != nil || s.url.From != fromDefault
}

// isTokenVariable reports whether a variable, as KEY=value, holds a token of the service.
func (c *connection) isTokenVariable(variable string) bool {
	names := []string{topology.EnvToken}
	if s, err := c.service(); err == nil {
		for _, p := range s.file.Profiles {
			names = append(names, p.TokenEnv)
		}
	}
	name, _, _ := strings.Cut(variable, "=")
	return slices.Contains(names, name)
}
