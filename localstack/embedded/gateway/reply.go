package gateway

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"strconv"

	"github.com/aws/aws-lambda-go/events"
)

// reply is the function's reply as an HTTP response.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// hopByHopHeaders are headers between the gateway and its client; a function cannot set
// them.
var hopByHopHeaders = []string{"Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// parseReply reads payload format 2.0. As on AWS, JSON that is not an object with a
// statusCode is the body of a response with status 200.
func parseReply(raw []byte) (*reply, error) {
	var probe struct {
		StatusCode *int `json:"statusCode"`
	}
	if !json.Valid(raw) {
		return nil, errors.New("the reply is not JSON")
	}
	if err := json.Unmarshal(raw, &probe); err != nil {
		var typeError *json.UnmarshalTypeError
		if errors.As(err, &typeError) && typeError.Field == "statusCode" {
			return nil, fmt.Errorf("the reply's statusCode is a %s", typeError.Value)
		}
	}
	if probe.StatusCode == nil {
		return &reply{status: http.StatusOK, header: http.Header{"Content-Type": {"application/json"}}, body: raw}, nil
	}
	var response events.APIGatewayV2HTTPResponse
	if err := json.Unmarshal(raw, &response); err != nil {
		return nil, fmt.Errorf("the reply is malformed: %w", err)
	}
	if response.StatusCode < 200 || response.StatusCode > 599 {
		return nil, fmt.Errorf("the reply has status %d", response.StatusCode)
	}
	out := &reply{status: response.StatusCode, header: http.Header{}, body: []byte(response.Body)}
	if response.IsBase64Encoded {
		body, err := base64.StdEncoding.DecodeString(response.Body)
		if err != nil {
			return nil, errors.New("the reply's body is not base64")
		}
		out.body = body
	}
	for name, value := range response.Headers {
		out.header.Set(name, value)
	}
	for name, values := range response.MultiValueHeaders {
		if len(values) > 0 {
			out.header[textproto.CanonicalMIMEHeaderKey(name)] = values
		}
	}
	for _, c := range response.Cookies {
		out.header.Add("Set-Cookie", c)
	}
	for _, name := range hopByHopHeaders {
		out.header.Del(name)
	}
	if len(out.body) > 0 && out.header.Get("Content-Type") == "" {
		// Do not let the server guess: it would take text that looks like a page for HTML.
		out.header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	return out, nil
}

func (r *reply) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.header)
	if r.status == http.StatusNoContent || r.status == http.StatusNotModified {
		w.WriteHeader(r.status)
		return
	}
	if len(r.body) > 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(r.body)))
	}
	w.WriteHeader(r.status)
	w.Write(r.body)
}
