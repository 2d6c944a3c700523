package simulator

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Operation is an operation of a device.
type Operation string

// The operations. Read is not a change and is never logged; it is listed because faults
// can name it.
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
	OutcomeRunning     Outcome = "running"     // waiting for its turn or in progress
	OutcomeAnswered    Outcome = "answered"    // made, and the caller has the response; Applied says whether it was true
	OutcomeRefused     Outcome = "refused"     // not made; Code says why
	OutcomeDropped     Outcome = "dropped"     // the connection was cut; Applied says whether before or after the change
	OutcomeAbandoned   Outcome = "abandoned"   // the caller hung up before its turn; not made
	OutcomeInterrupted Outcome = "interrupted" // the device lost power before the end; not made
)

// Codes of refusals, also in the HTTP responses.
const (
	CodeStaleFence    = "stale_fence"    // 409: a higher fence was seen before
	CodeRefused       = "refused"        // 503, or the status of the fault Refuse
	CodeInvalid       = "invalid"        // 400: invalid body
	CodeFenceRequired = "fence_required" // 400: no X-Fence
	CodeKeyRequired   = "key_required"   // 400: no Idempotency-Key
	CodeNoPower       = "no_power"       // 503: reset or closed during the change
	CodeNotFound      = "not_found"      // 404: no such device, group or route
	CodeTooLarge      = "too_large"      // 413: the body is over 64 KiB
)

// LogEntry is a change that a device was asked to make. It is logged before the change
// starts, and final once EndedAt is set.
type LogEntry struct {
	Seq            int       `json:"seq"` // from 1, in order of arrival, without gaps
	At             time.Time `json:"at"`
	EndedAt        time.Time `json:"endedAt,omitzero"`
	Operation      Operation `json:"operation"`
	Requested      string    `json:"requested,omitempty"` // the version, or the configuration as JSON
	Fence          string    `json:"fence"`
	Token          uint64    `json:"token"` // the entity's lock token, which is the fence's first field
	IdempotencyKey string    `json:"idempotencyKey"`

	// Accepted is true once the fence was high enough and no fault refused the change:
	// from then on it may have an effect.
	Accepted bool `json:"accepted"`
	// Repeat is true for an accepted change whose key was accepted before.
	Repeat bool `json:"repeat"`
	// Applied is true if the device was in the requested state afterwards, Effective if it
	// had to change for that.
	Applied   bool    `json:"applied"`
	Effective bool    `json:"effective"`
	Outcome   Outcome `json:"outcome"`
	Code      string  `json:"code,omitempty"`
	Message   string  `json:"message,omitempty"`
	From      string  `json:"from,omitempty"` // the version before
	To        string  `json:"to,omitempty"`   // the version after

	// Overlap is true if another change, with sequence number Overlaps, waited or was in
	// progress when this one was accepted. CallerGone is true if the caller of that other
	// change had hung up.
	Overlap    bool `json:"overlap"`
	Overlaps   int  `json:"overlaps,omitempty"`
	CallerGone bool `json:"callerGone,omitempty"`
}

// FenceLockToken returns the lock token in a fence such as "0000000017-000003-01-02", 0 for
// a fence of another form.
func FenceLockToken(fence string) uint64 {
	first, _, _ := strings.Cut(fence, "-")
	token, err := strconv.ParseUint(first, 10, 64)
	if err != nil {
		return 0
	}
	return token
}

// Rule is a rule that every correct execution keeps on every device.
type Rule string

// The rules.
const (
	// RuleFenceDecreased: the fences of accepted changes never decrease. The device
	// ensures that itself, so this rule checks the device.
	RuleFenceDecreased Rule = "fence_decreased"
	// RuleOverlapped: no change starts during another one. Allowed is a change with the
	// same lock token that either has the same idempotency key (a takeover of the same
	// job) or starts after the other's caller hung up (a retry after a timeout): then only
	// the device is still busy. Two lock tokens at the same time are never allowed.
	RuleOverlapped Rule = "overlapped"
	// RuleAppliedTwice: an idempotency key has at most one effective change, whatever the
	// fences of its repeats.
	RuleAppliedTwice Rule = "applied_twice"
	// RuleStartedTwice: a change that is not idempotent is accepted at most once for an
	// idempotency key, even if the first had no effect: its caller could not know.
	RuleStartedTwice Rule = "started_twice"
	// RuleTokenChanged: all accepted changes of an idempotency key have the same lock
	// token, because a job belongs to one acquisition of a lock.
	RuleTokenChanged Rule = "token_changed"
	// RuleKeyReused: an idempotency key belongs to one operation with one requested state.
	RuleKeyReused Rule = "key_reused"
)

// Violation is a rule that two entries of a device's log break.
type Violation struct {
	Device string `json:"device"`
	Rule   Rule   `json:"rule"`
	First  int    `json:"first"`  // sequence number of the earlier entry
	Second int    `json:"second"` // and of the one that breaks the rule
	Detail string `json:"detail"`
}

// String formats the violation in one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s: %s by entry %d after %d: %s", v.Device, v.Rule, v.Second, v.First, v.Detail)
}

// CheckLog returns the violations in a device's log. A refused change breaks no rule, since
// it had no effect. The log may come from a fleet in this process or from HTTP.
func CheckLog(device string, log []LogEntry) []Violation {
	var violations []Violation
	bySeq := map[int]LogEntry{}
	firstAccepted := map[string]LogEntry{}  // key: first accepted entry
	firstEffective := map[string]LogEntry{} // key: first effective entry
	var last *LogEntry
	for _, e := range log {
		bySeq[e.Seq] = e
		if !e.Accepted {
			continue
		}
		addViolation := func(rule Rule, first int, format string, args ...any) {
			violations = append(violations, Violation{Device: device, Rule: rule, First: first, Second: e.Seq, Detail: fmt.Sprintf(format, args...)})
		}
		if last != nil && e.Fence < last.Fence {
			addViolation(RuleFenceDecreased, last.Seq, "fence %s after %s", e.Fence, last.Fence)
		}
		last = &e
		if e.Overlap {
			other := bySeq[e.Overlaps]
			allowed := other.Token == e.Token && (other.IdempotencyKey == e.IdempotencyKey || e.CallerGone)
			if !allowed {
				addViolation(RuleOverlapped, e.Overlaps, "%s with fence %s during %s with fence %s", e.Operation, e.Fence, other.Operation, other.Fence)
			}
		}
		key := e.IdempotencyKey
		if first, repeated := firstAccepted[key]; !repeated {
			firstAccepted[key] = e
		} else {
			if first.Operation != e.Operation || first.Requested != e.Requested {
				addViolation(RuleKeyReused, first.Seq, "key %s for %s %s and %s %s", key, first.Operation, first.Requested, e.Operation, e.Requested)
			}
			if first.Token != e.Token {
				addViolation(RuleTokenChanged, first.Seq, "key %s with tokens %d and %d", key, first.Token, e.Token)
			}
			if e.Operation == OpTouch {
				addViolation(RuleStartedTwice, first.Seq, "key %s with fences %s and %s", key, first.Fence, e.Fence)
			}
		}
		if e.Effective {
			if first, repeated := firstEffective[key]; repeated {
				addViolation(RuleAppliedTwice, first.Seq, "key %s with fences %s and %s", key, first.Fence, e.Fence)
			} else {
				firstEffective[key] = e
			}
		}
	}
	return violations
}
