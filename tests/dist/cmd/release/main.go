// Command release packs what a release consists of, from what make release has built:
//
//	release -version v1.2.3 -assembly dist/assembly -out dist/release dist/packages/*
//
// Each directory that it is given becomes an archive of its name, .zip where the name ends
// so and .tar.gz otherwise; a file is copied. The cloud assembly becomes a template with the archives of its
// functions, which needs neither Go nor CDK. SHA256SUMS has all their hashes, and
// SHA256SUMS.sig signs it with the SSH key in the file that LOCKSTEP_RELEASE_KEY names.
// The same directories give the same bytes.
//
// A release is of a working tree that is exactly the commit with the tag of the version; with
// -trial any is packed, is never signed, and says so in its notes.
//
// With -sbom it writes the bill of materials of the programs in the directories that it is given to
// standard output, with -notice what an archive has to say of the program of -npm, and with -check it
// only checks the version and the working tree.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// keyVariable names the environment variable with the file of the private key.
const keyVariable = "LOCKSTEP_RELEASE_KEY"

func main() {
	var r release
	flag.StringVar(&r.version, "version", "", "version of the release, such as v1.2.3")
	flag.StringVar(&r.assembly, "assembly", "", "directory of the cloud assembly")
	flag.StringVar(&r.changelog, "changelog", "CHANGELOG.md", "file with the notes")
	flag.StringVar(&r.out, "out", "", "directory for the release; it is emptied")
	flag.BoolVar(&r.trial, "trial", false, "pack any working tree, and sign nothing")
	var only part
	flag.BoolVar(&only.check, "check", false, "check only the version and the working tree")
	flag.BoolVar(&only.sbom, "sbom", false, "write only the bill of materials of the programs in directories")
	flag.StringVar(&only.page, "licences", "", "write only the terms of all that is linked into the programs in directories, and into the page in this one")
	flag.StringVar(&only.notice, "notice", "", "write only the notice for this program of the package of npm")
	flag.StringVar(&only.root, "root", ".", "directory to which the bill of materials names programs")
	flag.StringVar(&only.npm, "npm", "", "directory of the package of npm with a program that is packed")
	flag.Parse()
	r.packages, r.key, r.log = flag.Args(), os.Getenv(keyVariable), os.Stdout
	if err := r.do(only); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// part is what is done instead of the whole release.
type part struct {
	check  bool
	sbom   bool
	page   string // directory of the page, whose terms are written with those of programs; "" for none
	notice string // program; "" for none

	root, npm string // directories; npm is "" where no program of such a package is packed
}

func (r release) do(only part) error {
	var from *npmPackage
	if only.npm != "" {
		var err error
		if from, err = readNPMPackage(only.npm); err != nil {
			return err
		}
	}
	switch {
	case only.notice != "" && from == nil:
		return errors.New("-notice needs -npm")
	case only.notice != "":
		_, err := fmt.Fprint(os.Stdout, from.notice(only.notice))
		return err
	case only.page != "":
		return writeLicences(os.Stdout, r.packages, only.page, from)
	case only.sbom:
		return writeSBOM(os.Stdout, only.root, r.packages, from)
	}
	if err := checkVersion(r.version); err != nil {
		return err
	}
	if !r.trial { // before anything is built, and again before it is signed
		if err := checkTree(".", r.version); err != nil {
			return err
		}
	}
	if only.check {
		return nil
	}
	return r.write()
}

// release is what is packed.
type release struct {
	version   string
	trial     bool // of any working tree; not signed
	packages  []string
	assembly  string
	changelog string
	key       string // file; "" leaves the release unsigned
	out       string
	log       io.Writer
}

var versionRE = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// betweenTagsRE matches what git calls a commit after a tag, such as v1.2.3-4-g5e6f7a8.
var betweenTagsRE = regexp.MustCompile(`-\d+-g[0-9a-f]{7,}$`)

// checkVersion refuses what is no version of a Go module, such as what git calls a commit between two
// tags, or a working tree with changes.
func checkVersion(version string) error {
	if !versionRE.MatchString(version) || strings.HasSuffix(version, "-dirty") || betweenTagsRE.MatchString(version) {
		return fmt.Errorf("%q is no version such as v1.2.3: commit everything and tag the commit (git tag v1.2.3)", version)
	}
	return nil
}

// write writes the whole release. The sums come last, so that a directory with them is
// complete.
func (r release) write() error {
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o750); err != nil {
		return err
	}
	for _, dir := range r.packages {
		name := filepath.Base(dir)
		if content, err := os.ReadFile(dir); err == nil {
			if err := os.WriteFile(filepath.Join(r.out, name), content, 0o600); err != nil {
				return err
			}
			continue
		}
		files, err := listFiles(dir, strings.TrimSuffix(name, ".zip"))
		if err != nil {
			return err
		}
		if !strings.HasSuffix(name, ".zip") {
			name += ".tar.gz"
		}
		if err := writeArchive(filepath.Join(r.out, name), files); err != nil {
			return err
		}
	}
	if err := r.writeTemplate(); err != nil {
		return fmt.Errorf("template: %w", err)
	}
	if err := r.writeNotes(); err != nil {
		return err
	}
	if err := r.writeSums(); err != nil {
		return err
	}
	return r.sign()
}

