package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/api"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// serveInventory serves the real API over a simulated world with these entities.
func serveInventory(t *testing.T, lines ...string) (*harness.Harness, string) {
	t.Helper()
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.Publish("w", "steps:\n  - {label: one, functionBlock: p/once:1, runOn: device}\n")
	if _, err := s.Catalog.ImportEntities(context.Background(), harness.Caller, strings.NewReader(strings.Join(lines, "\n")), false); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api.New(api.Services{Catalog: s.Catalog, Engine: s.Engine, Queries: s.Query}, api.Options{TrustHeaders: true}))
	t.Cleanup(server.Close)
	return s, "--url=" + server.URL
}

// device writes a line.
func device(id, rest string) string { return `{"type":"device","id":"` + id + `"` + rest + `}` }

func exported(t *testing.T, url string) string {
	t.Helper()
	got := runCommand(t, "entities", "export", url, "--tenant="+harness.Caller.Tenant)
	if got.code != 0 || got.stderr != "" {
		t.Fatalf("export: exit %d\n%s", got.code, got.stderr)
	}
	return got.stdout
}

// Patch and delete change one entity, and say so; a refusal names the execution that holds it.
func TestEntities_PatchAndDelete(t *testing.T) {
	s, url := serveInventory(t, device("a", `,"attributes":{"site":"zrh","rack":1},"groups":["core"]`), device("b", ""), device("c", ""))
	tenant := "--tenant=" + harness.Caller.Tenant
	holder := s.Start("w", "b")
	for _, c := range []struct {
		line string
		code int
		want string // in the output
	}{
		{"patch device/a --set site=gva --set n=2 --remove rack --add-group edge --remove-group core", 0, "device/a has version 2 now"},
		{"patch device/a --set site=bsl --version 1", exitRefused, "device/a has version 2, not 1"},
		{"patch device/a --set site=bsl --version 2 -o json", 0, `"site": "bsl"`},
		{"patch device/a", exitUsage, "say what to change"},
		{"patch device/none --set a=1", exitRefused, "lockstep entities list device"},
		{"delete device/b", exitRefused, "execution " + holder + " holds it (entity_locked)"},
		{"delete device/a --version 2", exitRefused, "device/a has version 3, not 2"},
		{"delete device/a device/b --version 3", exitUsage, "name one"},
		{"delete device/a device/b device/c", exitRefused, "deleted device/c"},
		{"delete device/a", exitRefused, "(not_found)"},
		{"delete nonsense", exitUsage, "want type/id"},
	} {
		if got := runCommand(t, append([]string{"entities", url, tenant}, strings.Fields(c.line)...)...); got.code != c.code || !strings.Contains(got.stdout+got.stderr, c.want) {
			t.Errorf("%s: exit %d, want %d with %q\n%s%s", c.line, got.code, c.code, c.want, got.stdout, got.stderr)
		}
	}
	if got, want := exported(t, url), device("b", `,"attributes":{},"groups":[]`)+"\n"; got != want {
		t.Errorf("left: %s", got)
	}
}

// What is exported is imported again unchanged, here and elsewhere.
func TestEntities_ExportIsImportedUnchanged(t *testing.T) {
	_, url := serveInventory(t, device("b", `,"attributes":{"n":1.50,"t":"\u001b<&>"},"groups":["core"]`), device("a", ""), `{"type":"site","id":"zrh","attributes":{"none":null}}`)
	first := exported(t, url)
	if lines := strings.Split(first, "\n"); len(lines) != 4 || !strings.Contains(lines[0], `"id":"a"`) {
		t.Errorf("exported\n%s", first)
	}
	_, other := serveInventory(t, device("b", `,"attributes":{"n":2},"groups":["lab"]`))
	for range 2 {
		if got := runCommand(t, "entities", "import", writeFile(t, "fleet.jsonl", first), other, "--tenant="+harness.Caller.Tenant); got.code != 0 {
			t.Fatalf("exit %d\n%s", got.code, got.stderr)
		}
		if diff := cmp.Diff(first, exported(t, other)); diff != "" {
			t.Error(diff)
		}
	}
}

