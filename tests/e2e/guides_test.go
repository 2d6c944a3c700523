package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/tests/testkit"
)

var (
	// fenceRE matches a block on a page: its kind and its text.
	fenceRE = regexp.MustCompile("(?ms)^```([a-z]+)( [^\n]+)?\n(.*?)^```$")
	uuidRE  = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	idRE    = regexp.MustCompile(`\bID\b`)
	portRE  = regexp.MustCompile(`\b(3030|4040|8080)\b`)
)

// A guide is a page whose commands a test executes as they stand there, in one folder and
// in the order of the page, against a local stack.
//
//   - "go FILE" or "yaml FILE" is a file that the reader saves. Without a file, a block is an
//     excerpt: all its lines are lines of one of the examples that the page uses.
//   - "sh background" is a program that runs until the end of the test. The page goes on
//     when it has printed its line "ready".
//   - "sh" is executed by bash. All its commands have to succeed, unless a "text" follows.
//   - "text" is what they print: each line has to be in the output, in this order, with any
//     text in place of "..." and of white space.
//
// ID is the last execution that was printed, and ports are replaced by free ones. Lines that clone
// or build are left out: the test binaries are built already.
type guide struct {
	t     *testing.T
	dir   string
	root  string // of the repository
	env   []string
	ports map[string]string
	id    string
}

// runGuide executes the commands of a page of docs in a folder, into which it copies the
// examples that the page uses.
func runGuide(t *testing.T, page, dir string, examples ...string) {
	t.Helper()
	requireEmbedded(t, "the page starts its own stack")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(page) {
		page = filepath.Join(root, "docs", page)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	g := &guide{t: t, dir: dir, root: root, ports: map[string]string{}}
	for _, port := range []string{"3030", "4040", "8080"} {
		g.ports[port] = strconv.Itoa(testkit.FreePort(t))
	}
	lines := g.copyExamples(examples)
	if blocks, err := os.ReadFile(filepath.Join(dir, "blocks.json")); err == nil {
		g.write("blocks.json", g.replacePorts(string(blocks)))
	}
	g.env = append(os.Environ(),
		"PATH="+filepath.Dir(testkit.Binary(t, "lockstep"))+":"+os.Getenv("PATH"), "GOFLAGS=-mod=mod -trimpath", "CGO_ENABLED=0", // as everything else is built: packages are compiled once
		"LOCKSTEP_URL=http://localhost:"+g.ports["3030"],
		"FLEET_URL=http://127.0.0.1:"+g.ports["4040"])
	blocks := fenceRE.FindAllStringSubmatch(string(text), -1)
	executed := 0
	for i, block := range blocks {
		kind, option, text := block[1], strings.TrimSpace(block[2]), block[3]
		switch {
		case kind == "text":
		case kind != "sh" && option != "":
			g.write(option, text)
		case kind != "sh":
			for line := range strings.Lines(text) {
				if line = strings.TrimSpace(line); line != "" && !lines[line] {
					t.Errorf("no example has the line %q", line)
				}
			}
		case option == "background":
			g.start(g.prepare(text))
		default:
			expected := ""
			if i+1 < len(blocks) && blocks[i+1][1] == "text" {
				expected = blocks[i+1][3]
			}
			g.execute(g.prepare(text), expected)
			executed++
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	if executed < 3 {
		t.Fatalf("%s has only %d blocks of commands", page, executed)
	}
}

// copyExamples copies folders of examples, and returns their lines without white space around them.
func (g *guide) copyExamples(names []string) map[string]bool {
	g.t.Helper()
	lines := map[string]bool{}
	for _, name := range names {
		files, err := filepath.Glob(filepath.Join(g.root, "examples", name, "*.*"))
		if err != nil || len(files) == 0 {
			g.t.Fatalf("no example %s: %v", name, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				g.t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				lines[strings.TrimSpace(line)] = true
			}
			g.write(filepath.Join("examples", name, filepath.Base(file)), g.replacePorts(string(text)))
		}
	}
	return lines
}

// write writes a file into the folder.
func (g *guide) write(name, text string) {
	g.t.Helper()
	file := filepath.Join(g.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (g *guide) replacePorts(text string) string {
	return portRE.ReplaceAllStringFunc(text, func(port string) string { return g.ports[port] })
}

// prepare fills the id and the ports into commands. It leaves out those that clone and build, and
// those that fetch this module: the module is that of this repository.
func (g *guide) prepare(commands string) string {
	g.t.Helper()
	var kept strings.Builder
	for line := range strings.Lines(commands) {
		switch {
		case moduleRE.MatchString(line):
			found := moduleRE.FindStringSubmatch(line)
			g.writeModule(found[1], found[2])
		case strings.HasPrefix(line, "git clone "), strings.HasPrefix(line, "make "), strings.HasPrefix(line, "export PATH="), getRE.MatchString(line):
		default:
			kept.WriteString(line)
		}
	}
	text := g.replacePorts(kept.String())
	if g.id != "" {
		text = idRE.ReplaceAllString(text, g.id)
	}
	return text
}

// moduleRE and getRE match the commands that make a module, maybe in a folder, and that fetch others.
var (
	moduleRE = regexp.MustCompile(`^go (?:-C (\S+) )?mod init (\S+)`)
	getRE    = regexp.MustCompile(`^go (?:-C \S+ )?get `)
)

// writeModule makes a folder a module that requires this one, with the versions that this one has.
func (g *guide) writeModule(folder, name string) {
	g.t.Helper()
	for _, file := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(g.root, file))
		if err != nil {
			g.t.Fatal(err)
		}
		if file == "go.mod" {
			text = []byte(strings.Replace(string(text), "module github.com/lockstep-run/lockstep", "module "+name, 1) +
				"\nrequire github.com/lockstep-run/lockstep v0.0.0\n\nreplace github.com/lockstep-run/lockstep => " + g.root + "\n")
		}
		g.write(filepath.Join(folder, file), string(text))
	}
}

// start starts a program that runs until the end of the test.
func (g *guide) start(command string) {
	g.t.Helper()
	cmd := exec.Command("bash", "-c", "exec "+strings.TrimSpace(command))
	cmd.Dir, cmd.Env = g.dir, g.env
	log := &testkit.Buffer{}
	p, err := testkit.StartProgram(cmd, log, waitTimeout)
	if err != nil {
		g.t.Fatalf("%s\n%v\n%s", command, err, log.Tail(50))
	}
	g.t.Cleanup(func() {
		_ = p.Terminate(waitTimeout) // a program may end by itself with an exit code
		if g.t.Failed() {
			g.t.Logf("%s\n%s", command, log.Tail(50))
		}
	})
}

// execute runs commands and compares what they print with the page.
func (g *guide) execute(commands, expected string) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), waitTimeout)
	defer cancel()
	shell := "set -e\n"
	if expected != "" {
		shell = "" // what is printed tells whether a command has failed as it should
	}
	if strings.TrimSpace(commands) == "" {
		return
	}
	cmd := exec.CommandContext(ctx, "bash", "-c", shell+commands)
	cmd.Dir, cmd.Env = g.dir, g.env
	out, err := cmd.CombinedOutput()
	if err != nil && expected == "" {
		g.t.Errorf("%s\n%v\n%s", commands, err, out)
	}
	if ids := uuidRE.FindAllString(string(out), -1); len(ids) > 0 {
		g.id = ids[len(ids)-1]
	}
	rest := strings.Join(strings.Fields(string(out)), " ")
	for line := range strings.Lines(expected) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		found := lineRE(line).FindStringIndex(rest)
		if found == nil {
			g.t.Errorf("%s\ndoes not print (or not behind the line before)\n%s\nbut\n%s", commands, line, out)
			return
		}
		rest = rest[found[1]:]
	}
}

