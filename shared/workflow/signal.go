package workflow

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/statemachines"
)

// Signal is a message from outside to one execution, by name. It lies in the mailbox of the
// execution until a wait takes it: in the state item, but outside its version, so that a
// signal is accepted or refused by the very write that stores it.
type Signal struct {
	ID     string // the sender's Idempotency-Key, see NewSignalID
	Name   string
	At     time.Time
	By     string
	Reason string
	Digest string // of name and data

	// Data is JSON; empty for none. Data of more than MaxInlineSignal are stored apart
	// from the state item, and Stored refers to them.
	Data   json.RawMessage
	Stored *PayloadRef

	// Forwarded says that an execution that gives way hands it over: only one that has checked
	// in accepts it. It is not stored.
	Forwarded bool

	// Order is greater than that of every signal that the execution accepted before.
	Order int64
}

// Bounds of a mailbox. A signal takes less than a KiB of the state item.
const (
	MaxSignals        = 64 // in the mailbox
	MaxUnawaited      = 48 // the other places are kept for names that a wait wants
	MaxHeard          = 64 // consumed signals that the state item remembers; older ones are remembered in items of their own
	MaxSignalBytes    = 256 << 10
	MaxInlineSignal   = 128 // bytes of data in the state item
	MaxSignalName     = 64
	MaxSignalID       = 64
	MaxSignalSender   = 256
	MaxSignalReason   = 128
	MaxAwaitedSignals = 32 // names
)

// ValueOfSignals is the owner of stored data of signals, see Store.SaveValue.
const ValueOfSignals = "sig"

// SignalNamePattern is what names of signals match.
const SignalNamePattern = `^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`

var signalNameRE = regexp.MustCompile(SignalNamePattern)

// ValidSignalName reports whether s can be the name of a signal.
func ValidSignalName(s string) bool { return signalNameRE.MatchString(s) }

// NewSignalID is the id of the signal that is sent with an Idempotency-Key. A long key is
// replaced by its digest.
func NewSignalID(key string) string {
	if len(key) <= MaxSignalID {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// SignalKey is a digest of a signal's id, by which the store and Execution.Heard know it.
func SignalKey(id string) string {
	sum := sha256.Sum256([]byte(id))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// SignalDigest identifies the content of a signal. White space in the data does not count.
func SignalDigest(name string, data json.RawMessage) string {
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil {
		compact.Reset()
		compact.Write(data)
	}
	sum := sha256.Sum256(append([]byte(name+"\x00"), compact.Bytes()...))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// SignalResult says what became of a signal.
type SignalResult string

// The results. A duplicate has been accepted before; a mismatch has the id of another signal
// that was accepted before.
const (
	SignalAccepted  SignalResult = "accepted"
	SignalDuplicate SignalResult = "duplicate"
	SignalMismatch  SignalResult = "mismatch"
	SignalRefused   SignalResult = "refused" // by the state of the execution
	SignalLimit     SignalResult = "limit"   // the mailbox has no place for it
)

// KnowsSignal is the first of two judgements of a signal, and comes before RefusesSignal: one
// that was accepted before is a duplicate whatever the state and however full the mailbox. It
// returns "" for a signal that is not in the mailbox, and not among those last consumed:
// where HeardOut is not 0, the store remembers others.
func (x *Execution) KnowsSignal(s Signal) SignalResult {
	for _, known := range x.Signals {
		if known.ID != s.ID {
			continue
		}
		if known.Digest != s.Digest {
			return SignalMismatch
		}
		return SignalDuplicate
	}
	if slices.Contains(x.Heard, SignalKey(s.ID)) {
		return SignalDuplicate
	}
	return ""
}

// AcceptedIn reports whether an execution in that state accepts the signal. One that is handed
// over is refused by an execution that has still to check in, and may itself give way.
func (s Signal) AcceptedIn(state statemachines.ExecutionState) bool {
	return statemachines.AcceptsSignals(state) && (!s.Forwarded || !statemachines.ChecksIn(state))
}

// RefusesSignal is the second judgement: of a signal that was not accepted before. It returns
// "" if the execution accepts it.
func (x *Execution) RefusesSignal(s Signal) SignalResult {
	switch {
	case !s.AcceptedIn(x.State):
		return SignalRefused
	case len(x.Signals) < MaxUnawaited, len(x.Signals) < MaxSignals && slices.Contains(x.AwaitedSignals, s.Name):
		return ""
	}
	return SignalLimit
}

// HearSignals returns what the state item remembers of consumed signals once those with
// the ids are consumed, oldest first, and the keys of those that have left it: only such as
// were consumed by an earlier commit.
func (x *Execution) HearSignals(ids []string) (heard, left []string) {
	heard = slices.Clone(x.Heard)
	for _, id := range ids {
		heard = append(heard, SignalKey(id))
	}
	n := min(max(len(heard)-MaxHeard, 0), len(x.Heard))
	return heard[n:], heard[:n]
}

// CommitOptions is what a commit does besides replacing the state.
type CommitOptions struct {
	Release bool // remove the waiters, and return them

	// Consumed are the ids of signals to remove from the mailbox. SignalsSeen makes the commit
	// depend on that no signal has come since the execution was read.
	Consumed    []string
	SignalsSeen bool
}
