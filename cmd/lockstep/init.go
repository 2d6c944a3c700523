package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
)

// projects are the files of new projects, by language. Go files end in .txt, so that they are not
// part of this module.
//
//go:embed project
var projects embed.FS

func newInit(c *connection) *cobra.Command {
	var lang string
	cmd := &cobra.Command{
		Use:   "init DIR",
		Short: "Write a new project: a block, a workflow, and their tests",
		Long: `Write a new project into a directory that is new or empty: a worker with one block and its test, a definition and
its test, settings for the local stack, and a CDK app: in Go it deploys the engine and the worker, in Python the engine,
which calls the block where you serve it. Its README.md has the commands.`,
		Example: "  lockstep init greeter --lang go\n  lockstep init greeter --lang python",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := args[0]
			files, err := writeProject(dir, lang)
			if err != nil {
				return err
			}
			if c.json() {
				return render.PrintJSON(cmd, map[string][]string{"files": files})
			}
			for _, file := range files {
				fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n", filepath.Join(dir, file))
			}
			printNote(cmd, "%s says how to go on", filepath.Join(dir, "README.md"))
			return nil
		},
	}
	cmd.Flags().StringVar(&lang, "lang", "go", "go or python")
	return cmd
}

// unnamedRE matches characters that a package name must not contain.
var unnamedRE = regexp.MustCompile(`[^a-z0-9]+`)

// projectName derives the name of the project from its directory. It becomes the package of its
// blocks and definitions.
func projectName(dir string) (string, error) {
	whole, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	name := strings.Trim(unnamedRE.ReplaceAllString(strings.ToLower(filepath.Base(whole)), "_"), "_")
	if name == "" || name[0] >= '0' && name[0] <= '9' || len(name) > 40 {
		return "", fmt.Errorf("the name of the directory becomes that of the project: want a letter, then letters and digits, at most 40, not %q", filepath.Base(whole))
	}
	return name, nil
}

// writeProject writes the files of a project and returns their paths in it.
func writeProject(dir, lang string) (files []string, err error) {
	name, err := projectName(dir)
	if err != nil {
		return nil, err
	}
	switch entries, err := os.ReadDir(dir); {
	case err == nil && len(entries) > 0:
		return nil, fmt.Errorf("%s is not empty: name a new directory", dir)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return nil, render.ReadError(dir, err)
	}
	fill := strings.NewReplacer("{{name}}", name, "{{stack}}", strings.ToUpper(name[:1])+strings.ReplaceAll(name[1:], "_", ""))
	root := path.Join("project", lang)
	err = fs.WalkDir(projects, root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := projects.ReadFile(file)
		if err != nil {
			return err
		}
		rest := strings.TrimSuffix(strings.TrimPrefix(file, root+"/"), ".txt")
		target := filepath.Join(dir, filepath.FromSlash(rest))
		if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
			return err
		}
		files = append(files, rest)
		return os.WriteFile(target, []byte(fill.Replace(string(text))), 0o600)
	})
	return files, err
}
