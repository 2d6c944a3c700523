package aws

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go"
)

// awsService is one that is asked without its own module of the SDK.
type awsService struct {
	name      string // of its host and of its signatures
	envSuffix string // the end of the variable that names its endpoint
}

var (
	cloudFormation = awsService{"cloudformation", "CLOUDFORMATION"}
	lambdaAPI      = awsService{"lambda", "LAMBDA"}
	eventBridge    = awsService{"events", "EVENTBRIDGE"}
	cloudWatch     = awsService{"monitoring", "CLOUDWATCH"}
)

const (
	maxAttempts      = 3
	maxResponseBytes = 16 << 20
)

// endpoint is where a service is: as the environment or a profile says, else where
// AWS has it.
func (a *Account) endpoint(s awsService) string {
	if at := os.Getenv("AWS_ENDPOINT_URL_" + s.envSuffix); at != "" {
		return strings.TrimSuffix(at, "/")
	}
	if a.baseEndpoint != "" {
		return strings.TrimSuffix(a.baseEndpoint, "/")
	}
	domain := "amazonaws.com"
	if strings.HasPrefix(a.Region, "cn-") {
		domain += ".cn"
	}
	return "https://" + s.name + "." + a.Region + "." + domain
}

// postForm asks in the way of the oldest services: a form, answered by XML.
func (a *Account) postForm(ctx context.Context, s awsService, version, action string, form url.Values, answer any) error {
	form.Set("Action", action)
	form.Set("Version", version)
	body, err := a.send(ctx, s, http.MethodPost, "/", []byte(form.Encode()), http.Header{"Content-Type": {"application/x-www-form-urlencoded; charset=utf-8"}})
	if err != nil {
		return err
	}
	return xml.Unmarshal(body, answer)
}

// postJSON asks in JSON, the operation in a header.
func (a *Account) postJSON(ctx context.Context, s awsService, target string, question, answer any) error {
	text, err := json.Marshal(question)
	if err != nil {
		return err
	}
	body, err := a.send(ctx, s, http.MethodPost, "/", text, http.Header{"Content-Type": {"application/x-amz-json-1.1"}, "X-Amz-Target": {target}})
	if err != nil {
		return err
	}
	return json.Unmarshal(body, answer)
}

// getJSON asks for what is at a path.
func (a *Account) getJSON(ctx context.Context, s awsService, path string, answer any) error {
	body, err := a.send(ctx, s, http.MethodGet, path, nil, http.Header{})
	if err != nil {
		return err
	}
	return json.Unmarshal(body, answer)
}

// send sends a signed request, again if its failure may pass by itself.
func (a *Account) send(ctx context.Context, s awsService, method, path string, body []byte, head http.Header) ([]byte, error) {
	for try := 1; ; try++ {
		answer, err := a.sendOnce(ctx, s, method, path, body, head)
		var refused smithy.APIError
		passes := err != nil && (!errors.As(err, &refused) || refused.ErrorFault() == smithy.FaultServer || strings.HasPrefix(refused.ErrorCode(), "Thrott"))
		if !passes || try == maxAttempts || ctx.Err() != nil {
			return answer, err
		}
		pause := time.NewTimer(time.Duration(try) * a.retryDelay)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, err
		}
	}
}

func (a *Account) sendOnce(ctx context.Context, s awsService, method, path string, body []byte, head http.Header) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, a.endpoint(s)+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = head.Clone()
	who, err := a.credentials.Retrieve(ctx)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(ctx, who, r, hex.EncodeToString(sum[:]), s.name, a.Region, a.now()); err != nil {
		return nil, err
	}
	res, err := a.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // it has been read
	text, err := io.ReadAll(io.LimitReader(res.Body, maxResponseBytes))
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= 300 {
		return nil, parseError(s, res, text)
	}
	return text, nil
}

// parseError reads an error in any of the three ways in which the services tell one.
func parseError(s awsService, res *http.Response, body []byte) error {
	var old struct {
		Code    string `xml:"Error>Code"`
		Message string `xml:"Error>Message"`
	}
	var now struct {
		Type    string `json:"__type"`
		Message string `json:"message"` // or Message: letters of either size fit
	}
	e := &smithy.GenericAPIError{Fault: smithy.FaultClient}
	if xml.Unmarshal(body, &old) == nil {
		e.Code, e.Message = old.Code, old.Message
	} else if json.Unmarshal(body, &now) == nil {
		e.Code, e.Message = now.Type, now.Message
	}
	if kind := res.Header.Get("X-Amzn-Errortype"); kind != "" {
		e.Code = kind
	}
	// A code may have its namespace before it and an address behind it.
	e.Code, _, _ = strings.Cut(e.Code[strings.LastIndexByte(e.Code, '#')+1:], ":")
	if e.Code == "" {
		e.Code = fmt.Sprint(res.StatusCode)
	}
	if e.Message == "" {
		e.Message = s.name + " answered " + res.Status
	}
	if res.StatusCode >= 500 {
		e.Fault = smithy.FaultServer
	}
	return e
}

// IsAccessDenied reports whether the credentials do not allow what was asked.
func IsAccessDenied(err error) bool {
	return hasCode(err, "AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError")
}

// IsNotFound reports whether what was asked for is not there.
func IsNotFound(err error) bool {
	return hasCode(err, "ResourceNotFoundException", "AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")
}

func hasCode(err error, codes ...string) bool {
	var answer smithy.APIError
	if !errors.As(err, &answer) {
		return false
	}
	for _, c := range codes {
		if answer.ErrorCode() == c {
			return true
		}
	}
	return false
}
