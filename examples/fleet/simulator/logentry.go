package simulator

import (
	"strconv"
	"strings"
	"time"
)

// Operation names what a device is asked to do.
type Operation string

// The operations. Read is no change and is never logged; it stands here only
// because misbehaviour can be switched on for it by name.
const (
	OpUpgrade   Operation = "upgrade"
	OpRollback  Operation = "rollback"
	OpConfigure Operation = "configure"
	OpTouch     Operation = "touch"
	OpRead      Operation = "read"
)

// Outcome says how a change ended.
type Outcome string

// The outcomes.
const (
	OutcomeRunning     Outcome = "running"     // waiting for its turn or being made
	OutcomeAnswered    Outcome = "answered"    // made, and the caller was told; see Applied for whether it was true
	OutcomeRefused     Outcome = "refused"     // not made; Code says why
	OutcomeDropped     Outcome = "dropped"     // the connection was cut; Applied says on which side of the change
	OutcomeAbandoned   Outcome = "abandoned"   // its caller hung up while it still waited for its turn; not made
	OutcomeInterrupted Outcome = "interrupted" // the device lost power while it waited or ran; not made
)

// Codes of a refusal; they are the codes of the HTTP answers, too.
const (
	CodeStaleFence    = "stale_fence"    // 409: a higher fence was seen before
	CodeRefused       = "refused"        // 503 or as switched: misbehaviour
	CodeInvalid       = "invalid"        // 400: the body is not what the operation needs
	CodeFenceRequired = "fence_required" // 400: no X-Fence
	CodeKeyRequired   = "key_required"   // 400: no Idempotency-Key
	CodeNoPower       = "no_power"       // 503: reset or shut down in the middle of the change
	CodeNotFound      = "not_found"      // 404: no such device, group or route
	CodeTooLarge      = "too_large"      // 413: the body is over 64 KiB
)

// LogEntry is one change a device was asked to make. It is on record before
// anything is done about it, and final once EndedAt is set.
type LogEntry struct {
	Seq            int       `json:"seq"` // from 1, in order of arrival, without gaps
	At             time.Time `json:"at"`
	EndedAt        time.Time `json:"endedAt,omitzero"`
	Operation      Operation `json:"operation"`
	Requested      string    `json:"requested,omitempty"` // the version, or the configuration as JSON
	Fence          string    `json:"fence"`
	Token          uint64    `json:"token"` // the entity's lock token, which is the fence's first field
	IdempotencyKey string    `json:"idempotencyKey"`

	// Accepted is true once the fence was high enough and no misbehaviour
	// refused the change: from then on the caller must reckon with its effect.
	Accepted bool `json:"accepted"`
	// Repeat is true for an accepted change whose key was accepted before.
	Repeat bool `json:"repeat"`
	// Applied is true if the device was in the requested state afterwards,
	// Effective if it had to alter something for that.
	Applied   bool    `json:"applied"`
	Effective bool    `json:"effective"`
	Outcome   Outcome `json:"outcome"`
	Code      string  `json:"code,omitempty"`
	Message   string  `json:"message,omitempty"`
	From      string  `json:"from,omitempty"` // the version before
	To        string  `json:"to,omitempty"`   // the version after

	// Overlap is true if another change, Overlaps, waited or ran on this
	// device when this one was accepted. CallerGone says that nobody waited
	// for the answer of that other one any more.
	Overlap    bool `json:"overlap"`
	Overlaps   int  `json:"overlaps,omitempty"`
	CallerGone bool `json:"callerGone,omitempty"`
}

// FenceLockToken reads the lock token out of a fence such as
// "0000000017-0003-01-02". A fence of another shape is still a fence; its
// token is 0.
func FenceLockToken(fence string) uint64 {
	first, _, _ := strings.Cut(fence, "-")
	token, err := strconv.ParseUint(first, 10, 64)
	if err != nil {
		return 0
	}
	return token
}
