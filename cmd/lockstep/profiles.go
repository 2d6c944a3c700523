package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// userProfile names one service, and who the caller is for it. Empty fields are unset.
type userProfile struct {
	URL    string `yaml:"url,omitempty"`
	Tenant string `yaml:"tenant,omitempty"`
	Actor  string `yaml:"actor,omitempty"`
	Roles  string `yaml:"roles,omitempty"`

	// Region is used to sign requests to a custom domain.
	Region string `yaml:"region,omitempty"`

	// Auth is authIAM, authNone or empty, which means a signature if the address belongs to API
	// Gateway.
	Auth string `yaml:"auth,omitempty"`

	// AWSProfile is the profile of AWS's own tools whose credentials sign. Empty means their
	// default.
	AWSProfile string `yaml:"awsProfile,omitempty"`

	// TokenEnv is the variable that holds a bearer token. TokenCommand is the program, with its
	// arguments, that prints one. At most one of Auth, TokenEnv and TokenCommand is set.
	TokenEnv     string   `yaml:"tokenEnv,omitempty"`
	TokenCommand []string `yaml:"tokenCommand,omitempty"`
}

// How requests are authorised without a token.
const (
	authIAM  = "iam"  // signed with the credentials of AWS's own tools
	authNone = "none" // not at all
)

// profileKeys are the keys of a profile, in the order of output.
var profileKeys = []string{"url", "tenant", "actor", "roles", "region", "auth", "awsProfile", "tokenEnv", "tokenCommand"}

// credentialKeys are the profileKeys that authorise a caller. They need a url.
var credentialKeys = []string{"region", "auth", "awsProfile", "tokenEnv", "tokenCommand"}

// profileFile is the file with the profiles.
type profileFile struct {
	Path     string                 `yaml:"-"`
	Current  string                 `yaml:"current,omitempty"` // used by a command line that names no profile
	Profiles map[string]userProfile `yaml:"profiles,omitempty"`

	comments yaml.CommentMap
}

// maxProfileBytes bounds the file.
const maxProfileBytes = 1 << 20

// profilePath returns the path of the file: lockstep/config.yaml in $XDG_CONFIG_HOME, or in .config
// of the home directory.
func profilePath(getenv func(string) string) (string, error) {
	dir := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // the XDG specification says to ignore relative paths
		home := cmp.Or(getenv("HOME"), getenv("USERPROFILE"))
		if home == "" {
			return "", errors.New("neither XDG_CONFIG_HOME nor HOME says where the file with the profiles is")
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "lockstep", "config.yaml"), nil
}

// readProfiles reads the file. A missing file means no profiles. An error in its content is a
// [render.FileError] with the line of each issue.
func readProfiles(path string) (profileFile, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return profileFile{Path: path}, nil
	}
	if err != nil {
		return profileFile{}, render.ReadError(path, err)
	}
	if info.Size() > maxProfileBytes {
		return profileFile{}, fmt.Errorf("%s is larger than %d bytes", path, maxProfileBytes)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return profileFile{}, render.ReadError(path, err)
	}
	f, err := parseProfiles(path, source)
	if err != nil {
		return f, &render.FileError{Path: path, Err: err}
	}
	return f, nil
}

// parseProfiles parses the content of the file at a path.
func parseProfiles(path string, source []byte) (profileFile, error) {
	f := profileFile{Path: path, Profiles: map[string]userProfile{}, comments: yaml.CommentMap{}}
	if len(strings.TrimSpace(string(source))) == 0 {
		return f, nil
	}
	r, root := yamldoc.Parse(source)
	if root != nil {
		r.Object(yamldoc.Fields{"current": r.Text(&f.Current), "profiles": profilesField(r, f.Profiles)}).Read(root, "")
		if _, known := f.Profiles[f.Current]; f.Current != "" && !known && len(r.Issues()) == 0 {
			r.ReportAt("current", "reference", "there is no profile %q%s", f.Current, workflow.DidYouMean(f.Current, f.Names()))
		}
	}
	if err := workflow.Invalid("the file with the profiles is not valid", r.Issues()); err != nil {
		return f, err
	}
	var discarded profileFile // this only reads the comments
	if err := yaml.UnmarshalWithOptions(source, &discarded, yaml.CommentToMap(f.comments)); err != nil {
		f.comments = nil
	}
	return f, nil
}

