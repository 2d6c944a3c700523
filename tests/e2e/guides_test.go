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
	// fenceRE matches a block of commands or of output on a page: its kind and its text.
	fenceRE = regexp.MustCompile("(?ms)^```(sh background|sh|text)\n(.*?)^```$")
	uuidRE  = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	idRE    = regexp.MustCompile(`\bID\b`)
	portRE  = regexp.MustCompile(`\b(3030|4040|8080|8081)\b`)
)

// A guide is a page whose commands a test executes as they stand there, in one folder and
// in the order of the page, against a local stack.
//
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
	env   []string
	ports map[string]string
	id    string
}

// runGuide executes the commands of a page of docs in a folder.
func runGuide(t *testing.T, page, dir string) {
	t.Helper()
	requireEmbedded(t, "the page starts its own stack")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	g := &guide{t: t, dir: dir, ports: map[string]string{}}
	for _, port := range []string{"3030", "4040", "8080", "8081"} {
		g.ports[port] = strconv.Itoa(testkit.FreePort(t))
	}
	g.env = append(os.Environ(),
		"PATH="+filepath.Dir(testkit.Binary(t, "lockstep"))+":"+os.Getenv("PATH"),
		"LOCKSTEP_URL=http://localhost:"+g.ports["3030"],
		"FLEET_URL=http://127.0.0.1:"+g.ports["4040"])
	blocks := fenceRE.FindAllStringSubmatch(string(text), -1)
	executed := 0
	for i, block := range blocks {
		commands := g.prepare(block[2])
		switch {
		case block[1] == "text" || strings.TrimSpace(commands) == "":
		case block[1] == "sh background":
			g.start(commands)
		default:
			expected := ""
			if i+1 < len(blocks) && blocks[i+1][1] == "text" {
				expected = blocks[i+1][2]
			}
			g.execute(commands, expected)
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

// prepare fills the id and the ports into commands, and leaves out those that clone and build.
func (g *guide) prepare(commands string) string {
	var kept strings.Builder
	for line := range strings.Lines(commands) {
		if strings.HasPrefix(line, "git clone ") || strings.HasPrefix(line, "make ") || strings.HasPrefix(line, "export PATH=") {
			continue
		}
		kept.WriteString(line)
	}
	text := portRE.ReplaceAllStringFunc(kept.String(), func(port string) string { return g.ports[port] })
	if g.id != "" {
		text = idRE.ReplaceAllString(text, g.id)
	}
	return text
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
