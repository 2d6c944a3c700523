package definition_test

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/definition"
)

// The name of a definition is read although nothing else of it is valid.
func TestNameOf(t *testing.T) {
	for source, want := range map[string]string{
		"package: p\nname: w\nversion: 1.2.3\nsteps: [{label: 7, colour: red}]\n": "p/w:1.2.3",
		`{"package": "p", "name": "w", "version": "1.2.3"}`:                       "p/w:1.2.3",
		"package: p\nname: w\n": "", "package: [p]\nname: w\nversion: 1.2.3\n": "", "- p": "", "": "", "\t": "",
	} {
		if got := definition.NameOf([]byte(source)); got != want {
			t.Errorf("%q: %q, want %q", source, got, want)
		}
	}
}