func profilesField(r *yamldoc.Reader, into map[string]userProfile) yamldoc.Field {
	return yamldoc.Value(nil, func(n ast.Node, path string) {
		pairs, ok := r.Mapping(n, path)
		if !ok {
			return
		}
		for _, pair := range pairs {
			name := yamldoc.KeyOf(pair)
			at := yamldoc.JoinPath(path, name)
			if !profileNameRE.MatchString(name) {
				r.Report(pair.Key, at, "pattern", "the name of a profile has up to 64 letters, digits and ._-")
			}
			var p userProfile
			p.read(r, pair.Value, name, at)
			into[name] = p
		}
	})
}

var (
	profileNameRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	variableRE    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	regionRE      = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)
)

// maxTokenWords bounds the words of a token command.
const maxTokenWords = 50

// read reads one profile.
func (p *userProfile) read(r *yamldoc.Reader, n ast.Node, name, path string) {
	matches := func(into *string, re *regexp.Regexp, want string) yamldoc.Field {
		return r.Text(into).Then(r, func(n ast.Node, at string) {
			if !re.MatchString(*into) {
				r.Report(n, at, "pattern", "%s", want)
			}
		})
	}
	fields := yamldoc.Fields{
		"url": r.Text(&p.URL).Then(r, func(n ast.Node, at string) {
			if u, err := url.Parse(p.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				r.Report(n, at, "value", "want an address such as https://lockstep.example.com")
			} else if u.User != nil {
				r.Report(n, at, "secret", "an address with a password is not kept in a file")
			}
		}),
		"tenant": r.Text(&p.Tenant).Then(r, func(n ast.Node, at string) {
			if !workflow.ValidID(p.Tenant) {
				r.Report(n, at, "pattern", "want up to 128 letters, digits and ._:@+-")
			}
		}),
		"actor": r.Text(&p.Actor).Then(r, func(n ast.Node, at string) {
			if !workflow.IsVisible(p.Actor, 256) {
				r.Report(n, at, "pattern", "want up to 256 visible characters")
			}
		}),
		"roles":      r.Text(&p.Roles),
		"region":     matches(&p.Region, regionRE, "want the name of a region, such as eu-central-1"),
		"auth":       yamldoc.Enum(r, &p.Auth, authIAM, authNone),
		"awsProfile": r.Text(&p.AWSProfile),
		"tokenEnv":   matches(&p.TokenEnv, variableRE, "want the name of the variable that holds the token, not the token itself"),
		"tokenCommand": yamldoc.List(r, &p.TokenCommand, maxTokenWords, r.Text).Then(r, func(n ast.Node, at string) {
			if len(p.TokenCommand) == 0 || p.TokenCommand[0] == "" {
				r.Report(n, at, "required", "want a program and its arguments, such as [gcloud, auth, print-identity-token]")
			}
		}),
	}
	if pairs, ok := r.Mapping(n, path); ok {
		for _, pair := range pairs {
			if key := yamldoc.KeyOf(pair); slices.Contains([]string{"token", "password", "secret"}, strings.ToLower(key)) {
				r.Report(pair.Key, yamldoc.JoinPath(path, key), "secret", "secrets are not kept in this file: tokenEnv names a variable that holds a token, tokenCommand a program that writes one")
				return
			}
		}
		r.Object(fields).Read(n, path)
		p.checkAddressed(r, pairs, name, path)
	}
	var ways []string
	for key, set := range map[string]bool{"auth": p.Auth != "", "tokenEnv": p.TokenEnv != "", "tokenCommand": len(p.TokenCommand) > 0} {
		if set {
			ways = append(ways, key)
		}
	}
	if slices.Sort(ways); len(ways) > 1 {
		r.Report(n, path, "conflict", "only one of %s", strings.Join(ways, ", "))
	}
}

