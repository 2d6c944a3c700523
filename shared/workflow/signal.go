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

// Signal is a message from outside to one execution, by name. It stays in the mailbox of the
// execution until a wait takes it. The mailbox is in the state item but outside of its version, so
// that the write that stores a signal also accepts or refuses it.
type Signal struct {
	ID     string // the sender's Idempotency-Key, see NewSignalID
	Name   string
	At     time.Time
	By     string
	Reason string
	Digest string // of name and data

	// Data is JSON; empty for none. Data larger than MaxInlineSignal are stored outside the state
	// item, and Stored refers to them.
	Data   json.RawMessage
	Stored *PayloadRef

	// Forwarded means that an execution that gives way hands it over: only an execution that has
	// checked in accepts it. It is not stored.
	Forwarded bool

	// Order is greater than that of every signal that the execution accepted before.
	Order int64
}

// Bounds of a mailbox. A signal takes less than a KiB of the state item.
const (
	MaxSignals        = 64 // in the mailbox
	MaxUnawaited      = 48 // the rest of the mailbox is reserved for names that a wait wants
	MaxHeard          = 64 // consumed signals that the state item remembers; older ones are in items of their own
	MaxSignalBytes    = 256 << 10
	MaxInlineSignal   = 128 // bytes of data in the state item
	MaxSignalName     = 64
	MaxSignalID       = 64
	MaxSignalSender   = 256
	MaxSignalReason   = 128
	MaxAwaitedSignals = 32 // number of names
)

// ValueOfSignals is the owner of stored data of signals, see Store.SaveValue.
const ValueOfSignals = "sig"

// SignalNamePattern is the pattern of signal names.
const SignalNamePattern = `^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`

var signalNameRE = regexp.MustCompile(SignalNamePattern)

// ValidSignalName reports whether s can be the name of a signal.
func ValidSignalName(s string) bool { return signalNameRE.MatchString(s) }

// NewSignalID returns the id of a signal that is sent with an Idempotency-Key. A long key is
// replaced by its digest.
func NewSignalID(key string) string {
	if len(key) <= MaxSignalID {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// SignalKey returns a digest of a signal's id. The store and Execution.Heard know the signal by it.
func SignalKey(id string) string {
	sum := sha256.Sum256([]byte(id))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// SignalDigest identifies the content of a signal, ignoring insignificant white space in the data.
func SignalDigest(name string, data json.RawMessage) string {
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil {
		compact.Reset()
		compact.Write(data)
	}
	sum := sha256.Sum256(append([]byte(name+"\x00"), compact.Bytes()...))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// SignalResult says what happened to a signal.
type SignalResult string

// Results of a signal. A duplicate has been accepted before; a mismatch has the id of a different
// signal that was accepted before.
const (
	SignalAccepted  SignalResult = "accepted"
	SignalDuplicate SignalResult = "duplicate"
	SignalMismatch  SignalResult = "mismatch"
	SignalRefused   SignalResult = "refused" // because of the state of the execution
	SignalLimit     SignalResult = "limit"   // the mailbox is full
)

// KnowsSignal is the first of two checks of a signal, before RefusesSignal: a signal that was
// accepted before is a duplicate, whatever the state and however full the mailbox. It returns ""
// for a signal that is neither in the mailbox nor among those consumed last. If HeardOut is not 0,
// the store remembers further ones.
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

// AcceptedIn reports whether an execution in that state accepts the signal. An execution that has
// yet to check in refuses a forwarded signal, because it may itself give way.
func (s Signal) AcceptedIn(state statemachines.ExecutionState) bool {
	return statemachines.AcceptsSignals(state) && (!s.Forwarded || !statemachines.ChecksIn(state))
}

// RefusesSignal is the second check, for a signal that was not accepted before. It returns "" if
// the execution accepts it.
func (x *Execution) RefusesSignal(s Signal) SignalResult {
	switch {
	case !s.AcceptedIn(x.State):
		return SignalRefused
	case len(x.Signals) < MaxUnawaited, len(x.Signals) < MaxSignals && slices.Contains(x.AwaitedSignals, s.Name):
		return ""
	}
	return SignalLimit
}

// HearSignals returns what the state item remembers about consumed signals after those with the ids
// are consumed, the oldest first. left are the keys that have left this list; they are all from
// earlier commits.
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
	// require that no signal has arrived since the execution was read.
	Consumed    []string
	SignalsSeen bool
}
