package sqs

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxBody is the size of the largest message that SQS accepts, and of the largest
// batch, in bytes.
const maxBody = 1 << 20

// A body larger than compressThreshold is compressed and then starts with compressPrefix. It may
// decompress to at most maxDecodedBytes.
const (
	compressThreshold = 64 << 10
	compressPrefix    = "deflate1:"
	maxDecodedBytes   = 16 << 20
)

// bodyVersion is the version of all kinds of bodies.
const bodyVersion = 1

type wakeupBody struct {
	Version int `json:"v"`
	workflow.Wakeup
}

type packBody struct {
	Version int `json:"v"`
	workflow.PackMessage
}

type announcementBody struct {
	Version int `json:"v"`
	workflow.Announcement
}

type deliveryBody struct {
	Version int `json:"v"`
	workflow.Delivery
}

type busEventBody struct {
	Version int `json:"v"`
	workflow.BusEvent
}

// DecodeBusEvent decodes the body of a message in the queue hooks-in, which an EventBridge rule
// makes. Its errors are as in [DecodeWakeup].
func DecodeBusEvent(body string) (workflow.BusEvent, error) {
	var b busEventBody
	if err := decodeBody(body, &b, &b.Version); err != nil {
		return workflow.BusEvent{}, err
	}
	if b.Tenant == "" || len(b.Event) == 0 {
		return workflow.BusEvent{}, invalidMessage(errors.New("it names no tenant, or has no event"))
	}
	return b.BusEvent, nil
}

// EncodeAnnouncement encodes the body of a message of the queue events.
func EncodeAnnouncement(a workflow.Announcement) (string, error) {
	return encodeBody(announcementBody{bodyVersion, a})
}

// EncodeDelivery encodes the body of a message of the queue hooks-out.
func EncodeDelivery(d *workflow.Delivery) (string, error) {
	return encodeBody(deliveryBody{bodyVersion, *d})
}

// DecodeAnnouncement decodes the body of a message in the queue events, with errors as in
// [DecodeWakeup].
func DecodeAnnouncement(body string) (workflow.Announcement, error) {
	var b announcementBody
	if err := decodeBody(body, &b, &b.Version); err != nil {
		return workflow.Announcement{}, err
	}
	if b.Tenant == "" || b.Execution == "" {
		return workflow.Announcement{}, invalidMessage(errors.New("it names no execution"))
	}
	return b.Announcement, nil
}

// DecodeDelivery decodes the body of a message in the queue hooks-out, with errors as in
// [DecodeWakeup].
func DecodeDelivery(body string) (*workflow.Delivery, error) {
	var b deliveryBody
	if err := decodeBody(body, &b, &b.Version); err != nil {
		return nil, err
	}
	if b.Tenant == "" || b.Execution == "" || b.Subscription == "" || len(b.Events) == 0 && b.Rows == nil {
		return nil, invalidMessage(errors.New("it names no execution, subscription or events"))
	}
	if r := b.Rows; r != nil && (r.Table == "" && len(r.Jobs) > 0 || r.StepRun < 1 || r.From < 0 || r.To <= r.From) {
		return nil, invalidMessage(errors.New("it names no table or jobs"))
	}
	if r := b.Rows; r != nil && slices.ContainsFunc(r.Jobs, func(j workflow.PipedJob) bool { return j.Index < r.From || j.Index >= r.To }) {
		return nil, invalidMessage(errors.New("it names a job that is not one of its part"))
	}
	if b.Try < 0 || b.Try > 0 && len(b.Events) != 1 {
		return nil, invalidMessage(errors.New("an end is one event"))
	}
	return &b.Delivery, nil
}

// EncodeWakeup encodes the body of a lifecycle message.
func EncodeWakeup(w workflow.Wakeup) (string, error) { return encodeBody(wakeupBody{bodyVersion, w}) }

// EncodePack encodes the body of a pack's message; CodeTooLarge if it does not fit into one
// message.
func EncodePack(m *workflow.PackMessage) (string, error) {
	return encodeBody(packBody{bodyVersion, *m})
}

// DecodeWakeup decodes the body of a lifecycle message. CodeInvalid means that no version can
// decode it; CodeUnavailable means that a newer version can.
func DecodeWakeup(body string) (workflow.Wakeup, error) {
	var b wakeupBody
	if err := decodeBody(body, &b, &b.Version); err != nil {
		return workflow.Wakeup{}, err
	}
	if b.Tenant == "" || b.Execution == "" {
		return workflow.Wakeup{}, invalidMessage(errors.New("it names no execution"))
	}
	return b.Wakeup, nil
}

