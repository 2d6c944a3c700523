package dist

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/topology"
)

const module = "github.com/lockstep-run/lockstep"

// appOfTenLines is the smallest app that deploys an engine.
const appOfTenLines = `package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/lockstep-run/lockstep/infra"
)

func main() {
	app := awscdk.NewApp(nil)
	name := "Lockstep"
	infra.NewEngine(awscdk.NewStack(app, &name, nil), "Engine", &infra.EngineProps{Architecture: "ARCHITECTURE"})
	app.Synth(nil)
}
`

var buildCommandRE = regexp.MustCompile(`go run \S+ functions --out \S+( --architecture \S+)?`)

// A user has Go and Node, and gets the module from a proxy: no file of this repository is
// in reach. The app says how the functions are built, that command builds them, and the
// app with a worker pool of examples/cdk and those of "lockstep init" are synthesised like the smallest app.
func TestModule_IsUsableWithoutRepository(t *testing.T) {
	u := newUser(t)
	architecture := map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH] // compiled already for other tests
	u.write("app/main.go", strings.ReplaceAll(appOfTenLines, "ARCHITECTURE", architecture))
	u.module("app", "infra")
	u.mustRun("app", "go", "build", "-o", "../synth-app", ".")

	missing, err := u.run("app", "../synth-app")
	command := buildCommandRE.FindString(missing)
	if err == nil || !strings.Contains(command, module+"/cmd/lockstep@"+u.version) {
		t.Fatalf("without functions: %v, with the command %q: %s", err, command, missing)
	}
	printed := u.mustRun("app", strings.Fields(command)...)
	u.checkFunctions("app/dist/functions", printed)
	u.mustRun("app", "../synth-app")
	if template := u.read("app/out/Lockstep.template.json"); strings.Count(template, `"AWS::Lambda::Function"`) != len(topology.Functions) {
		t.Errorf("the template has %d functions", strings.Count(template, `"AWS::Lambda::Function"`))
	}

	// The bytes are those that the repository builds as this release.
	again := filepath.Join(u.dir, "again")
	if output, err := exec.Command("make", "-s", "-C", "../..", "dist", "FUNCTIONS=sweeper", "DIST_ARCH="+runtime.GOARCH, "DIST="+again, "VERSION="+u.version).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if u.read("again/functions/sweeper/bootstrap") != u.read("app/dist/functions/sweeper/bootstrap") {
		t.Error("the module's sweeper differs from the repository's")
	}

	// The example of a team's app is copied, and its worker compiled, as its comment says.
	for _, file := range []string{"main.go", "worker/main.go"} {
		content, err := os.ReadFile(filepath.Join("..", "..", "examples", "cdk", file))
		if err != nil {
			t.Fatal(err)
		}
		u.write("meters/"+file, string(content))
	}
	u.module("meters", "infra", "shared/boot/workerhost", "shared/worker")
	u.mustRun("meters", "env", "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH, "go", "build", "-tags", "lambda.norpc", "-trimpath", "-o", "dist/bootstrap", "./worker")
	u.mustRun("meters", "go", "build", "-o", "../synth-meters", ".")
	u.move("app/dist/functions", "meters/dist/functions")
	u.env = append(u.env, `CDK_CONTEXT_JSON={"architecture":"`+architecture+`"}`)
	u.mustRun("meters", "../synth-meters")
	if template := u.read("meters/out/Meters.template.json"); strings.Count(template, `"AWS::Lambda::Function"`) != len(topology.Functions)+1 || !strings.Contains(template, "LockstepMetersWorker") {
		t.Error("the team's worker is not in the template")
	}

	// So are the worker and the app of a project in Go.
	u.mustRun(".", "go", "run", module+"/cmd/lockstep@"+u.version, "init", "starter", "--lang", "go")
	u.withArchitecture("starter/cdk/main.go", architecture)
	u.module("starter", "infra", "shared/boot/workerhost", "shared/worker")
	u.mustRun("starter", "env", "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH, "go", "build", "-tags", "lambda.norpc", "-trimpath", "-o", "dist/worker/bootstrap", ".")
	u.mustRun("starter", "go", "build", "-o", "../synth-starter", "./cdk")
	functions := filepath.Join("dist", "functions")
	u.move(filepath.Join("meters", functions), filepath.Join("starter", functions))
	u.mustRun("starter", "../synth-starter")
	if template := u.read("starter/out/Starter.template.json"); strings.Count(template, `"AWS::Lambda::Function"`) != len(topology.Functions)+1 || !strings.Contains(template, "-jobs-starter") {
		t.Error("the worker of the project is not in the template")
	}

	// So is the app of a project in Python, with the host of its block and no other.
	u.mustRun(".", "go", "run", module+"/cmd/lockstep@"+u.version, "init", "greeter", "--lang", "python")
	u.withArchitecture("greeter/infra/main.go", architecture)
	u.module("greeter/infra", "infra")
	u.mustRun("greeter/infra", "go", "build", "-o", "../../synth-greeter", ".")
	u.move(filepath.Join("starter", functions), filepath.Join("greeter/infra", functions))
	u.mustRun("greeter/infra", "../../synth-greeter")
	if template := u.read("greeter/infra/out/Greeter.template.json"); !strings.Contains(template, `"LOCKSTEP_WORKER_ALLOW_HOSTS": "127.0.0.1:8080"`) {
		t.Error("the template does not allow the host of the block")
	}

	// Functions of another release are refused.
	u.write("greeter/infra/dist/functions/VERSION", "v0.0.0\n")
	if refused, err := u.run("greeter/infra", "../../synth-greeter"); err == nil || !strings.Contains(refused, `have version "v0.0.0", and the construct has `+u.version) {
		t.Errorf("functions of another version: %v: %s", err, refused)
	}
}

// user is somebody who has Go and a module proxy.
type user struct {
	t       *testing.T
	dir     string
	version string // of the module in the proxy
	env     []string
}

// newUser packs the module as a proxy serves it. Its version is a hash of its content, so that
// compiled packages are found again; the module cache is this machine's, which has most of the
// other modules, and loses this one at the end. To choose versions, go also reads the go.mod files
// of modules that no build here needs: those come from this machine's own proxy.
func newUser(t *testing.T) *user {
	t.Helper()
	u := &user{t: t, dir: t.TempDir()}
	found, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache, proxies, _ := strings.Cut(strings.TrimSpace(string(found)), "\n")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	files, sum := map[string][]byte{}, sha256.New()
	for _, name := range strings.Split(strings.Trim(string(names), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		} else if err != nil {
			t.Fatal(err)
		}
		files[name] = content
		_, _ = fmt.Fprintf(sum, "%s %d\n%s", name, len(content), content)
	}
	u.version = "v0.0.1-test" + hex.EncodeToString(sum.Sum(nil))[:12]
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	for name, content := range files {
		w, err := z.Create(module + "@" + u.version + "/" + name)
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	served := filepath.Join("proxy", module, "@v", u.version)
	u.write(served+".info", `{"Version":"`+u.version+`","Time":"2026-01-01T00:00:00Z"}`)
	u.write(served+".mod", string(files["go.mod"]))
	u.write(served+".zip", packed.String())
	u.env = []string{
		"GOPROXY=file://" + filepath.Join(u.dir, "proxy") + ",file://" + filepath.Join(cache, "cache", "download") + "," + proxies,
		"GOSUMDB=off", "GOFLAGS=-mod=mod", "GOWORK=off", "GOTOOLCHAIN=local", "CDK_OUTDIR=out",
	}
	t.Cleanup(func() {
		extracted := filepath.Join(cache, module+"@"+u.version)
		_ = filepath.WalkDir(extracted, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				err = os.Chmod(path, 0o755)
			}
			return err
		})
		stored, _ := filepath.Glob(filepath.Join(cache, "cache", "download", module, "@v", u.version+".*"))
		for _, path := range append(stored, extracted) {
			if err := os.RemoveAll(path); err != nil {
				t.Error(err)
			}
		}
	})
	return u
}