// A synchronisation shows the difference, and makes it only if it is confirmed and the program has
// exited with 0.
func TestEntitiesSync_ChangesWhatItShows(t *testing.T) {
	s, url := serveInventory(t, device("a", `,"attributes":{"site":"zrh","byBlock":1},"groups":["core"]`), device("b", ""), device("gone", ""), device("held", ""), `{"type":"site","id":"x"}`)
	source := writeFile(t, "source.jsonl", strings.Join([]string{device("a", `,"attributes":{"site":"gva"}`), device("b", ""), device("new", `,"groups":["edge"]`)}, "\n")+"\n")
	s.Start("w", "held")
	sync := func(args ...string) commandResult {
		return runCommand(t, append([]string{"entities", "sync", url, "--tenant=" + harness.Caller.Tenant}, args...)...)
	}
	before := exported(t, url)
	shell := func(script string) []string { return []string{"--", "sh", "-c", script, "sh", source} }
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"the program fails at the end": {append([]string{"--yes"}, shell(`cat "$1"; exit 3`)...), exitFailed, "exit status 3; nothing was changed"},
		"the program is killed":        {append([]string{"--yes"}, shell(`cat "$1"; kill -9 $$`)...), exitFailed, "nothing was changed"},
		"half of a line":               {append([]string{"--yes"}, shell(`cat "$1"; printf '{"type":"dev'`)...), exitRefused, "sh:4"},
		"a line twice":                 {append([]string{"--yes"}, shell(`cat "$1" "$1"`)...), exitRefused, "already on line 1"},
		"nothing":                      {[]string{"--yes", "--delete-missing", "--", "true"}, exitRefused, "no entity; nothing was changed"},
		"no such program":              {[]string{"--yes", "--", "/nonexistent/program"}, exitFailed, "nothing was changed"},
		"another type":                 {append([]string{"--yes", "--type", "site"}, shell(`cat "$1"`)...), exitRefused, "none of the types"},
		"no -- before the program":     {[]string{"--yes", "cat", source}, exitUsage, "write -- in front"},
		"no program":                   {[]string{"--yes", "--"}, exitUsage, "PROGRAM is missing"},
		"nobody to ask":                {append([]string{"-o", "json"}, shell(`cat "$1"`)...), exitUsage, "--yes"},
		"only the difference":          {append([]string{"--dry-run", "--delete-missing"}, shell(`cat "$1"`)...), 0, "+ device/new\n~ device/a: site\n- device/gone\n- device/held\n1 new, 1 changed, 1 unchanged, 2 missing (which are deleted)\n"},
		"no shell in between":          {[]string{"--dry-run", "--", "cat", source + ";true"}, exitFailed, "nothing was changed"},
	} {
		if got := sync(c.args...); got.code != c.code || !strings.Contains(got.stdout+got.stderr, c.want) {
			t.Errorf("%s: exit %d, want %d with %q\n%s%s", name, got.code, c.code, c.want, got.stdout, got.stderr)
		}
		if diff := cmp.Diff(before, exported(t, url)); diff != "" {
			t.Fatalf("%s: %s", name, diff)
		}
	}
	got := sync(append([]string{"--yes"}, shell(`cat "$1"`)...)...)
	if want := "+ device/new\n~ device/a: site\n? device/gone\n? device/held\n1 new, 1 changed, 1 unchanged, 2 missing (which stay; --delete-missing deletes them)\nimported 2, deleted 0\n"; got.code != 0 || got.stdout != want {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	got = sync(append([]string{"--yes", "--delete-missing", "-o", "json"}, shell(`cat "$1"`)...)...)
	var d difference
	if err := json.Unmarshal([]byte(got.stdout), &d); err != nil || got.code != exitPartial {
		t.Fatalf("exit %d, %v\n%s%s", got.code, err, got.stdout, got.stderr)
	}
	if !d.Applied || d.Deleted != 1 || d.Written != 0 || d.Unchanged != 3 || len(d.NotDeleted) != 1 || d.NotDeleted[0].Entity != "device/held" || d.NotDeleted[0].Code != workflow.CodeEntityLocked {
		t.Errorf("%+v", d)
	}
	if got = sync(append([]string{"--yes", "--replace", "--type", "device"}, shell(`cat "$1"`)...)...); got.code != 0 || !strings.Contains(got.stdout, "~ device/a: -byBlock, its groups\n") {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	want := strings.Join([]string{device("a", `,"attributes":{"site":"gva"},"groups":[]`), device("b", `,"attributes":{},"groups":[]`), device("held", `,"attributes":{},"groups":[]`), device("new", `,"attributes":{},"groups":["edge"]`), `{"type":"site","id":"x","attributes":{},"groups":[]}`, ""}, "\n")
	if diff := cmp.Diff(want, exported(t, url)); diff != "" {
		t.Error(diff)
	}
}

// A program that lists only part of a type does not delete the rest of it, unless so many deletions
// are allowed.
func TestEntitiesSync_RefusesToDeleteTooMany(t *testing.T) {
	var all []string
	for i := range 40 {
		all = append(all, device(fmt.Sprintf("d%03d", i), ""))
	}
	all = append(all, `{"type":"site","id":"x"}`)
	_, url := serveInventory(t, all...)
	sync := func(listed int, args ...string) commandResult {
		source := writeFile(t, "source.jsonl", strings.Join(all[:listed], "\n")+"\n"+device("new", "")+"\n")
		args = append([]string{"entities", "sync", url, "--tenant=" + harness.Caller.Tenant, "--delete-missing"}, args...)
		return runCommand(t, append(args, "--", "cat", source)...)
	}
	before := exported(t, url)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--yes"}, exitRefused, "11 of the 40 entities of type \"device\" would be deleted; nothing was changed"},
		{[]string{"--yes", "-o", "json"}, exitRefused, "say --max-delete 11"},
		{[]string{"--yes", "--max-delete", "10"}, exitRefused, "11 of the 40"},
		{[]string{"--yes", "--max-delete", "27%"}, exitRefused, "11 of the 40"},
		{[]string{"--yes", "--max-delete", "0"}, exitRefused, "11 of the 40"},
		{[]string{"--yes", "--max-delete", "many"}, exitUsage, "neither a number"},
		{[]string{"--yes", "--max-delete", "-1"}, exitUsage, "neither a number"},
		{[]string{"--yes", "--max-delete", "101%"}, exitUsage, "neither a number"},
		{[]string{"--dry-run"}, 0, "without --dry-run this is refused: 11 of the 40"},
	} {
		if got := sync(29, c.args...); got.code != c.code || !strings.Contains(got.stdout+got.stderr, c.want) {
			t.Errorf("%v: exit %d, want %d with %q\n%s%s", c.args, got.code, c.code, c.want, got.stdout, got.stderr)
		}
		if diff := cmp.Diff(before, exported(t, url)); diff != "" {
			t.Fatalf("%v: %s", c.args, diff)
		}
	}
	for _, c := range []struct {
		listed int
		limit  string
		want   string
	}{{30, "", "imported 1, deleted 10\n"}, {22, "27%", "imported 0, deleted 8\n"}, {2, "20", "imported 0, deleted 20\n"}} {
		args := []string{"--yes"}
		if c.limit != "" {
			args = append(args, "--max-delete", c.limit)
		}
		if got := sync(c.listed, args...); got.code != 0 || !strings.HasSuffix(got.stdout, c.want) {
			t.Errorf("%+v: exit %d\n%s%s", c, got.code, got.stdout, got.stderr)
		}
	}
}