// writeNotes writes what the changelog says of the version, or of what has not been
// released where it does not name it yet.
func (r release) writeNotes() error {
	text, err := os.ReadFile(r.changelog)
	if err != nil {
		return err
	}
	notes := section(string(text), strings.TrimPrefix(r.version, "v"))
	if notes == "" {
		notes = section(string(text), "Unreleased")
	}
	if notes == "" {
		return fmt.Errorf("%s has no section for %s and none of what is unreleased", r.changelog, r.version)
	}
	if r.trial {
		notes = trialNote + "\n\n" + notes
	}
	return os.WriteFile(filepath.Join(r.out, "NOTES.md"), []byte("# Lockstep "+r.version+"\n\n"+notes+"\n"), 0o600)
}

// section returns the text beneath a heading of the second level, which may name a date
// too: "## 1.2.3 - 2026-11-23", "## [1.2.3]".
func section(text, name string) string {
	rest, found := "", false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "## ") {
			fields := strings.Fields(line)
			found = len(fields) > 1 && strings.Trim(fields[1], "[]") == name
			continue
		}
		if found {
			rest += line
		}
	}
	return strings.TrimSpace(rest)
}

const trialNote = "**This is a trial, not a release.** It is not signed, and nobody has compared it with a tagged commit."

const sumsFile = "SHA256SUMS"

func (r release) writeSums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), e.Name())
	}
	fmt.Fprint(r.log, sums.String())
	return os.WriteFile(filepath.Join(r.out, sumsFile), []byte(sums.String()), 0o600)
}

// sign signs the sums as OpenSSH signs files, so that ssh-keygen, which most machines have,
// verifies them.
func (r release) sign() error {
	if r.trial {
		fmt.Fprintln(r.log, "not signed: this is a trial")
		return nil
	}
	if r.key == "" {
		fmt.Fprintf(r.log, "not signed: %s names no file with a key\n", keyVariable)
		return nil
	}
	output, err := exec.Command("ssh-keygen", "-Y", "sign", "-f", r.key, "-n", "file", filepath.Join(r.out, sumsFile)).CombinedOutput() // #nosec G204 -- the releaser's own key
	if err != nil {
		return fmt.Errorf("sign with %s: %w: %s", r.key, err, strings.TrimSpace(string(output)))
	}
	fmt.Fprintf(r.log, "signed: %s.sig\n", sumsFile)
	return nil
}

// listFiles lists the files below a directory by their names in an archive, in order.
func listFiles(dir, under string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		files = append(files, file{name: filepath.ToSlash(filepath.Join(under, name)), content: content, executable: info.Mode()&0o100 != 0})
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s has no files", dir)
	}
	sortFiles(files)
	return files, err
}

func sortFiles(files []file) {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
}
