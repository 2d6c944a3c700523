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

// receipt names a pack that was leased to a worker. The worker sends it back with
// everything it reports.
type receipt struct {
	Version int    `json:"v"`
	Pool    string `json:"p"`
	Handle  string `json:"h"` // the message's receipt handle
	Nonce   string `json:"n"` // of the claim, without the digest
	Body    string `json:"b"` // of the message
}

const receiptVersion = 1

// maxReceiptBytes is the largest decompressed receipt.
const maxReceiptBytes = 4 << 20

// claimNonce returns the nonce of the claim that belongs to the receipt. It contains a digest of
// the receipt, so that whoever sends a receipt that matches the claim was given it, and has not
// changed it.
func (r *receipt) claimNonce() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s %d:%s %s", len(r.Pool), r.Pool, len(r.Handle), r.Handle, r.Body))
	return r.Nonce + "-" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

func (r *receipt) encode() (string, error) {
	packed, err := r.compress()
	return base64.RawURLEncoding.EncodeToString(packed), err
}

func (r *receipt) compress() ([]byte, error) {
	plain, err := workflow.EncodeJSON(r)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	// No error is possible: the level is valid, and a buffer accepts every write.
	w, _ := flate.NewWriter(&b, flate.BestSpeed)
	_, _ = w.Write(plain)
	_ = w.Close()
	return b.Bytes(), nil
}

// invalidReceipt is the error for a receipt that the service did not issue.
func invalidReceipt() error {
	return workflow.Invalid("the request is not valid", []workflow.Issue{{Path: "pack", Code: "value", Message: "want the pack value that the poll returned"}})
}

func parseReceipt(text string) (*receipt, error) {
	packed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, invalidReceipt()
	}
	return decompressReceipt(packed)
}

func decompressReceipt(raw []byte) (*receipt, error) {
	invalid := invalidReceipt()
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
