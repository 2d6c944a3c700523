package demo

import (
	"os"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// The suggested command has the flag --serve if the failed one had it.
func TestCheckPortFree_SuggestsSameCommand(t *testing.T) {
	port := testkit.OccupyPort(t)
	if err := checkPortFree(port, true); err == nil || !strings.Contains(err.Error(), "bin/fleet-demo --serve --port ") {
		t.Errorf("serving: %v", err)
	}
	if err := checkPortFree(port, false); err == nil || !strings.Contains(err.Error(), "bin/fleet-demo --port ") {
		t.Errorf("running: %v", err)
	}
}

// The README's definition is valid, and is either the example's or has another name.
func TestReadme_DefinitionIsValid(t *testing.T) {
	text, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(text), "```yaml\n")
	block, _, closed := strings.Cut(block, "```")
	if !ok || !closed {
		t.Fatal("the README shows no definition")
	}
	readme, err := definition.Parse([]byte(block))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../upgrade_firmware.yaml")
	if err != nil {
		t.Fatal(err)
	}
	example, err := definition.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	if readme.Ref() == example.Ref() && definition.Digest(readme) != definition.Digest(example) {
		t.Errorf("the README and the example are both %s, with different content", readme.Ref())
	}
}
