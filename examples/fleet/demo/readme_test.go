package demo

import (
	"os"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/definition"
)

// The README's definition can be published beside the example's: it is valid, and
// has a name of its own.
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
	shown, err := definition.Parse([]byte(block))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := definition.Compile(shown); err != nil {
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
	if shown.Ref() == example.Ref() && definition.Digest(shown) != definition.Digest(example) {
		t.Errorf("the README and the example are both %s, with different content", shown.Ref())
	}
}
