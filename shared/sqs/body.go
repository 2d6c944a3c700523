package sqs

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// MaxBody is the largest message that SQS takes, and also the most that one
// batch may carry.
const MaxBody = 1 << 20

// A body over compressFrom is deflated, and then says so by its first bytes; it
// unfolds to at most maxPlain.
const (
	compressFrom   = 64 << 10
	compressPrefix = "deflate1:"
	maxPlain       = 16 << 20
)

// bodyVersion is the version of both bodies.
const bodyVersion = 1

type lookBody struct {
	V int `json:"v"`
	workflow.Look
}

type packBody struct {
	V int `json:"v"`
	workflow.PackMessage
}

// EncodeLook writes the body of a lifecycle message.
func EncodeLook(l workflow.Look) (string, error) { return encode(lookBody{bodyVersion, l}) }

// EncodePack writes the body of a pack's message; CodeTooLarge if it does not
// fit into one.
func EncodePack(m *workflow.PackMessage) (string, error) { return encode(packBody{bodyVersion, *m}) }

// DecodeLook reads the body of a lifecycle message. CodeInvalid means that it
// never will be one, CodeUnavailable that a newer version can read it.
func DecodeLook(body string) (workflow.Look, error) {
	var b lookBody
	if err := decode(body, &b, &b.V); err != nil {
		return workflow.Look{}, err
	}
	if b.Tenant == "" || b.Execution == "" {
		return workflow.Look{}, invalid(errors.New("it names no execution"))
	}
	return b.Look, nil
}

// DecodePack reads the body of a pack's message, with errors as [DecodeLook].
func DecodePack(body string) (*workflow.PackMessage, error) {
	var b packBody
	if err := decode(body, &b, &b.V); err != nil {
		return nil, err
	}
	k := b.Key
	switch {
	case k.Tenant == "" || k.Execution == "":
		return nil, invalid(errors.New("it names no execution"))
	case k.RunSeq < 1 || k.Visit < 1 || k.Lane < 0 || k.Pos < 0 || k.Attempt < 1:
		return nil, invalid(fmt.Errorf("%s names no pack", k))
	case b.Work.Block == "" || b.Work.Kind == "":
		return nil, invalid(errors.New("it names no block"))
	case len(b.Jobs) == 0 && b.Stored == nil:
		return nil, invalid(errors.New("it holds no job"))
	}
	return &b.PackMessage, nil
}

func encode(v any) (string, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return "", &workflow.Error{Code: workflow.CodeInternal, Message: "a message cannot be written", Cause: err}
	}
	body := string(plain)
	if len(plain) > compressFrom {
		if smaller := deflate(plain); len(smaller) < len(body) {
			body = smaller
		}
	}
	if len(body) > MaxBody || len(plain) > maxPlain {
		return "", workflow.Errorf(workflow.CodeTooLarge, "a message of %d bytes is more than a queue takes", len(body))
	}
	return body, nil
}

func deflate(plain []byte) string {
	var b bytes.Buffer
	// Neither the constant level nor a buffer can fail.
	w, _ := flate.NewWriter(&b, flate.BestSpeed)
	_, _ = w.Write(plain)
	_ = w.Close()
	return compressPrefix + base64.StdEncoding.EncodeToString(b.Bytes())
}

func decode(body string, into any, version *int) error {
	if len(body) > MaxBody {
		return invalid(fmt.Errorf("it is %d bytes long", len(body)))
	}
	plain := []byte(body)
	if packed, ok := strings.CutPrefix(body, compressPrefix); ok {
		raw, err := base64.StdEncoding.DecodeString(packed)
		if err != nil {
			return invalid(err)
		}
		plain, err = io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(raw)), maxPlain+1))
		if err != nil {
			return invalid(err)
		}
		if len(plain) > maxPlain {
			return invalid(fmt.Errorf("it unfolds to more than %d bytes", maxPlain))
		}
	}
	// The version comes first: fields of a newer one are no mistake.
	var only struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(plain, &only); err != nil {
		return invalid(err)
	}
	if only.V > bodyVersion {
		return workflow.Errorf(workflow.CodeUnavailable, "the message was written by a newer version of the engine")
	}
	if only.V < 1 {
		return invalid(errors.New("it has no version"))
	}
	d := json.NewDecoder(bytes.NewReader(plain))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return invalid(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return invalid(errors.New("something follows it"))
	}
	*version = only.V
	return nil
}

func invalid(why error) error {
	return &workflow.Error{Code: workflow.CodeInvalid, Message: "the message is not one of ours", Cause: why}
}
