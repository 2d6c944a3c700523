package infra

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What outlives a stack is what the page on removing it says, type by type.
func TestThePageSaysWhatStays(t *testing.T) {
	kept := map[string]bool{}
	for _, r := range stacks()["prod"].Resources {
		if strings.HasPrefix(r.DeletionPolicy, "Retain") {
			kept[r.Type] = true
		}
	}
	page, err := os.ReadFile("../docs/uninstall.md")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for _, m := range regexp.MustCompile("`(AWS::[A-Za-z0-9:]+)`").FindAllStringSubmatch(string(page), -1) {
		said[m[1]] = true
	}
	if !maps.Equal(kept, said) {
		t.Errorf("kept are %v, the page says %v", slices.Sorted(maps.Keys(kept)), slices.Sorted(maps.Keys(said)))
	}
	for _, r := range stacks()["dev"].Resources {
		if strings.HasPrefix(r.DeletionPolicy, "Retain") {
			t.Errorf("%s of stage dev outlives its stack", r.ID)
		}
	}
}
