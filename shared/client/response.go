package client

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxResponseBytes bounds what is read of one answer.
const maxResponseBytes = 64 << 20

// decodeResponse turns an answer into T, or into an error.
func decodeResponse[T any](res *http.Response, err error) (T, error) {
	v, _, err := decodeWithStatus[T](res, err)
	return v, err
}

// decodeWithStatus is read for answers whose status says something.
func decodeWithStatus[T any](res *http.Response, err error) (v T, status int, _ error) {
	if err != nil {
		return v, 0, err
	}
	defer func() { _ = res.Body.Close() }() // it has been read
	body, err := io.ReadAll(io.LimitReader(res.Body, maxResponseBytes))
	if err != nil {
		return v, res.StatusCode, &UnreachableError{URL: res.Request.URL.Scheme + "://" + res.Request.URL.Host, Err: err}
	}
	if res.StatusCode >= 300 {
		return v, res.StatusCode, problemError(res, body)
	}
	if res.StatusCode == http.StatusNoContent {
		return v, res.StatusCode, nil
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return v, res.StatusCode, &workflow.Error{Code: workflow.CodeInternal, Message: "the answer of " + res.Request.URL.Scheme + "://" + res.Request.URL.Host + " cannot be read: it is no Lockstep service, or of another version", Cause: err}
	}
	return v, res.StatusCode, nil
}

// problemError reads a problem. What is no problem comes from something between here
// and the service, and is classified by its status.
func problemError(res *http.Response, body []byte) error {
	var p struct {
		Detail    string           `json:"detail"`
		Code      workflow.Code    `json:"code"`
		RequestID string           `json:"requestId"`
		Errors    []workflow.Issue `json:"errors"`
	}
	if json.Unmarshal(body, &p) != nil || p.Code == "" {
		e := &workflow.Error{Code: codeForStatus(res.StatusCode), Message: "answered " + res.Status}
		if res.Request != nil {
			e.Message = res.Request.URL.Scheme + "://" + res.Request.URL.Host + " answered " + res.Status + ", and not as a Lockstep service does"
		}
		return e
	}
	e := &workflow.Error{Code: p.Code, Message: p.Detail, Issues: p.Errors}
	if res.StatusCode >= 500 && p.RequestID != "" {
		e.Message += fmt.Sprintf(" (request %s)", p.RequestID)
	}
	return e
}

func codeForStatus(status int) workflow.Code {
	switch status {
	case http.StatusUnauthorized:
		return workflow.CodeUnauthorized
	case http.StatusForbidden:
		return workflow.CodeForbidden
	case http.StatusNotFound:
		return workflow.CodeNotFound
	case http.StatusMethodNotAllowed:
		return workflow.CodeMethodNotAllowed
	case http.StatusRequestEntityTooLarge:
		return workflow.CodeTooLarge
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return workflow.CodeUnavailable
	}
	if status < 500 {
		return workflow.CodeInvalid
	}
	return workflow.CodeInternal
}
