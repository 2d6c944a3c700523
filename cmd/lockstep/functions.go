package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/topology"
)

var errNoGo = errors.New("the functions are compiled with Go, which is not installed here")

// modulePath is the module that contains the functions.
const modulePath = "github.com/lockstep-run/lockstep"

// goArchitectures maps AWS's names of the architectures of Lambda functions to Go's.
var goArchitectures = map[string]string{"arm64": "arm64", "x86_64": "amd64"}

func newFunctions(c *connection) *cobra.Command {
	var out, architecture string
	cmd := &cobra.Command{
		Use:   "functions",
		Short: "Build the functions of this release for AWS, for a CDK app of your own",
		Long: `Build the functions of the release that this command belongs to, for AWS, and print their hashes.
They are compiled from the module in Go's module cache, so that this repository is not needed:

  go run ` + modulePath + `/cmd/lockstep@VERSION functions --out dist/functions

DIR is what FunctionsDir of the construct names. The same release, architecture and version of Go give the
same bytes everywhere. The files SHA256SUMS and VERSION are written beside the functions; the construct
refuses functions of another version than its own.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return errors.New("--out is missing: lockstep functions --out DIR")
			}
			if goArchitectures[architecture] == "" {
				return fmt.Errorf("--architecture is arm64 or x86_64, not %q", architecture)
			}
			source, err := findSource(cmd.Context(), debug.ReadBuildInfo)
			if err != nil {
				return startError{err}
			}
			built, err := source.build(cmd.Context(), out, architecture)
			if err != nil {
				return startError{err}
			}
			if c.json() {
				return render.PrintJSON(cmd, map[string]any{"version": source.version, "architecture": architecture, "functions": built})
			}
			for _, f := range built {
				fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", f.SHA256, f.File)
			}
			printNote(cmd, "built for %s as version %s", architecture, source.version)
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "the directory to write to, such as dist/functions")
	cmd.Flags().StringVar(&architecture, "architecture", "arm64", "arm64 or x86_64")
	return cmd
}

// moduleSource is the source of a release.
type moduleSource struct {
	dir     string
	version string
}

// builtFunction is a function that has been built.
type builtFunction struct {
	Name   string `json:"name"`
	File   string `json:"file"` // in the directory
	SHA256 string `json:"sha256"`
}

// findSource finds the source from which this command was built: the module cache if it came from
// there, else the module in the current directory.
func findSource(ctx context.Context, read func() (*debug.BuildInfo, bool)) (moduleSource, error) {
	if m, ok := cachedModule(read); ok {
		var found struct{ Dir, Sum, Error string }
		err := goJSON(ctx, os.TempDir(), &found, "mod", "download", "-json", m.Path+"@"+m.Version)
		switch {
		case found.Error != "":
			return moduleSource{}, fmt.Errorf("the source of %s %s: %s", m.Path, m.Version, found.Error)
		case err != nil:
			return moduleSource{}, err
		case found.Sum != m.Sum:
			return moduleSource{}, fmt.Errorf("the source of %s %s has the checksum %s, and this command was built from %s", m.Path, m.Version, found.Sum, m.Sum)
		}
		return moduleSource{dir: found.Dir, version: m.Version}, nil
	}
	var found struct{ Dir string }
	if _, err := exec.LookPath("go"); err != nil {
		return moduleSource{}, errNoGo
	}
	if err := goJSON(ctx, "", &found, "list", "-m", "-json", modulePath); err != nil || found.Dir == "" {
		return moduleSource{}, fmt.Errorf("this command was built from a working tree that is not here: call it in that tree, or as go run %s/cmd/lockstep@VERSION functions", modulePath)
	}
	return moduleSource{dir: found.Dir, version: version}, nil
}

// cachedModule returns the module from which Go built this command. ok is false for a build from a
// working tree.
func cachedModule(read func() (*debug.BuildInfo, bool)) (debug.Module, bool) {
	info, ok := read()
	if !ok {
		return debug.Module{}, false
	}
	m := info.Main
	if m.Replace != nil {
		m = *m.Replace
	}
	return m, m.Sum != "" // a working tree has no checksum
}

// commandVersion returns the version of this command: what the linker has set, else that of the
// module.
func commandVersion(read func() (*debug.BuildInfo, bool)) string {
	if m, ok := cachedModule(read); ok && version == "dev" {
		return m.Version
	}
	return version
}

// build builds all functions into a directory. VERSION is written last, so that a
// directory with that file is complete.
func (s moduleSource) build(ctx context.Context, out, architecture string) ([]builtFunction, error) {
	out, err := filepath.Abs(out)
	if err != nil {
		return nil, err
	}
	versionFile := filepath.Join(out, "VERSION")
	if err := os.Remove(versionFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var all []builtFunction
	var sums strings.Builder
	for _, name := range topology.Functions {
		f := builtFunction{Name: name, File: name + "/bootstrap"}
		file := filepath.Join(out, name, "bootstrap")
		// Use the settings of make dist, so that the binaries equal those of the release byte for
		// byte.
		cmd := goCommand(ctx, s.dir, "build", "-tags", "lambda.norpc", "-trimpath", "-buildvcs=false",
			"-ldflags", "-s -w -X "+modulePath+"/shared/boot.Version="+s.version, "-o", file, "./functions/"+name)
		cmd.Env = append(cmd.Env, "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+goArchitectures[architecture])
		if output, err := cmd.CombinedOutput(); err != nil {
			return nil, goError(cmd, err, output)
		}
		if f.SHA256, err = fileHash(file); err != nil {
			return nil, err
		}
		fmt.Fprintf(&sums, "%s  %s\n", f.SHA256, f.File)
		all = append(all, f)
	}
	if err := os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(sums.String()), 0o644); err != nil {
		return nil, err
	}
	return all, os.WriteFile(versionFile, []byte(s.version+"\n"), 0o644)
}

// goCommand prepares a call of Go. It drops the caller's workspace and flags, which would change
// the build.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOAMD64=", "GOARM64=")
	return cmd
}

// goJSON runs Go and parses its output as JSON.
func goJSON(ctx context.Context, dir string, into any, args ...string) error {
	cmd := goCommand(ctx, dir, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	answer, err := cmd.Output()
	if decodeErr := json.Unmarshal(answer, into); err == nil && decodeErr != nil {
		return fmt.Errorf("go %s: %w", strings.Join(args, " "), decodeErr)
	}
	if err != nil {
		return goError(cmd, err, stderr.Bytes())
	}
	return nil
}

// goError wraps the output of a failed call of Go.
func goError(cmd *exec.Cmd, err error, output []byte) error {
	if errors.Is(err, exec.ErrNotFound) {
		return errNoGo
	}
	return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args[:2], " "), err, bytes.TrimSpace(output))
}

func fileHash(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