// module makes a directory a module that uses packages of this one.
func (u *user) module(dir string, packages ...string) {
	u.t.Helper()
	u.write(dir+"/go.mod", "module example.com/"+dir+"\n\ngo 1.26.0\n")
	get := []string{"go", "get"}
	for _, p := range packages {
		get = append(get, module+"/"+p+"@"+u.version)
	}
	u.mustRun(dir, get...)
}

// checkFunctions compares the functions with the hashes that were printed.
func (u *user) checkFunctions(dir, printed string) {
	u.t.Helper()
	for _, name := range topology.Functions {
		content := u.read(dir + "/" + name + "/bootstrap")
		line := fmt.Sprintf("%x  %s/bootstrap\n", sha256.Sum256([]byte(content)), name)
		if !strings.Contains(printed, line) || !strings.Contains(u.read(dir+"/SHA256SUMS"), line) {
			u.t.Errorf("the hash of %s is not printed, or not in SHA256SUMS: %s", name, printed)
		}
		if !strings.Contains(content, u.version) {
			u.t.Errorf("%s does not contain its version", name)
		}
	}
	if got := u.read(dir + "/VERSION"); got != u.version+"\n" {
		u.t.Errorf("VERSION is %q", got)
	}
}

func (u *user) write(name, content string) {
	u.t.Helper()
	name = filepath.Join(u.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		u.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		u.t.Fatal(err)
	}
}

// withArchitecture lets an app synthesise functions of this machine's architecture, which are compiled already.
func (u *user) withArchitecture(app, architecture string) {
	u.t.Helper()
	u.write(app, strings.Replace(u.read(app), "EngineProps{", `EngineProps{Architecture: "`+architecture+`", `, 1))
}

func (u *user) move(from, to string) {
	u.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(u.dir, to)), 0o755), os.Rename(filepath.Join(u.dir, from), filepath.Join(u.dir, to))); err != nil {
		u.t.Fatal(err)
	}
}

func (u *user) read(name string) string {
	u.t.Helper()
	content, err := os.ReadFile(filepath.Join(u.dir, name))
	if err != nil {
		u.t.Fatal(err)
	}
	return string(content)
}

func (u *user) run(dir string, command ...string) (string, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = filepath.Join(u.dir, dir)
	cmd.Env = append(os.Environ(), u.env...)
	output, err := cmd.CombinedOutput()
	return string(output), err
}

func (u *user) mustRun(dir string, command ...string) string {
	u.t.Helper()
	output, err := u.run(dir, command...)
	if err != nil {
		u.t.Fatalf("%s: %v: %s", strings.Join(command, " "), err, output)
	}
	return output
}