// lineRE matches a line of a page in what was printed.
func lineRE(line string) *regexp.Regexp {
	fields := strings.Fields(line)
	for i, field := range fields {
		field = regexp.QuoteMeta(field)
		field = strings.ReplaceAll(field, `\.\.\.`, `.*?`)
		fields[i] = idRE.ReplaceAllString(field, uuidRE.String())
	}
	return regexp.MustCompile(strings.Join(fields, " "))
}

// Every command of the quickstart does what the page says.
func TestQuickstart_PrintsWhatItShows(t *testing.T) {
	t.Parallel()
	runGuide(t, "quickstart.md", "../..")
}

// Both programs in Python change a fleet.
func TestPythonGuide_PrintsWhatItShows(t *testing.T) {
	t.Parallel()
	runGuide(t, "blocks-python.md", t.TempDir(), "python-block", "python-worker")
}

// The worker of the page on Go is compiled outside this module, and changes a fleet.
func TestGoGuide_PrintsWhatItShows(t *testing.T) {
	t.Parallel()
	runGuide(t, "workers-go.md", t.TempDir())
}

// A new project does what its README says, against a local stack.
func TestInit_ProjectDoesWhatItsReadmeSays(t *testing.T) {
	t.Parallel()
	for _, lang := range []string{"go", "python"} {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "greeter")
			if out, err := exec.CommandContext(t.Context(), testkit.Binary(t, "lockstep"), "init", dir, "--lang", lang).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			runGuide(t, filepath.Join(dir, "README.md"), dir)
		})
	}
}
