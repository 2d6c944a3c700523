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

// blockServer are the function blocks that the stock worker calls over HTTP. They hand
// a job on to its device, under the job's fence and key, and remember nothing.
type blockServer struct {
	devices string
	client  *http.Client
	// onTestError is told of a request that no device could have taken: a mistake of
	// this test, which would otherwise look like a device that is in the way.
	onTestError func(format string, args ...any)
}

// chaosBlocks are the blocks of this package, in all the kinds that there are.
func (r *fixture) chaosBlocks() []workflow.Block {
	all := []workflow.Block{
		{Name: "read", Pure: true},
		{Name: "check", Pure: true},
		{Name: "install", Idempotent: true, Reversible: true, UndoHarmless: true}, // brings a device to a version
		{Name: "touch"}, // not to be done twice, and not to be undone
		{Name: "bump", Reversible: true, UndoHarmless: true}, // not to be done twice, but to be undone
	}
	for i := range all {
		all[i].Package, all[i].Version, all[i].RunOn = "chaos", "1.0.0", "device"
		all[i].Timeout = workflow.Duration(8 * time.Second)
		all[i].HTTP = &workflow.Endpoint{URL: r.blocks.URL}
	}
	return all
}

// blockRequest is what a block is sent.
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
	ref, _ := workflow.ParseRef(a.Block) // an unknown block is answered as such
	var answer any
	switch ref.Name + " " + a.Operation {
	case "read EXECUTE":
		answer = b.callDevice(r, a, http.MethodGet, "", nil)
	case "check EXECUTE":
		answer = map[string]any{"outcome": "OK"}
		if slices.Contains(a.Parameters.Fail, a.Entity.ID) {
			answer = errorAnswer("CHOSEN", "this device was chosen to fail", false)
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
		answer = errorAnswer("UNKNOWN", a.Block+" does not "+a.Operation, false)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // a caller that was killed is what is wanted
}

// callDevice asks the device. A caller that dies is a caller that the device sees hang up.
func (b *blockServer) callDevice(r *http.Request, a blockRequest, method, operation string, body any) any {
	raw, err := json.Marshal(body)
	if err != nil {
		return errorAnswer("BODY", err.Error(), false)
	}
	req, err := http.NewRequestWithContext(r.Context(), method, b.devices+"/devices/"+a.Entity.ID+operation, bytes.NewReader(raw))
	if err != nil {
		return errorAnswer("REQUEST", err.Error(), false)
	}
	req.GetBody = nil // repeating is the engine's
	req.Header.Set("X-Fence", a.Fence)
	req.Header.Set("Idempotency-Key", a.Job.ID)
	reply, err := b.client.Do(req)
	if err != nil {
		return errorAnswer("UNREACHABLE", err.Error(), true)
	}
	defer func() { _ = reply.Body.Close() }() // it has been read
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return errorAnswer("BROKEN_OFF", err.Error(), true)
	}
	if reply.StatusCode/100 == 4 && reply.StatusCode != http.StatusConflict {
		b.onTestError("%s %s of %s: %d %s", a.Operation, a.Block, a.Entity.ID, reply.StatusCode, text)
	}
	if reply.StatusCode != http.StatusOK {
		return errorAnswer("DEVICE", fmt.Sprintf("%d %s", reply.StatusCode, text), reply.StatusCode >= 500)
	}
	var said struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return errorAnswer("ANSWER", err.Error(), true)
	}
	return map[string]any{"outcome": "OK", "result": said}
}

func errorAnswer(code, message string, retryable bool) any {
	return map[string]any{"outcome": "ERROR", "error": map[string]any{"code": code, "message": message, "retryable": retryable}}
}
