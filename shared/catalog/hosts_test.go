package catalog_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A step that calls a host which is not allowed is published with a warning: it would fail.
func TestPublish_WarnsOfForbiddenHosts(t *testing.T) {
	c := openCatalog(sim.New(1))
	c.AllowsCall = func(address string) error {
		if strings.HasPrefix(address, "https://good.example/") {
			return nil
		}
		return errors.New("not on the allow list")
	}
	for name, url := range map[string]string{"good": "https://good.example/a", "bad": "https://bad.example/a"} {
		if _, err := c.RegisterBlock(t.Context(), ann, workflow.Block{Package: "p", Name: name, Version: "1.0.0", HTTP: &workflow.Endpoint{URL: url}}); err != nil {
			t.Fatal(err)
		}
	}
	for n, test := range []struct{ step, want string }{
		{"functionBlock: p/good:1, runOn: global", ""},
		{"functionBlock: p/bad:1, runOn: global", "steps[0].functionBlock http_forbidden"},
		{"http: {method: GET, url: \"https://good.example/b\"}, runOn: global", ""},
		{"http: {method: GET, url: \"https://bad.example/b\"}, runOn: global", "steps[0].http.url http_forbidden"},
		{"http: {method: GET, url: \"https://${parameters.host}/b\"}, runOn: global", ""},
	} {
		source := fmt.Sprintf("package: p\nname: n%d\nversion: 1.0.0\nparameters: {type: object, properties: {host: {type: string}}}\nsteps: [{label: one, %s}]\n", n, test.step)
		p, _, err := c.Publish(t.Context(), ann, []byte(source), false)
		if err != nil {
			t.Errorf("%s: %v", test.step, err)
			continue
		}
		if got := issuesOf(workflow.Invalid("", p.Warnings)); got != test.want {
			t.Errorf("%s: %s, want %q", test.step, got, test.want)
		}
	}
}
