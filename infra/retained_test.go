package infra

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// What outlives a stack is what the page on removing it says, type by type.
func TestUninstallPage_ListsRetainedResources(t *testing.T) {
	retained := map[string]bool{}
	for _, r := range stacks()["prod"].Resources {
		if strings.HasPrefix(r.DeletionPolicy, "Retain") {
			retained[r.Type] = true
		}
	}
	page, err := os.ReadFile("../docs/uninstall.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("`(AWS::[A-Za-z0-9:]+)`").FindAllStringSubmatch(string(page), -1) {
		documented[m[1]] = true
	}
	if !maps.Equal(retained, documented) {
		t.Errorf("kept are %v, the page says %v", slices.Sorted(maps.Keys(retained)), slices.Sorted(maps.Keys(documented)))
	}
	for _, r := range stacks()["dev"].Resources {
		if strings.HasPrefix(r.DeletionPolicy, "Retain") {
			t.Errorf("%s of stage dev outlives its stack", r.ID)
		}
	}
}

// With a prefix a new stack can take in what the old one has left: CloudFormation does
// that with what has a name of its own and a deletion policy that keeps it. Nothing that
// has a name is left otherwise, except for the access log's group, whose next name is
// another one.
func TestRetainedResources_CanBeImported(t *testing.T) {
	found := 0
	for _, r := range stacks()["options"].Resources {
		if !strings.HasPrefix(r.ID, "Engine") || !strings.HasPrefix(r.DeletionPolicy, "Retain") || r.hasID("ApiAccessLogs") {
			continue
		}
		found++
		if name, ok := r.property(nameProperties[r.Type]).(string); !ok || !strings.HasPrefix(name, "acme-") {
			t.Errorf("%s stays and cannot be taken in by its name %v", r.ID, r.property(nameProperties[r.Type]))
		}
	}
	if want := len(topology.Tables) + len(topology.Functions) + 1; found != want { // and the worker of a pool
		t.Errorf("%d things stay, want %d", found, want)
	}
}