// Only y and yes mean yes; no answer means no.
func TestAskYes_DefaultIsNo(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, "yes": true, "": false, "\n": false, "n\n": false, "yess\n": false} {
		var out bytes.Buffer
		if got := askYes(strings.NewReader(answer), &out, "Change?"); got != want || out.String() != "Change? [y/N] " {
			t.Errorf("%q: %t, %q", answer, got, out.String())
		}
	}
}

// The program gets no token of the service, and what it writes is bounded.
func TestReadProgram_IsKeptApart(t *testing.T) {
	t.Setenv("LOCKSTEP_TOKEN", "secret-token")
	out, err := readProgram(t.Context(), []string{"env"}, (&connection{flags: pflag.NewFlagSet("", pflag.ContinueOnError)}).isTokenVariable, os.Stderr)
	if err != nil || bytes.Contains(out, []byte("secret-token")) || !bytes.Contains(out, []byte("PATH=")) {
		t.Errorf("%v: %s", err, out)
	}
	var b boundedBuffer
	stopped := false
	b.limit, b.full = 3, func() { stopped = true }
	if _, err := b.Write([]byte("abc")); err != nil || stopped {
		t.Error(err, stopped)
	}
	if _, err := b.Write([]byte("d")); err != nil || !stopped || !b.exceeded || b.String() != "abc" {
		t.Error(err, stopped, b.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := readProgram(ctx, []string{"sleep", "600"}, func(string) bool { return false }, os.Stderr)
		ended <- err
	}()
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a program that was stopped has succeeded")
		}
	case <-time.After(time.Minute):
		t.Error("the program goes on")
	}
}

