package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
)

// maxBody bounds a request body, in bytes.
const maxBody = 64 << 10

// Handler serves the fleet:
//
//	GET  /devices[?group=G]       {"items": [state], "versions": {"1.0.0": 100}}
//	GET  /devices/{id}            the state
//	GET  /devices/{id}/log        {"items": [entry]}
//	POST /devices/{id}/upgrade    {"target": "2.0.0"}
//	POST /devices/{id}/rollback   {"version": "1.0.0"}
//	PUT  /devices/{id}/config     {"key": "value", "removed": null}; other keys stay
//	POST /devices/{id}/touch      no body
//	POST /control/{id}            a [Behaviour], which replaces the former; {} removes all faults
//	POST /control[?group=G]       the same for a group, or for all
//	POST /reset                   sets every device to its initial state
//	GET  /judge                   {"violations": []}
//	GET  /inventory               the devices as JSON lines
//
// Changes need the headers X-Fence and Idempotency-Key. Every response except 2xx is
// {"code", "message"}.
func (f *Fleet) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /devices", f.serveDevices)
	mux.HandleFunc("GET /devices/{id}", f.withDevice(func(w http.ResponseWriter, r *http.Request, d *device) {
		send(w, d.read(r.Context()))
	}))
	mux.HandleFunc("GET /devices/{id}/log", f.withDevice(func(w http.ResponseWriter, _ *http.Request, d *device) {
		sendOK(w, map[string]any{"items": d.entries()})
	}))
	mux.HandleFunc("POST /devices/{id}/upgrade", f.handleChange(OpUpgrade))
	mux.HandleFunc("POST /devices/{id}/rollback", f.handleChange(OpRollback))
	mux.HandleFunc("PUT /devices/{id}/config", f.handleChange(OpConfigure))
	mux.HandleFunc("POST /devices/{id}/touch", f.handleChange(OpTouch))
	mux.HandleFunc("POST /control/{id}", f.serveControl)
	mux.HandleFunc("POST /control", f.serveControl)
	mux.HandleFunc("POST /reset", func(w http.ResponseWriter, _ *http.Request) {
		f.Reset()
		sendOK(w, map[string]any{"devices": len(f.all())})
	})
	mux.HandleFunc("GET /judge", func(w http.ResponseWriter, _ *http.Request) {
		sendOK(w, map[string]any{"violations": f.CheckLogs()})
	})
	mux.HandleFunc("GET /inventory", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/jsonl")
		_ = WriteInventory(w, f.options.Devices) // fails only if the client is gone
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		sendProblem(w, 404, CodeNotFound, fmt.Sprintf("no route %s %s", r.Method, r.URL.Path))
	})
	return mux
}

func (f *Fleet) serveDevices(w http.ResponseWriter, r *http.Request) {
	states := f.Devices()
	if group := r.URL.Query().Get("group"); group != "" {
		states = slices.DeleteFunc(states, func(s State) bool { return !slices.Contains(s.Groups, group) })
	}
	sendOK(w, map[string]any{"items": states, "versions": countVersions(states)})
}

func (f *Fleet) withDevice(serve func(http.ResponseWriter, *http.Request, *device)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		d, ok := f.device(id)
		if !ok {
			sendProblem(w, 404, CodeNotFound, fmt.Sprintf("no device %q", id))
			return
		}
		serve(w, r, d)
	}
}

func (f *Fleet) handleChange(o Operation) http.HandlerFunc {
	return f.withDevice(func(w http.ResponseWriter, r *http.Request, d *device) {
		send(w, d.perform(r.Context(), parseChange(w, r, o)))
	})
}

// parseChange reads the request. An invalid body becomes part of the change, because the
// device logs it too. It reads the body to its end, since only then does the server notice
// a caller that hangs up.
func parseChange(w http.ResponseWriter, r *http.Request, o Operation) change {
	c := change{operation: o, fence: r.Header.Get("X-Fence"), key: r.Header.Get("Idempotency-Key")}
	body := http.MaxBytesReader(w, r.Body, maxBody)
	var err error
	switch o {
	case OpUpgrade:
		var b struct{ Target string }
		if err = decodeStrict(body, &b); err == nil && b.Target == "" {
			err = errors.New("target is missing")
		}
		c.version = b.Target
	case OpRollback:
		var b struct{ Version string }
		if err = decodeStrict(body, &b); err == nil && b.Version == "" {
			err = errors.New("version is missing")
		}
		c.version = b.Version
	case OpConfigure:
		if err = decodeStrict(body, &c.config); err == nil && len(c.config) == 0 {
			err = errors.New("no key given")
		}
	case OpTouch, OpRead:
		_, err = io.Copy(io.Discard, body)
	}
	if err != nil {
		var large *http.MaxBytesError
		c.invalid, c.tooLarge = "body: "+err.Error(), errors.As(err, &large)
	}
	return c
}

func (f *Fleet) serveControl(w http.ResponseWriter, r *http.Request) {
	var b Behaviour
	if err := decodeStrict(http.MaxBytesReader(w, r.Body, maxBody), &b); err != nil {
		sendProblem(w, 400, CodeInvalid, "body: "+err.Error())
		return
	}
	if err := b.Validate(); err != nil {
		sendProblem(w, 400, CodeInvalid, err.Error())
		return
	}
	ids := f.IDs()
	if id := r.PathValue("id"); id != "" {
		ids = []string{id}
	} else if group := r.URL.Query().Get("group"); group != "" {
		ids = f.Group(group)
	}
	if err := f.SetBehaviour(b, ids...); err != nil {
		sendProblem(w, 404, CodeNotFound, err.Error())
		return
	}
	sendOK(w, map[string]any{"devices": len(ids)})
}

func sendOK(w http.ResponseWriter, body any) { send(w, reply{status: 200, body: body}) }

func sendProblem(w http.ResponseWriter, status int, code, message string) {
	send(w, reply{status: status, body: problem{Code: code, Message: message}})
}

// send writes the reply, or the part of it before the connection is dropped. A panic with
// [http.ErrAbortHandler] is the standard library's way to cut a connection.
func send(w http.ResponseWriter, r reply) {
	if r.drop == DropBefore || r.drop == DropAfter {
		panic(http.ErrAbortHandler)
	}
	text, err := json.Marshal(r.body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	text = append(text, '\n')
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	w.WriteHeader(r.status)
	if r.drop == DropAnswering {
		_, _ = w.Write(text[:len(text)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(text) // fails only if the caller is gone
}
