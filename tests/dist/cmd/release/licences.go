package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licenceRE matches the names of files with the terms of a library.
var licenceRE = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// writeLicences writes the terms of all that programs in directories are linked from: of the modules of
// Go and its standard library and, from the directory of the page, of the packages of npm that are bundled
// into it. Whoever passes a program on has to pass these on.
func writeLicences(out io.Writer, dirs []string, page string, from *npmPackage) error {
	programs, err := listPrograms(dirs)
	if err != nil {
		return err
	}
	modules := map[string]bool{}
	for _, path := range programs {
		_, libraries, err := readProgram(path, from)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, l := range libraries {
			if strings.HasPrefix(l.PURL, "pkg:golang/") && l.Name != "std" {
				modules[l.Name] = true
			}
		}
	}
	goRoot, err := goOutput("env", "GOROOT")
	if err != nil {
		return err
	}
	if err := writeTerms(out, "the standard library of Go", strings.TrimSpace(goRoot)); err != nil {
		return err
	}
	if len(modules) > 0 {
		list, err := goOutput(append([]string{"list", "-m", "-f", "{{.Path}} {{.Version}}\t{{.Dir}}"}, slices.Sorted(maps.Keys(modules))...)...)
		if err != nil {
			return err
		}
		for line := range strings.Lines(list) {
			name, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
			if err := writeTerms(out, name, dir); err != nil {
				return err
			}
		}
	}
	bundled, err := bundledPackages(page)
	if err != nil {
		return err
	}
	for _, dir := range bundled {
		if err := writeTerms(out, strings.TrimPrefix(dir, "node_modules/")+" (npm)", filepath.Join(page, dir)); err != nil {
			return err
		}
	}
	return nil
}

func goOutput(args ...string) (string, error) {
	text, err := exec.Command("go", args...).Output() //nolint:gosec // the arguments are those of this file, and names of modules
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		err = fmt.Errorf("go %s: %s", args[0], failed.Stderr)
	}
	return string(text), err
}

// bundledPackages are the directories, below that of the page, of the packages that are not only needed
// to build it.
func bundledPackages(page string) (dirs []string, err error) {
	text, err := os.ReadFile(filepath.Join(page, "package-lock.json"))
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct {
			Dev bool `json:"dev"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, fmt.Errorf("package-lock.json: %w", err)
	}
	for dir, p := range lock.Packages {
		if dir != "" && !p.Dev {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs, nil
}

// writeTerms writes the files with the terms of a library, of which there is at least one.
func writeTerms(out io.Writer, library, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("terms of %s: %w", library, err)
	}
	found := false
	for _, e := range entries {
		if e.IsDir() || !licenceRE.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		found = true
		if _, err := fmt.Fprintf(out, "%s\n%s, %s\n\n%s\n\n", strings.Repeat("=", 80), library, e.Name(), strings.TrimSpace(string(text))); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("%s has no file with its terms", library)
	}
	return nil
}
