package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/topology"
)

func newConfig(c *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Name services in profiles, and show which one is used",
		Long: `Name services in profiles: a file has, for each, the address, the tenant and how requests are authorised.
Each setting is that of a flag, else of a variable, else of the profile, else a default. The profile is the one of
--profile, else of LOCKSTEP_PROFILE, else the one of "lockstep config use". Its credentials are used for its url only,
and it cannot have any without one. A token is sent by https, and by http to this machine alone.

A profile has these keys: url; tenant, actor and roles, for a service that trusts headers; region, for which requests
to a domain of your own are signed; and one of auth (iam signs with the credentials of AWS's own tools, none sends
none), tokenEnv (the variable that holds a bearer token) and tokenCommand (a program that writes one; it is
executed without a shell, its token is used for a minute, and completion never executes it). awsProfile names a
profile of AWS's own tools. No secret is in the file.`,
		Example: `  lockstep config set --profile prod url https://abc123.execute-api.eu-central-1.amazonaws.com
  lockstep config set --profile prod auth iam
  lockstep config set --profile lab url https://lockstep.lab.example.com
  lockstep config set --profile lab tokenCommand -- gcloud auth print-identity-token
  lockstep config use prod
  lockstep list --profile lab`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigShow(c), newConfigPath(c), newConfigList(c), newConfigUse(c), newConfigSet(c))
	return cmd
}

func newConfigShow(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Show the settings of this command line, and where each is from",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.service()
			if err != nil {
				return err
			}
			rows := []struct {
				name string
				setting
			}{{"profile", s.profile}, {"url", s.url}, {"tenant", s.tenant}, {"actor", s.actor}, {"roles", s.roles}, {"region", s.region}, {"auth", s.auth}}
			if c.json() {
				all := map[string]setting{}
				for _, row := range rows {
					all[row.name] = row.setting
				}
				return render.PrintJSON(cmd, all)
			}
			t := render.NewTable(cmd.OutOrStdout(), "SETTING", "VALUE", "FROM")
			for _, row := range rows {
				t.Row([]string{row.name, render.OrDash(&row.Value), row.From})
			}
			if err := t.Flush(); err != nil {
				return err
			}
			if s.ignored != "" {
				printNote(cmd, "%s", s.ignored)
			}
			return nil
		},
	}
}

func newConfigPath(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "path",
		Short: "Print where the file with the profiles is",
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := profilePath(os.Getenv)
			if err != nil {
				return err
			}
			return printText(cmd, c, map[string]string{"path": path}, nil, path)
		},
	}
}

// readOwnProfiles reads the file with the profiles.
func readOwnProfiles() (profileFile, error) {
	path, err := profilePath(os.Getenv)
	if err != nil {
		return profileFile{}, err
	}
	return readProfiles(path)
}

// profileRow is one profile of the list.
type profileRow struct {
	Name   string `json:"name"`
	InUse  bool   `json:"inUse"`
	URL    string `json:"url"`
	Tenant string `json:"tenant"`
	Auth   string `json:"auth"`
}

func newConfigList(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the profiles",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := readOwnProfiles()
			if err != nil {
				return err
			}
			rows := []profileRow{}
			for _, name := range f.Names() {
				p := f.Profiles[name]
				rows = append(rows, profileRow{name, name == f.Current, p.URL, p.Tenant, p.Describe()})
			}
			if c.json() {
				return render.PrintJSON(cmd, rows)
			}
			if len(rows) == 0 {
				printNote(cmd, "%s has no profile; \"lockstep config set --profile NAME url https://...\" makes one", f.Path)
				return nil
			}
			t := render.NewTable(cmd.OutOrStdout(), "PROFILE", "IN USE", "URL", "TENANT", "AUTH")
			for _, r := range rows {
				t.Row([]string{r.Name, map[bool]string{true: "yes", false: "-"}[r.InUse], render.OrDash(&r.URL), render.OrDash(&r.Tenant), render.OrDash(&r.Auth)})
			}
			return t.Flush()
		},
	}
}

func newConfigUse(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "use NAME",
		Short: "Use a profile wherever a command line names none",
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := readOwnProfiles()
			if err != nil {
				return err
			}
			if _, err := f.profile(args[0]); err != nil {
				return err
			}
			f.Current = args[0]
			if err := f.Write(); err != nil {
				return err
			}
			return printText(cmd, c, map[string]string{"profile": f.Current}, nil, "command lines that name no profile use "+f.Current)
		},
	}
}

func newConfigSet(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "set KEY VALUE...",
		Short: "Set a key of a profile; an empty value removes it",
		Long: `Set a key of the profile of --profile, else of LOCKSTEP_PROFILE, else of the one in use. A profile that does not
exist is made. An empty value removes the key. "lockstep config --help" lists the keys.`,
		Example: "  lockstep config set --profile prod url https://abc123.execute-api.eu-central-1.amazonaws.com\n" +
			"  lockstep config set --profile prod tokenEnv PROD_TOKEN\n  lockstep config set --profile prod tokenEnv ''",
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := readOwnProfiles()
			if err != nil {
				return err
			}
			name := c.setting("profile", topology.EnvProfile, f.Current, "").Value
			if name == "" {
				return errors.New("which profile? --profile NAME names it")
			}
			_, existed := f.Profiles[name]
			if err := f.Set(name, args[0], args[1:]...); err != nil {
				return err
			}
			if err := f.Write(); err != nil {
				return err
			}
			if !existed && f.Current == "" {
				printNote(cmd, "\"lockstep config use %s\" uses it wherever a command line names no profile", name)
			}
			if c.json() {
				return render.PrintJSON(cmd, map[string]string{"profile": name})
			}
			return nil
		},
	}
}
