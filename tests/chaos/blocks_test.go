package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// blockServer serves the blocks that the built-in worker calls over HTTP. It forwards a
// job to its device with the job's fence and key, and keeps nothing but a log of its calls.
type blockServer struct {
	devices string
	calls   *callLog
	client  *http.Client
	// onTestError is called for a request that no device accepts: an error of this
	// test, which would otherwise look like a failing device.
	onTestError func(format string, args ...any)
}

// chaosBlocks are the blocks of this package, one of each kind.
func (f *fixture) chaosBlocks() []workflow.Block {
	all := []workflow.Block{
		{Name: "read", Pure: true},
		{Name: "check", Pure: true},
		{Name: "install", Idempotent: true, Reversible: true, UndoHarmless: true}, // installs a version
		{Name: "touch"}, // not idempotent, not reversible
		{Name: "bump", Reversible: true, UndoHarmless: true}, // not idempotent, but reversible
	}
	for i := range all {
		all[i].Package, all[i].Version, all[i].RunOn = "chaos", "1.0.0", "device"
		all[i].Timeout = workflow.Duration(8 * time.Second)
		all[i].HTTP = &workflow.Endpoint{URL: f.blocks.URL}
	}
	return all
}

// blockRequest is the request to a block.
type blockRequest struct {
	Operation string `json:"operation"`
	Block     string `json:"block"`
	Job       struct {
		ID string `json:"id"`
	} `json:"job"`
	Entity     struct{ ID string } `json:"entity"`
	Parameters struct {
		Target string   `json:"target"`
		Former string   `json:"former"`
		Fail   []string `json:"fail"`
	} `json:"parameters"`
	Fence string `json:"fence"`
}

func (b *blockServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var a blockRequest
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ref, _ := workflow.ParseRef(a.Block) // an unknown block is answered below
	b.calls.add(blockCall{ref.Name, a.Operation, a.Job.ID, a.Entity.ID})
	var answer any
	switch ref.Name + " " + a.Operation {
	case "read EXECUTE":
		answer = b.callDevice(r, a, http.MethodGet, "", nil)
	case "check EXECUTE":
		answer = map[string]any{"outcome": "OK"}
		if slices.Contains(a.Parameters.Fail, a.Entity.ID) {
			answer = errorAnswer("CHOSEN", "this device is configured to fail", false)
		}
	case "install EXECUTE":
		answer = b.callDevice(r, a, http.MethodPost, "/upgrade", map[string]any{"target": a.Parameters.Target})
	case "install ROLLBACK":
		answer = b.callDevice(r, a, http.MethodPost, "/rollback", map[string]any{"version": a.Parameters.Former})
	case "touch EXECUTE", "bump EXECUTE":
		answer = b.callDevice(r, a, http.MethodPost, "/touch", nil)
	case "bump ROLLBACK":
		answer = b.callDevice(r, a, http.MethodPut, "/config", map[string]any{"undone": a.Job.ID})
	default:
		answer = errorAnswer("UNKNOWN", a.Block+" does not support "+a.Operation, false)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // fails if the caller was killed
}

// callDevice forwards a request to the device. If the caller dies, the device sees its
// connection close.
func (b *blockServer) callDevice(r *http.Request, a blockRequest, method, operation string, body any) any {
	raw, err := json.Marshal(body)
	if err != nil {
		return errorAnswer("BODY", err.Error(), false)
	}
	req, err := http.NewRequestWithContext(r.Context(), method, b.devices+"/devices/"+a.Entity.ID+operation, bytes.NewReader(raw))
	if err != nil {
		return errorAnswer("REQUEST", err.Error(), false)
	}
	req.GetBody = nil // only the engine retries
	req.Header.Set("X-Fence", a.Fence)
	req.Header.Set("Idempotency-Key", a.Job.ID)
	reply, err := b.client.Do(req)
	if err != nil {
		return errorAnswer("UNREACHABLE", err.Error(), true)
	}
	defer func() { _ = reply.Body.Close() }() // already read
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return errorAnswer("INTERRUPTED", err.Error(), true)
	}
	if reply.StatusCode/100 == 4 && reply.StatusCode != http.StatusConflict {
		b.onTestError("%s %s of %s: %d %s", a.Operation, a.Block, a.Entity.ID, reply.StatusCode, text)
	}
	if reply.StatusCode != http.StatusOK {
		return errorAnswer("DEVICE", fmt.Sprintf("%d %s", reply.StatusCode, text), reply.StatusCode >= 500)
	}
	var state struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return errorAnswer("ANSWER", err.Error(), true)
	}
	return map[string]any{"outcome": "OK", "result": state}
}

func errorAnswer(code, message string, retryable bool) any {
	return map[string]any{"outcome": "ERROR", "error": map[string]any{"code": code, "message": message, "retryable": retryable}}
}

