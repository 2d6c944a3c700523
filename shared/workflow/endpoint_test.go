package workflow_test

import (
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A path stays behind its endpoint, whatever an expression gives.
func TestEndpoints_Address(t *testing.T) {
	all, err := workflow.ParseEndpoints([]string{"inventory=https://inventory.test/api/", " shop=http://localhost:8080"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"": "https://inventory.test/api/", "/": "https://inventory.test/api/", "/devices/7?a=b": "https://inventory.test/api/devices/7?a=b", "/a%2Fb": "https://inventory.test/api/a%2Fb",
		"devices": "", "//evil.test/": "", "/../admin": "", "/a/%2e%2e/b": "", "/./a": "", "http://evil.test/": "", "/a#b": "", `/\evil.test`: "", "@evil.test": "", ".evil.test": "",
	} {
		if got, err := all.Address("inventory", path); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", path, got, err)
		}
	}
	if got, err := all.Address("shop", "/x"); got != "http://localhost:8080/x" || err != nil {
		t.Error(got, err)
	}
	if _, err := all.Address("nobody", "/x"); err == nil {
		t.Error("an endpoint that does not exist has an address")
	}
	if issue := all.Check("shp", "p"); issue == nil || issue.Path != "p" || !strings.Contains(issue.Message, `did you mean "shop"`) {
		t.Errorf("%+v", issue)
	}
	if all.Check("shop", "p") != nil || all.Check("", "p") != nil {
		t.Error("an endpoint that exists is refused")
	}
	for _, bad := range []string{"inventory", "=http://a", "a b=http://a", "a=ftp://a", "a=http://u:p@a", "a=http://a?x=1", "a=http://a#b", "a=/x"} {
		if _, err := workflow.ParseEndpoints([]string{bad}); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	if _, err := workflow.ParseEndpoints([]string{"a=http://a", "a=http://b"}); err == nil {
		t.Error("a name has two addresses")
	}
}
