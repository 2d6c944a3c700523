package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// newRelease returns a release of small files: packages for two systems, a list of what is in
// them, and an assembly with one function.
func newRelease(t *testing.T) (release, *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, content string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	unix := filepath.Dir(write("packages/lockstep_v1.2.3_linux_amd64/lockstep", "program", 0o700))
	write("packages/lockstep_v1.2.3_linux_amd64/functions/api/bootstrap", "api", 0o700)
	write("packages/lockstep_v1.2.3_linux_amd64/LICENSE", "licence", 0o600)
	windows := filepath.Dir(write("packages/lockstep_v1.2.3_windows_amd64.zip/lockstep.exe", "program", 0o600))
	list := write("packages/lockstep_v1.2.3.sbom.cdx.json", "{}", 0o600)
	write("assembly/asset.abc/bootstrap", "api", 0o700)
	write("assembly/Lockstep-prod.template.json", `{"Resources":{"Api":{"Properties":{"Code":{"S3Key":"lockstep/v1.2.3/abc.zip"}}}}}`, 0o600)
	write("assembly/Lockstep-prod.assets.json", `{"version":"54.0.0","files":{
		"abc":{"source":{"path":"asset.abc","packaging":"zip"},"destinations":{"here":{"bucketName":"${AssetsBucket}","objectKey":"lockstep/v1.2.3/abc.zip"}}},
		"def":{"source":{"path":"Lockstep-prod.template.json","packaging":"file"},"destinations":{"here":{"objectKey":"lockstep/v1.2.3/def.json"}}}}}`, 0o600)
	var log bytes.Buffer
	return release{
		version: "v1.2.3", packages: []string{unix, windows, list}, assembly: filepath.Join(dir, "assembly"), out: filepath.Join(dir, "out"), log: &log,
		changelog: write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n- later\n\n## [1.2.3] - 2026-01-31\n- now\n\n### Fixed\n- this\n\n## 1.2.2\n- before\n", 0o600),
	}, &log
}

func readTar(t *testing.T, path string) map[string]int64 {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	g, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]int64{}
	for r := tar.NewReader(g); ; {
		h, err := r.Next()
		if err == io.EOF {
			return modes
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[h.Name] = h.Mode
	}
}

func openZip(t *testing.T, content []byte) map[string]*zip.File {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*zip.File{}
	for _, f := range z.File {
		files[f.Name] = f
	}
	return files
}

func TestRelease_ConsistsOfArchivesWithTheirHashes(t *testing.T) {
	r, log := newRelease(t)
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(r.out)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	sums, err := os.ReadFile(filepath.Join(r.out, sumsFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
		content, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		if line := hex.EncodeToString(sum[:]) + "  " + e.Name() + "\n"; e.Name() != sumsFile && !strings.Contains(string(sums), line) {
			t.Errorf("%s has no line %s", sumsFile, line)
		}
	}
	want := "NOTES.md SHA256SUMS lockstep_v1.2.3.sbom.cdx.json lockstep_v1.2.3_cloudformation.zip lockstep_v1.2.3_linux_amd64.tar.gz lockstep_v1.2.3_windows_amd64.zip"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("files %s, want %s", got, want)
	}
	if !strings.Contains(log.String(), "not signed: "+keyVariable) {
		t.Errorf("an unsigned release does not say so: %s", log)
	}
	modes := readTar(t, filepath.Join(r.out, "lockstep_v1.2.3_linux_amd64.tar.gz"))
	if len(modes) != 3 || modes["lockstep_v1.2.3_linux_amd64/lockstep"] != 0o755 || modes["lockstep_v1.2.3_linux_amd64/functions/api/bootstrap"] != 0o755 || modes["lockstep_v1.2.3_linux_amd64/LICENSE"] != 0o644 {
		t.Errorf("archive %v", modes)
	}
	if notes, err := os.ReadFile(filepath.Join(r.out, "NOTES.md")); err != nil || string(notes) != "# Lockstep v1.2.3\n\n- now\n\n### Fixed\n- this\n" {
		t.Errorf("notes %q, %v", notes, err)
	}
}

