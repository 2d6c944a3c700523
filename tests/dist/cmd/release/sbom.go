package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sbom is a bill of materials of CycloneDX.
type sbom struct {
	BOMFormat    string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	Version      int          `json:"version"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type component struct {
	Type    string `json:"type"` // application or library
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	PURL    string `json:"purl,omitempty"`
	Hashes  []hash `json:"hashes,omitempty"`

	Licenses []license `json:"licenses,omitempty"`
}

type license struct {
	Expression string `json:"expression"` // of SPDX
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// writeSBOM writes the bill of materials of all programs below directories in the format
// CycloneDX 1.6: from their build information, or, where one was not built here, from the package
// that it is from (nil for none). Programs are named relative to a root, so that no path of this
// machine gets in. It has no time and no serial number: the same programs give the same bytes.
func writeSBOM(out io.Writer, root string, dirs []string, from *npmPackage) error {
	b := sbom{BOMFormat: "CycloneDX", SpecVersion: "1.6", Version: 1}
	libraries := map[string]component{}
	programs, err := listPrograms(dirs)
	if err != nil {
		return err
	}
	for _, path := range programs {
		name, err := filepath.Rel(root, path)
		if err != nil || !filepath.IsLocal(name) {
			return fmt.Errorf("%s is not below %s", path, root)
		}
		c, uses, err := readProgram(path, from)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		c.Ref = filepath.ToSlash(name)
		d := dependency{Ref: c.Ref}
		for _, u := range uses {
			libraries[u.Ref] = u
			d.DependsOn = append(d.DependsOn, u.Ref)
		}
		slices.Sort(d.DependsOn)
		b.Components, b.Dependencies = append(b.Components, c), append(b.Dependencies, d)
	}
	refs := make([]string, 0, len(libraries))
	for ref := range libraries {
		refs = append(refs, ref)
	}
	slices.Sort(refs)
	for _, ref := range refs {
		b.Components = append(b.Components, libraries[ref])
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(b)
}

// listPrograms lists the files below directories that can be executed, in order: all that is packed
// is listed, whoever adds a program.
func listPrograms(dirs []string) ([]string, error) {
	var all []string
	for _, dir := range dirs {
		files, err := listFiles(dir, dir)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if f.executable || strings.HasSuffix(f.name, ".exe") {
				all = append(all, filepath.FromSlash(f.name))
			}
		}
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) == 0 {
		return nil, fmt.Errorf("there is no program in %s", strings.Join(dirs, ", "))
	}
	return all, nil
}

// readProgram reads a program and what it consists of: the modules that are linked into it, the
// standard library first, or the package that it is from.
func readProgram(path string, from *npmPackage) (component, []component, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return component{}, nil, err
	}
	sum := sha256.Sum256(text)
	c := component{Type: "application", Name: filepath.Base(path), Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}}
	if from != nil && from.contains(path, text) {
		return c, []component{from.component()}, nil
	}
	info, err := buildinfo.Read(bytes.NewReader(text))
	if err != nil {
		return component{}, nil, fmt.Errorf("neither a program of Go nor one of a known package: %w", err)
	}
	c.Name = info.Path
	libraries := []component{libraryComponent("std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		libraries = append(libraries, libraryComponent(m.Path, m.Version))
	}
	return c, libraries, nil
}

func libraryComponent(path, version string) component {
	url := "pkg:golang/" + path + "@" + version
	return component{Type: "library", Ref: url, Name: path, Version: version, PURL: url}
}