// checkAddressed refuses keys that authorise a caller in a profile without an address: the
// credentials would go to whatever service a command line names.
func (p userProfile) checkAddressed(r *yamldoc.Reader, pairs []*ast.MappingValueNode, name, path string) {
	if slices.ContainsFunc(pairs, func(pair *ast.MappingValueNode) bool { return yamldoc.KeyOf(pair) == "url" }) {
		return // an invalid one has its own issue
	}
	for _, pair := range pairs {
		if key := yamldoc.KeyOf(pair); slices.Contains(credentialKeys, key) {
			r.Report(pair.Key, yamldoc.JoinPath(path, key), "required", "%s is for one service only, and the profile has no url: set that first (lockstep config set --profile %s url https://...)", key, name)
		}
	}
}

// Names are the names of the profiles, sorted.
func (f profileFile) Names() []string { return slices.Sorted(maps.Keys(f.Profiles)) }

// profile returns the profile with a name. For an unknown name, the error lists the existing ones.
func (f profileFile) profile(name string) (userProfile, error) {
	p, ok := f.Profiles[name]
	if ok {
		return p, nil
	}
	if len(f.Profiles) == 0 {
		return p, fmt.Errorf("there is no profile %q: %s has none; \"lockstep config set --profile %s url https://...\" makes one", name, f.Path, name)
	}
	return p, fmt.Errorf("there is no profile %q in %s%s; there are %s", name, f.Path, workflow.DidYouMean(name, f.Names()), strings.Join(f.Names(), ", "))
}

// Set sets a key of a profile, which it creates if missing. No value, or an empty one, removes the
// key. It does not write the file.
func (f *profileFile) Set(name, key string, values ...string) error {
	if !profileNameRE.MatchString(name) {
		return fmt.Errorf("%q is no name of a profile: it has up to 64 letters, digits and ._-", name)
	}
	if len(values) == 1 && values[0] == "" {
		values = nil
	}
	p := f.Profiles[name]
	texts := map[string]*string{
		"url": &p.URL, "tenant": &p.Tenant, "actor": &p.Actor, "roles": &p.Roles, "region": &p.Region, "auth": &p.Auth, "awsProfile": &p.AWSProfile, "tokenEnv": &p.TokenEnv,
	}
	switch into := texts[key]; {
	case key == "tokenCommand":
		p.TokenCommand = values
	case into == nil:
		return fmt.Errorf("a profile has no key %q%s; it has %s", key, workflow.DidYouMean(key, profileKeys), strings.Join(profileKeys, ", "))
	case len(values) > 1:
		return fmt.Errorf("%s has one value, not %d", key, len(values))
	default:
		*into = strings.Join(values, "")
	}
	if f.Profiles == nil {
		f.Profiles = map[string]userProfile{}
	}
	f.Profiles[name] = p
	return nil
}

// Write replaces the file, unless it would be invalid. Only the owner can read it.
func (f profileFile) Write() error {
	text, err := yaml.MarshalWithOptions(f, yaml.WithComment(f.comments), yaml.IndentSequence(true))
	if err != nil {
		return fmt.Errorf("write %s: %w", f.Path, err)
	}
	if _, err := parseProfiles(f.Path, text); err != nil {
		var e *workflow.Error
		if errors.As(err, &e) {
			e.Message = "this would not be valid, and nothing was written"
			for i := range e.Issues {
				e.Issues[i].Line, e.Issues[i].Column = 0, 0 // positions in a text that nobody sees
			}
		}
		return err
	}
	target := f.Path
	if real, err := filepath.EvalSymlinks(target); err == nil {
		target = real // keep a link a link
	}
	dir := filepath.Dir(target)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(dir, ".config-*") // CreateTemp gives only the owner access
	if err != nil {
		return err
	}
	_, err = temporary.Write(text)
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), target)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}
