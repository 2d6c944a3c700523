package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/topology"
)

var (
	tableEdgesRE = regexp.MustCompile(`(?m)^  (\w+) --> (t-\w+(?: & t-\w+)*)$`)
	queueNodeRE  = regexp.MustCompile(`(?m)^    (?:q-)?([a-z-]+)(?:\[.*\])?$`)
)

// The picture of the architecture has every function, queue and table, and the tables on which each function has rights.
func TestArchitecturePage_PictureIsRight(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(repoRoot, "docs/ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, picture, _ := strings.Cut(string(page), "```mermaid\n")
	picture, _, _ = strings.Cut(picture, "```")
	var drawn, want []string
	for _, m := range tableEdgesRE.FindAllStringSubmatch(picture, -1) {
		for table := range strings.SplitSeq(m[2], " & ") {
			drawn = append(drawn, m[1]+" "+strings.TrimPrefix(table, "t-"))
		}
	}
	for _, r := range topology.Rights {
		want = append(want, r.Function+" "+r.Table)
	}
	slices.Sort(drawn)
	slices.Sort(want)
	if want = slices.Compact(want); !slices.Equal(drawn, want) {
		t.Errorf("rights drawn: %v\nwant: %v", drawn, want)
	}
	var nodes []string
	for _, m := range queueNodeRE.FindAllStringSubmatch(picture, -1) {
		nodes = append(nodes, m[1])
	}
	for _, name := range slices.Concat(topology.Functions, []string{topology.QueueLifecycle, topology.QueueEvents, topology.QueueHooksOut, topology.QueueHooksIn, strings.TrimSuffix(topology.QueueJobsPrefix, "-")}) {
		if !slices.Contains(nodes, name) {
			t.Errorf("%s is not drawn", name)
		}
	}
}
