// Command sbom writes what programs are made of, as their own build information
// says, in the form of CycloneDX 1.6. The same programs give the same bytes: it
// has neither time nor serial number.
//
//	sbom dist/functions/*/bootstrap > dist/sbom.cdx.json
package main

import (
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

func main() {
	if err := write(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// bill is a bill of materials.
type bill struct {
	Form         string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Version      int          `json:"version"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type component struct {
	Kind    string `json:"type"` // application or library
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	URL     string `json:"purl,omitempty"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type dependency struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn"`
}

func write(out io.Writer, programs []string) error {
	b := bill{Form: "CycloneDX", Spec: "1.6", Version: 1}
	libraries := map[string]component{}
	for _, path := range programs {
		c, uses, err := read(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		d := dependency{Ref: c.Ref}
		for _, u := range uses {
			libraries[u.Ref] = u
			d.On = append(d.On, u.Ref)
		}
		slices.Sort(d.On)
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

// read is a program and the modules that are linked into it, the language's own
// library first.
func read(path string) (component, []component, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return component{}, nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return component{}, nil, err
	}
	sum := sha256.Sum256(text)
	name := filepath.ToSlash(path)
	if i := strings.Index(name, "functions/"); i >= 0 {
		name = name[i:] // wherever it was built
	}
	c := component{Kind: "application", Ref: name, Name: info.Path, Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}}
	uses := []component{library("std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		uses = append(uses, library(m.Path, m.Version))
	}
	return c, uses, nil
}

func library(path, version string) component {
	url := "pkg:golang/" + path + "@" + version
	return component{Kind: "library", Ref: url, Name: path, Version: version, URL: url}
}
