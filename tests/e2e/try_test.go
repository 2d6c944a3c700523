package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// A definition is executed on a stack of its own, with blocks and entities from files, and the exit
// code is that of the execution.
func TestTry_ExecutesADefinition(t *testing.T) {
	t.Parallel()
	requireEmbedded(t, "it starts a stack of its own")
	var calls atomic.Int32
	block := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"fail":true`) {
			fmt.Fprint(w, `{"outcome":"ERROR","error":{"code":"BROKEN","message":"it does not want to","retryable":false}}`)
			return
		}
		fmt.Fprint(w, `{"outcome":"OK","result":{}}`)
	}))
	defer block.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	blocks := write("blocks.json", fmt.Sprintf(`{"package":"test","name":"touch","version":"1.0.0","pure":true,"http":{"url":%q}}`, block.URL))
	entities := write("fleet.jsonl", "{\"type\":\"device\",\"id\":\"sw-1\",\"groups\":[\"core\"]}\n{\"type\":\"device\",\"id\":\"sw-2\"}\n")
	definition := "package: test\nname: touch\nversion: 1.0.0\nseedEntity: device\nparameters: {type: object, properties: {fail: {type: boolean}}}\n" +
		"steps:\n  - {label: touch, functionBlock: test/touch:1, runOn: device, parameters: {fail: \"${has(parameters.fail) && parameters.fail}\"}}\n"
	good := write("touch.yaml", definition)
	bad := write("bad.yaml", strings.Replace(definition, "runOn", "runsOn", 1))

	code, out, errOut := runLockstep(t, "", "try", good, "--blocks", blocks, "--entities", entities, "--group", "core", "-o", "json")
	if code != 0 || !strings.Contains(out, `"state": "COMPLETED_ACK"`) || calls.Load() != 1 {
		t.Errorf("exit %d, %d calls\n%s%s", code, calls.Load(), out, errOut)
	}
	if code, out, errOut = runLockstep(t, "", "try", good, "--blocks", blocks, "--entities", entities, "--id", "sw-1,sw-2", "--set", "fail=true"); code != 1 || !strings.Contains(out, "BROKEN") || strings.Contains(out+errOut, `"lockstep `) { // no command works when the stack is gone
		t.Errorf("exit %d\n%s%s", code, out, errOut)
	}
	regional := write("regional.yaml", definition+"config: {region: eu}\n")
	for _, args := range [][]string{nil, {"--region", "us"}} { // the stack serves the region of the definition, and that of the start
		if code, out, errOut = runLockstep(t, "", append([]string{"try", regional, "--blocks", blocks, "--entities", entities, "--group", "core"}, args...)...); code != 0 {
			t.Errorf("%v: exit %d\n%s%s", args, code, out, errOut)
		}
	}
	if code, out, errOut = runLockstep(t, "", "try", good, "--blocks", blocks, "--region", "EU"); code != 3 || !strings.Contains(errOut, "region") {
		t.Errorf("exit %d\n%s%s", code, out, errOut)
	}
	if code, out, errOut = runLockstep(t, "", "try", bad, "--blocks", blocks); code != 3 || !strings.Contains(errOut, "bad.yaml:7:") {
		t.Errorf("exit %d\n%s%s", code, out, errOut)
	}
	if code, out, errOut = runLockstep(t, "", "try", filepath.Join(dir, "none.yaml")); code != 2 || !strings.Contains(errOut, "there is no file") {
		t.Errorf("exit %d\n%s%s", code, out, errOut)
	}
	if code, out, errOut = runLockstep(t, "", "try", good, "--detach"); code != 2 || !strings.Contains(errOut, "detach") {
		t.Errorf("exit %d\n%s%s", code, out, errOut)
	}
}
