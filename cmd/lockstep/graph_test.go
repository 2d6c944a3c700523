package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const graphed = `package: p
name: w
version: 1.0.0
steps:
  - label: check
    functionBlock: p/check:1
    runOn: device
    onFailure:
      - {when: 'error.code == "A<B"', steps: [{label: repair, functionBlock: p/repair:1, runOn: device}, {label: again, functionBlock: p/check:1, runOn: device, next: done}]}
      - {next: end}
  - {label: times, loop: {over: "${parameters.sites}"}, workflow: {steps: [{label: each, set: {a: 1}}]}}
  - label: both
    parallel:
      branches:
        - {label: left, steps: [{label: l, set: {b: 1}}]}
        - {label: right, steps: [{label: r, set: {c: 1}}]}
  - {label: ask, wait: {approval: {deadline: 1h, onTimeout: {next: late}, onReject: {next: end}}}}
  - {label: choose, switch: [{when: vars.a == 1, next: check}]}
  - {label: done, set: {d: 1}, next: end}
  - {label: late, set: {e: 1}}
`

const graphedText = `check  p/check:1, on device
    -> times
    !> repair  error.code == "A<B"
    !> end  otherwise
  repair  p/repair:1, on device
  again  p/check:1, on device
      -> done
times  loop parameters.sites
    -> each  each time
    -> both  then
  each  set
      -> times
both  branches
    -> l  left
    -> r  right
  l  set
      -> ask
  r  set
ask  waits for input
    -> choose
    !> late  too late
    !> end  rejected
choose
    -> check  vars.a == 1
    -> done  otherwise
done  set
    -> end
late  set
`

// Each way from one step to another is drawn, of a file as of a published workflow.
func TestGraph_DrawsEachWay(t *testing.T) {
	file := writeFile(t, "w.yaml", graphed)
	if got := runCommand(t, "graph", file); got.code != 0 || got.stdout != graphedText {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	for format, want := range map[string][]string{
		"mermaid": {"flowchart TD\n", `n0(["start"])`, `n1["check<br>p/check:1, on device"]`, `n1 -.->|"error.code == #quot;A#lt;B#quot;"| n2`, "n2 --> n3\n", `n1 -.->|"otherwise"| n13`},
		"dot":     {"digraph {\n", `n1 [label="check\np/check:1, on device"]`, `n1 -> n2 [label="error.code == \"A<B\"", style=dashed]`, `n0 -> n1 [label=""]`},
	} {
		got := runCommand(t, "graph", file, "--format", format)
		for _, line := range want {
			if got.code != 0 || !strings.Contains(got.stdout, line) {
				t.Errorf("%s: exit %d, want %s\n%s%s", format, got.code, line, got.stdout, got.stderr)
			}
		}
	}
	if got := runCommand(t, "graph", file, "--format", "png"); got.code != exitUsage || !strings.Contains(got.stderr, "text, mermaid, dot") {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
	if got := runCommand(t, "graph", writeFile(t, "wrong.yaml", "package: p\n")); got.code != exitUsage || !strings.Contains(got.stderr, "wrong.yaml") {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
	s := &stubService{status: http.StatusOK, body: `{"package":"p","name":"w","version":"1.2.0","definition":{"package":"p","name":"w","version":"1.2.0","steps":[{"label":"one","set":{"a":1}}]},"items":[{"package":"p","name":"w","version":"1.2.0"},{"package":"p","name":"w","version":"1.10.0"}],"nextPageToken":null}`}
	server := httptest.NewServer(s)
	defer server.Close()
	if got := runCommand(t, "graph", "p/w", "--url", server.URL); got.code != 0 || got.stdout != "one  set\n" || !strings.HasSuffix(s.lastRequest, "/workflow-definition/p/w/1.10.0") {
		t.Errorf("exit %d, %s\n%s%s", got.code, s.lastRequest, got.stdout, got.stderr)
	}
}