// DecodePack decodes the body of a pack's message, with errors as in [DecodeWakeup].
func DecodePack(body string) (*workflow.PackMessage, error) {
	var b packBody
	if err := decodeBody(body, &b, &b.Version); err != nil {
		return nil, err
	}
	k := b.Key
	switch {
	case k.Tenant == "" || k.Execution == "":
		return nil, invalidMessage(errors.New("it names no execution"))
	case k.StepRunSeq < 1 || k.StepRunOrdinal < 1 || k.Lane < 0 || k.PipelinePos < 0 || k.Attempt < 1:
		return nil, invalidMessage(fmt.Errorf("%s names no pack", k))
	case b.Work.Block == "" || b.Work.Kind == "":
		return nil, invalidMessage(errors.New("it names no block"))
	case len(b.Jobs) == 0 && b.JobsRef == nil:
		return nil, invalidMessage(errors.New("it has no jobs"))
	}
	return &b.PackMessage, nil
}

func encodeBody(v any) (string, error) {
	plain, err := workflow.EncodeJSON(v)
	if err != nil {
		return "", &workflow.Error{Code: workflow.CodeInternal, Message: "a message cannot be encoded", Cause: err}
	}
	plain = escapeForbidden(plain)
	body := string(plain)
	if len(plain) > compressThreshold {
		if smaller := deflate(plain); len(smaller) < len(body) {
			body = smaller
		}
	}
	if len(body) > maxBody || len(plain) > maxDecodedBytes {
		return "", workflow.Errorf(workflow.CodeTooLarge, "a message of %d bytes is too large: a queue accepts %d", len(body), maxBody)
	}
	return body, nil
}

// escapeForbidden escapes what SQS never accepts and encoding/json does not escape: U+FFFE and
// U+FFFF, and bytes that are not UTF-8. In JSON they occur only in strings.
func escapeForbidden(plain []byte) []byte {
	var out []byte // plain up to at, escaped; nil as long as nothing had to be escaped
	at := 0
	for i := 0; i < len(plain); {
		r, size := utf8.DecodeRune(plain[i:])
		if r == 0xFFFE || r == 0xFFFF || r == utf8.RuneError && size == 1 {
			out = fmt.Appendf(append(out, plain[at:i]...), `\u%04x`, r)
			at = i + size
		}
		i += size
	}
	if out == nil {
		return plain
	}
	return append(out, plain[at:]...)
}

func deflate(plain []byte) string {
	var b bytes.Buffer
	// The level is valid, and writing to a buffer cannot fail.
	w, _ := flate.NewWriter(&b, flate.BestSpeed)
	_, _ = w.Write(plain)
	_ = w.Close()
	return compressPrefix + base64.StdEncoding.EncodeToString(b.Bytes())
}

func decodeBody(body string, into any, version *int) error {
	if len(body) > maxBody {
		return invalidMessage(fmt.Errorf("it is %d bytes long", len(body)))
	}
	plain := []byte(body)
	if packed, ok := strings.CutPrefix(body, compressPrefix); ok {
		raw, err := base64.StdEncoding.DecodeString(packed)
		if err != nil {
			return invalidMessage(err)
		}
		plain, err = io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(raw)), maxDecodedBytes+1))
		if err != nil {
			return invalidMessage(err)
		}
		if len(plain) > maxDecodedBytes {
			return invalidMessage(fmt.Errorf("it decompresses to more than %d bytes", maxDecodedBytes))
		}
	}
	// The version is checked first, so that unknown fields of a newer one are not an error.
	var header struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(plain, &header); err != nil {
		return invalidMessage(err)
	}
	if header.V > bodyVersion {
		return workflow.Errorf(workflow.CodeUnavailable, "the message was written by a newer version of the engine")
	}
	if header.V < 1 {
		return invalidMessage(errors.New("it has no version"))
	}
	d := json.NewDecoder(bytes.NewReader(plain))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return invalidMessage(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return invalidMessage(errors.New("it has data after the JSON value"))
	}
	*version = header.V
	return nil
}

func invalidMessage(why error) error {
	return &workflow.Error{Code: workflow.CodeInvalid, Message: "the message is invalid", Cause: why}
}
