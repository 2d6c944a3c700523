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
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// writeSBOM writes the bill of materials of programs in the format CycloneDX 1.6, from their
// build information. It has no time and no serial number, so that the same programs give
// the same bytes.
func writeSBOM(out io.Writer, programs []string) error {
	b := sbom{BOMFormat: "CycloneDX", SpecVersion: "1.6", Version: 1}
	libraries := map[string]component{}
	for _, path := range programs {
		c, uses, err := readProgram(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
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

// readProgram reads a program and the modules that are linked into it, the standard library
// first.
func readProgram(path string) (component, []component, error) {
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
	c := component{Type: "application", Ref: name, Name: info.Path, Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}}
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