// Who has changed what is listed, with the reason, and filtered.
func TestAudit_ListsWhoHasDoneWhat(t *testing.T) {
	s, url := serveInventory(t, device("a", ""))
	tenant := "--tenant=" + harness.Caller.Tenant
	id := s.Start("w", "a")
	for _, line := range []string{"cancel " + id + " --reason wrong-site --actor ann", "entities delete device/none --actor bob", "archive p/w:1.0.0 --actor ann"} {
		runCommand(t, append(strings.Fields(line), url, tenant)...)
	}
	for line, want := range map[string][]string{
		"audit":                   {"ann", "cancelExecution", "/workflow-execution/" + id + "/cancel", "202", "wrong-site", "bob", "deleteEntity", "404", "archiveDefinition", "200"},
		"audit --by bob":          {"deleteEntity"},
		"audit --execution " + id: {"wrong-site"},
		"audit --by nobody":       {"no change matches"},
		"audit --actor bob":       {"use --by", "ann"},
		"audit -o json":           {`"verb": "archiveDefinition"`},
	} {
		got := runCommand(t, append(strings.Fields(line), url, tenant)...)
		for _, text := range want {
			if got.code != 0 || !strings.Contains(got.stdout+got.stderr, text) {
				t.Errorf("%s: exit %d, want %q\n%s%s", line, got.code, text, got.stdout, got.stderr)
			}
		}
		if strings.Contains(line, "--by bob") && strings.Contains(got.stdout, "ann") {
			t.Errorf("%s\n%s", line, got.stdout)
		}
	}
}

// An entity is named as TYPE/ID or as TYPE ID, by all verbs that take one.
func TestEntities_AreNamedInTwoWays(t *testing.T) {
	for _, line := range []string{"entities show", "entities history", "locks", "entities patch --set a=1", "entities delete"} {
		var said [2]commandResult
		for i, name := range []string{"device/a", "device a"} {
			_, url := serveInventory(t, device("a", ""))
			said[i] = runCommand(t, append(strings.Fields(line+" "+name), url, "--tenant="+harness.Caller.Tenant)...)
		}
		if said[0].code != 0 || said[0] != said[1] {
			t.Errorf("%s: %+v, and with two words %+v", line, said[0], said[1])
		}
	}
	_, url := serveInventory(t, device("a", ""))
	for _, line := range []string{"entities show device a b", "entities show device/a b", "entities history device a/b", "entities delete device a b"} {
		if got := runCommand(t, append(strings.Fields(line), url, "--tenant="+harness.Caller.Tenant)...); got.code != exitUsage {
			t.Errorf("%s: exit %d, %s", line, got.code, got.stdout)
		}
	}
}
