package workerapi

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// receipt is what a worker keeps of a pack that it was given.
type receipt struct {
	Version int    `json:"v"`
	Pool    string `json:"p"`
	Handle  string `json:"h"` // of the message in its queue
	Nonce   string `json:"n"` // of the claim, without the digest
	Body    string `json:"b"` // of the message
}

const receiptVersion = 1

// maxReceiptBytes bounds what a receipt unfolds to.
const maxReceiptBytes = 4 << 20

// claimNonce is the nonce of the claim that goes with a receipt: whoever holds the
// receipt has made it, and has changed nothing that it is about.
func (r *receipt) claimNonce() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s %d:%s %s", len(r.Pool), r.Pool, len(r.Handle), r.Handle, r.Body))
	return r.Nonce + "-" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

func (r *receipt) encode() (string, error) {
	plain, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	// Neither the constant level nor a buffer can fail.
	w, _ := flate.NewWriter(&b, flate.BestSpeed)
	_, _ = w.Write(plain)
	_ = w.Close()
	return base64.RawURLEncoding.EncodeToString(b.Bytes()), nil
}

// invalidReceipt is the answer to a text that nobody was given.
func invalidReceipt() error {
	return workflow.Invalid("the request is not valid", []workflow.Issue{{Path: "pack", Code: "value", Message: "want the pack as it was offered"}})
}

func parseReceipt(text string) (*receipt, error) {
	invalid := invalidReceipt()
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, invalid
	}
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(raw)), maxReceiptBytes))
	if err != nil {
		return nil, invalid
	}
	var r receipt
	if err := json.Unmarshal(plain, &r); err != nil || r.Version != receiptVersion {
		return nil, invalid
	}
	return &r, nil
}