// The template names the archives of its functions as they lie in the bucket.
func TestRelease_TemplateHasItsFunctions(t *testing.T) {
	r, _ := newRelease(t)
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	packed, err := os.ReadFile(filepath.Join(r.out, "lockstep_v1.2.3_cloudformation.zip"))
	if err != nil {
		t.Fatal(err)
	}
	files := openZip(t, packed)
	asset := files["lockstep_v1.2.3_cloudformation/assets/abc.zip"]
	if len(files) != 2 || files["lockstep_v1.2.3_cloudformation/template.json"] == nil || asset == nil {
		t.Fatalf("files %v", files)
	}
	reader, err := asset.Open()
	if err != nil {
		t.Fatal(err)
	}
	function, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	if f := openZip(t, function)["bootstrap"]; f == nil || f.Mode().Perm() != 0o755 {
		t.Errorf("function %v", f)
	}

	template := filepath.Join(r.assembly, "Lockstep-prod.template.json")
	if err := os.WriteFile(template, []byte(`{"Resources":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.write(); err == nil || !strings.Contains(err.Error(), "the template does not name lockstep/v1.2.3/abc.zip") {
		t.Errorf("a template without the function: %v", err)
	}
	if _, err := os.Stat(filepath.Join(r.out, sumsFile)); err == nil {
		t.Error("a release that failed has sums")
	}
}

func TestRelease_IsReproducible(t *testing.T) {
	var sums [2]string
	for i := range sums {
		r, _ := newRelease(t)
		if err := r.write(); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(filepath.Join(r.out, sumsFile))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(content)
	}
	if sums[0] != sums[1] {
		t.Errorf("the second release differs:\n%s\n%s", sums[0], sums[1])
	}
}

func TestRelease_IsSignedWithTheKey(t *testing.T) {
	r, log := newRelease(t)
	r.key = filepath.Join(t.TempDir(), "key")
	if output, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "release", "-f", r.key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "signed: SHA256SUMS.sig") || strings.Contains(log.String(), "not signed") {
		t.Errorf("log: %s", log)
	}
	public, err := os.ReadFile(r.key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	signers := filepath.Join(t.TempDir(), "signers")
	if err := os.WriteFile(signers, append([]byte("release "), public...), 0o600); err != nil {
		t.Fatal(err)
	}
	verify := func() error {
		sums, err := os.Open(filepath.Join(r.out, sumsFile))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = sums.Close() }()
		cmd := exec.Command("ssh-keygen", "-Y", "verify", "-f", signers, "-I", "release", "-n", "file", "-s", filepath.Join(r.out, sumsFile+".sig"))
		cmd.Stdin = sums
		return cmd.Run()
	}
	if err := verify(); err != nil {
		t.Errorf("the signature is not valid: %v", err)
	}
	if err := os.WriteFile(filepath.Join(r.out, sumsFile), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if verify() == nil {
		t.Error("the signature is valid for other sums")
	}

	r.key += ".missing"
	if err := r.write(); err == nil || !strings.Contains(err.Error(), r.key) {
		t.Errorf("a key that is missing: %v", err)
	}
}

// A trial is never signed, also where there is a key, and its notes say what it is.
func TestRelease_TrialIsNotSigned(t *testing.T) {
	r, log := newRelease(t)
	r.trial, r.key = true, filepath.Join(t.TempDir(), "missing")
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(r.out, sumsFile+".sig")); err == nil || !strings.Contains(log.String(), "not signed: this is a trial") {
		t.Errorf("signed: %v\n%s", err == nil, log)
	}
	if notes, err := os.ReadFile(filepath.Join(r.out, "NOTES.md")); err != nil || !strings.HasPrefix(string(notes), "# Lockstep v1.2.3\n\n**This is a trial, not a release.**") {
		t.Errorf("notes %q, %v", notes, err)
	}
}

// A release is made of its commit alone; a trial of any.
func TestRelease_ChecksTheWorkingTree(t *testing.T) {
	r, _ := newRelease(t)
	t.Chdir(newTree(t, "v1.2.3"))
	if err := r.do(part{check: true}); err != nil {
		t.Errorf("the commit is refused: %v", err)
	}
	change(t, ".", "more.go", "package x")
	for _, checkOnly := range []bool{true, false} {
		if err := r.do(part{check: checkOnly}); err == nil || !strings.Contains(err.Error(), "TRIAL=1") {
			t.Errorf("a working tree with changes: %v", err)
		}
	}
	if _, err := os.Stat(r.out); err == nil {
		t.Error("something was packed")
	}
	if r.trial = true; r.do(part{}) != nil {
		t.Error("a trial is refused")
	}
	if r.version = "nonsense"; r.do(part{check: true}) == nil {
		t.Error("a trial of no version")
	}
}

func TestCheckVersion(t *testing.T) {
	for version, valid := range map[string]bool{
		"v1.2.3": true, "v0.9.0-rc.1": true,
		"": false, "dev": false, "1.2.3": false, "v1.2": false, "v1.2.3-dirty": false, "v1.2.3-4-g5e6f7a8": false, "e523dac": false, "v01.2.3": false, "v1.2.3; rm -rf /": false,
	} {
		if err := checkVersion(version); (err == nil) != valid {
			t.Errorf("%q: %v", version, err)
		}
	}
}

func TestSection_OfWhatIsUnreleased(t *testing.T) {
	r, _ := newRelease(t)
	r.version = "v1.3.0"
	if err := os.MkdirAll(r.out, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := r.writeNotes(); err != nil {
		t.Fatal(err)
	}
	if notes, err := os.ReadFile(filepath.Join(r.out, "NOTES.md")); err != nil || string(notes) != "# Lockstep v1.3.0\n\n- later\n" {
		t.Errorf("notes %q, %v", notes, err)
	}
}
