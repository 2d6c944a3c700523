package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	sdk "github.com/lockstep-run/lockstep/shared/worker"
)

// deviceClient calls the devices of a fleet.
type deviceClient struct {
	baseURL string
	http    *http.Client
}

// maxResponseBytes bounds a device's response.
const maxResponseBytes = 64 << 10

func newDeviceClient(base string) *deviceClient {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 64
	return &deviceClient{baseURL: strings.TrimSuffix(base, "/"), http: &http.Client{Transport: t}}
}

func (d *deviceClient) version(ctx context.Context, id string) (v Version, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.address(id, ""), nil)
	if err != nil {
		return v, err
	}
	return v, d.send(req, &v)
}

// change requests a change, with the job's fence and id.
func (d *deviceClient) change(ctx context.Context, job *sdk.Job, operation string, body any) (v Version, err error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return v, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.address(job.Entity.ID, "/"+operation), bytes.NewReader(raw))
	if err != nil {
		return v, err
	}
	// By itself the transport would repeat a request with an Idempotency-Key when a
	// connection breaks. Retries are up to the engine, and without GetBody the transport
	// cannot repeat.
	req.GetBody = nil
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Fence", job.Fence)
	req.Header.Set("Idempotency-Key", job.ID)
	return v, d.send(req, &v)
}

func (d *deviceClient) address(id, operation string) string {
	return d.baseURL + "/devices/" + url.PathEscape(id) + operation
}

// send sends a request and reads the whole response. An unreachable device and a temporary
// refusal are retryable; a stale fence is terminal.
func (d *deviceClient) send(req *http.Request, into any) error {
	reply, err := d.http.Do(req)
	if err != nil {
		return sdk.Retryable("UNREACHABLE", fmt.Errorf("cannot reach the device: %w", err))
	}
	defer func() { _ = reply.Body.Close() }() // read to the end
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxResponseBytes))
	if err != nil {
		return sdk.Retryable("UNREACHABLE", fmt.Errorf("the device dropped the connection: %w", err))
	}
	if reply.StatusCode/100 != 2 {
		return responseError(reply.StatusCode, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return sdk.Retryable("ANSWER", fmt.Errorf("cannot parse the response of the device: %w", err))
	}
	return nil
}

func responseError(status int, text []byte) error {
	var problem struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(text, &problem) // without a body the status has to do
	code := strings.ToUpper(problem.Code)
	if code == "" {
		code = "DEVICE_" + strconv.Itoa(status)
	}
	err := fmt.Errorf("the device answered %d: %s", status, problem.Message)
	if status >= 500 || status == http.StatusTooManyRequests {
		return sdk.Retryable(code, err)
	}
	return sdk.Terminal(code, err)
}
