package transfer

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

func TestDifferences(t *testing.T) {
	for _, c := range []struct{ there, file, want string }{
		{`{"a":1,"b":[1,{"c":2}]}`, `{"b":[1,{"c":2}], "a":1}`, ""},
		{`{"a":12345678901234567890}`, `{"a":12345678901234567891}`, "a is 12345678901234567890 there and 12345678901234567891 in the file"},
		{`{"b":[1,{"c":2}]}`, `{"b":[1,{"c":3}]}`, "b[1].c is 2 there and 3 in the file"},
		{`{"b":[1]}`, `{"b":[1,2]}`, "b is [1] there and [1,2] in the file"},
		{`{"a":null}`, `{}`, "a is null there and absent in the file"},
		{`{"a":{"x":1}}`, `{"a":true}`, `a is {"x":1} there and true in the file`},
		{`{"a":"` + strings.Repeat("ä", 60) + `"}`, `{"a":""}`, `a is "` + strings.Repeat("ä", 39) + `... there and "" in the file`},
		{`{}`, `{"a":1,"b":1,"c":1,"d":1,"e":1}`, "a is absent there and 1 in the file; b is absent there and 1 in the file; c is absent there and 1 in the file; and 2 more"},
	} {
		if got := sentence(differences([]byte(c.there), []byte(c.file))); got != c.want {
			t.Errorf("%s against %s:\n%s\nwant\n%s", c.there, c.file, got, c.want)
		}
	}
}

// Something is said every two seconds, and nothing about what is quick.
func TestProgress(t *testing.T) {
	var out strings.Builder
	at := time.Unix(0, 0)
	p := newProgress(&out, func() time.Time { return at })
	for i := range 50 {
		p.tell("lines read", i)
		at = at.Add(100 * time.Millisecond)
	}
	if out.String() != "note: 20 lines read\nnote: 40 lines read\n" {
		t.Errorf("it said %q", out.String())
	}
}

func TestVersionsInOrder(t *testing.T) {
	a, b := workflow.Ref{Package: "p", Name: "n", Version: "1.9.0"}, workflow.Ref{Package: "p", Name: "n", Version: "1.10.0"}
	if compareRefs(a, b) >= 0 || compareRefs(b, a) <= 0 || compareRefs(a, a) != 0 {
		t.Error("1.9.0 comes after 1.10.0")
	}
}