// definitions are the workflows of the test. Most have a step that fails for chosen
// devices. All but "once" are reversible.
var definitions = []string{
	// Served by the polling worker.
	`
package: chaos
name: upgrade
version: 1.0.0
seedEntity: device
config: {maxInFlight: 4}
steps:
  - {label: read, functionBlock: fleet/show_version:1, runOn: device}
  - {label: set, functionBlock: fleet/upgrade:1, runOn: device, parameters: {target: "${parameters.target}", former: "${read.result.version}"}, retry: {maxRetries: 4, delay: 100ms}}
  - {label: check, functionBlock: chaos/check:1, runOn: device, parameters: {fail: "${parameters.fail}"}}
  - {label: verify, functionBlock: fleet/verify:1, runOn: device, parameters: {target: "${parameters.target}"}, retry: {maxRetries: 4, delay: 100ms}}
  - {label: report, functionBlock: fleet/report:1, runOn: global, parameters: {target: "${parameters.target}", upgraded: "${size(set.results)}"}}
`,
	// Served by the worker function, with a block that is not idempotent but reversible.
	`
package: chaos
name: mixed
version: 1.0.0
seedEntity: device
steps:
  - {label: read, functionBlock: chaos/read:1, runOn: device, retry: {maxRetries: 4, delay: 100ms}}
  - {label: first, functionBlock: chaos/bump:1, runOn: device}
  - {label: set, functionBlock: chaos/install:1, runOn: device, parameters: {target: "${parameters.target}", former: "${read.result.version}"}, retry: {maxRetries: 4, delay: 100ms}}
  - {label: check, functionBlock: chaos/check:1, runOn: device, parameters: {fail: "${parameters.fail}"}}
`,
	// A pipeline: each device moves on independently.
	`
package: chaos
name: pipeline
version: 1.0.0
seedEntity: device
config: {executionStrategy: {parallel: true}}
steps:
  - {label: read, functionBlock: chaos/read:1, runOn: device, retry: {maxRetries: 4, delay: 100ms}}
  - {label: set, functionBlock: fleet/upgrade:1, runOn: device, parameters: {target: "${parameters.target}", former: "${read.result.version}"}, retry: {maxRetries: 4, delay: 100ms}}
  - {label: bump, functionBlock: chaos/bump:1, runOn: device}
  - {label: check, functionBlock: chaos/check:1, runOn: device, parameters: {fail: "${parameters.fail}"}}
`,
	// A child execution takes the locks.
	`
package: chaos
name: parent
version: 1.0.0
parameters:
  type: object
  required: [devices]
  properties: {devices: {type: array, items: {type: string}}}
steps:
  - label: call
    workflowReference:
      workflow: chaos/mixed:1
      mode: dispatch
      executeOnParameters: {type: device, ids: "${parameters.devices}"}
    parameters: {target: "${parameters.target}", fail: "${parameters.fail}"}
`,
	// Waits for a signal, and for an answer.
	`
package: chaos
name: asked
version: 1.0.0
seedEntity: device
steps:
  - {label: read, functionBlock: chaos/read:1, runOn: device, retry: {maxRetries: 4, delay: 100ms}}
  - {label: ready, wait: {signal: {name: go}}}
  - {label: bump, functionBlock: chaos/bump:1, runOn: device}
  - {label: agreed, wait: {input: {title: "go on?"}}}
  - {label: set, functionBlock: chaos/install:1, runOn: device, parameters: {target: "${parameters.target}", former: "${read.result.version}"}, retry: {maxRetries: 4, delay: 100ms}}
  - {label: check, functionBlock: chaos/check:1, runOn: device, parameters: {fail: "${parameters.fail}"}}
`,
	// Shares its locks with others that only look.
	`
package: chaos
name: audit
version: 1.0.0
seedEntity: device
config: {lockMode: shared}
steps:
  - {label: read, functionBlock: chaos/read:1, runOn: device, retry: {maxRetries: 4, delay: 100ms}}
  - {label: check, functionBlock: chaos/check:1, runOn: device, parameters: {fail: "${parameters.fail}"}}
`,
	// One of many that wait for the same device.
	`
package: chaos
name: crowd
version: 1.0.0
seedEntity: device
steps:
  - {label: read, functionBlock: chaos/read:1, runOn: device, retry: {maxRetries: 4, delay: 100ms}}
`,
	// With a block that is not reversible.
	`
package: chaos
name: once
version: 1.0.0
seedEntity: device
config: {maxInFlight: 2}
steps:
  - {label: read, functionBlock: chaos/read:1, runOn: device, retry: {maxRetries: 4, delay: 100ms}}
  - {label: set, functionBlock: chaos/install:1, runOn: device, parameters: {target: "${parameters.target}", former: "${read.result.version}"}, retry: {maxRetries: 4, delay: 100ms}}
  - {label: touch, functionBlock: chaos/touch:1, runOn: device}
  - {label: check, functionBlock: chaos/check:1, runOn: device, parameters: {fail: "${parameters.fail}"}}
`,
}
