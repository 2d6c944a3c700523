package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// npmPackage is a package of npm with a program that is packed as it is: nothing in the program
// says what it is.
type npmPackage struct {
	dir string

	Name       string `json:"name"`
	Version    string `json:"version"`
	License    string `json:"license"` // an expression of SPDX
	Repository struct {
		URL string `json:"url"`
	} `json:"repository"`
}

// ownLicense is that of this repository, whose text each archive has.
const ownLicense = "Apache-2.0"

// readNPMPackage reads what a package in a directory says of itself. It refuses one whose licence is not
// ours, nor offers ours among others: then its text would have to be packed.
func readNPMPackage(dir string) (*npmPackage, error) {
	text, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		return nil, err
	}
	p := &npmPackage{dir: dir}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("%s: package.json: %w", dir, err)
	}
	if p.Name == "" || p.Version == "" || p.Repository.URL == "" {
		return nil, fmt.Errorf("%s: package.json has no name, no version or no repository", dir)
	}
	for choice := range strings.SplitSeq(strings.Trim(p.License, "()"), " OR ") {
		if choice == ownLicense {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%s has the licence %q, not %s: its text has to be packed", p.Name, p.License, ownLicense)
}

// contains reports whether a file is the program of its name in the package.
func (p *npmPackage) contains(name string, content []byte) bool {
	own, err := os.ReadFile(filepath.Join(p.dir, filepath.Base(name)))
	return err == nil && bytes.Equal(own, content)
}

// component is the package in a bill of materials.
func (p *npmPackage) component() component {
	c := component{Type: "library", Name: p.Name, Version: p.Version, PURL: "pkg:npm/" + strings.Replace(p.Name, "@", url.QueryEscape("@"), 1) + "@" + p.Version}
	c.Ref = c.PURL
	c.Licenses = []license{{Expression: p.License}}
	return c
}

// notice is the text of the file NOTICE of an archive with the program.
func (p *npmPackage) notice(program string) string {
	return fmt.Sprintf(`Lockstep is under the licence %s, whose text is in the file LICENSE.

This archive contains the program %s, which is not a part of Lockstep:

    package     %s %s (npm)
    source      %s
    licence     %s; it is distributed here under %s,
                whose text is in the file LICENSE
    changes     none
`, ownLicense, program, p.Name, p.Version, p.Repository.URL, p.License, ownLicense)
}
