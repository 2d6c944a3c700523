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

// reply is the function's answer, ready to be sent.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// hop names the headers that are between the gateway and its client, and that a
// function has no say in.
var hop = []string{"Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// readReply understands payload format 2.0. As on AWS, a reply that is JSON but
// no object with a statusCode is the body of a response with status 200.
func readReply(raw []byte) (*reply, error) {
	var probe struct {
		StatusCode *int `json:"statusCode"`
	}
	if !json.Valid(raw) {
		return nil, errors.New("the reply is not JSON")
	}
	if err := json.Unmarshal(raw, &probe); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field == "statusCode" {
			return nil, fmt.Errorf("the reply's statusCode is a %s", wrong.Value)
		}
	}
	if probe.StatusCode == nil {
		return &reply{status: http.StatusOK, header: http.Header{"Content-Type": {"application/json"}}, body: raw}, nil
	}
	var wire events.APIGatewayV2HTTPResponse
	if err := json.Unmarshal(raw, &wire); err != nil {
		return nil, fmt.Errorf("the reply is malformed: %w", err)
	}
	if wire.StatusCode < 200 || wire.StatusCode > 599 {
		return nil, fmt.Errorf("the reply has status %d", wire.StatusCode)
	}
	out := &reply{status: wire.StatusCode, header: http.Header{}, body: []byte(wire.Body)}
	if wire.IsBase64Encoded {
		body, err := base64.StdEncoding.DecodeString(wire.Body)
		if err != nil {
			return nil, errors.New("the reply's body is not base64")
		}
		out.body = body
	}
	for name, value := range wire.Headers {
		out.header.Set(name, value)
	}
	for name, values := range wire.MultiValueHeaders {
		if len(values) > 0 {
			out.header[textproto.CanonicalMIMEHeaderKey(name)] = values
		}
	}
	for _, c := range wire.Cookies {
		out.header.Add("Set-Cookie", c)
	}
	for _, name := range hop {
		out.header.Del(name)
	}
	if len(out.body) > 0 && out.header.Get("Content-Type") == "" {
		// Never let the server guess: a text that looks like a page would be one.
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
