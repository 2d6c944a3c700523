package definition_test

import (
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Metadata is kept as it is written, is part of the content, and is no template.
func TestMetadata_IsKept(t *testing.T) {
	const source = "package: p\nname: n\nversion: 1.0.0\nmetadata: {icon: road}\nsteps: [{label: a, metadata: {at: [1, \"${b.result}\"]}, functionBlock: p/b:1, runOn: global}]\n"
	d := parse(t, source)
	for range 2 {
		if string(d.Metadata) != `{"icon":"road"}` || string(d.Steps[0].Metadata) != `{"at":[1,"${b.result}"]}` || d.Schema() != 2 {
			t.Errorf("%s, %s, schema %d", d.Metadata, d.Steps[0].Metadata, d.Schema())
		}
		d = parse(t, string(definition.Canonical(d)))
	}
	if definition.Digest(d) == definition.Digest(parse(t, strings.Replace(source, "road", "rail", 1))) {
		t.Error("other metadata is the same content")
	}
	for text, want := range map[string]string{"[]": "metadata: want an object", "{a: " + strings.Repeat("x", workflow.MaxMetadataBytes) + "}": "metadata: at most 4096 bytes"} {
		if _, err := definition.Parse([]byte(strings.Replace(source, "{icon: road}", text, 1))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v", text, err)
		}
	}
}
